"""One tensor of booleans, three readings of it."""

# --8<-- [start:example]
import torch
from torch import nn
from torch.nn import functional as F

past = torch.ones(4, 4, dtype=torch.bool).tril()  # True where key <= query
x = torch.zeros(1, 4, 4)  # all scores are 0: equal weights where allowed
value = torch.eye(4)[None]  # so that the output shows the weights

layer = nn.MultiheadAttention(4, 1, batch_first=True)
for parameter in layer.parameters():
    nn.init.zeros_(parameter)


def show(name, weights):
    print(name)
    for i in (0, 3):
        numbers = " ".join(f"{weight:5.2f}" for weight in weights[0, i])
        print(f"  query {i}: {numbers}")


sdpa = F.scaled_dot_product_attention
show("F.scaled_dot_product_attention, past", sdpa(x, x, value, attn_mask=past))
show("nn.MultiheadAttention, past", layer(x, x, x, attn_mask=past)[1])
show("nn.MultiheadAttention, ~past", layer(x, x, x, attn_mask=~past)[1])

added = torch.zeros(4, 4).masked_fill(~past, -torch.inf)  # 0 keeps, -inf drops
show("added to the scores", torch.softmax(x + added, dim=-1))
drop = added == 0  # how a mask of 0 and 1 is read in many listings
show("read as 0 = drop", torch.softmax(x.masked_fill(drop, -torch.inf), -1))
# --8<-- [end:example]
