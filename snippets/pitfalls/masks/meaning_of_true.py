"""A causal mask of one half of PyTorch, given to the other half."""

# --8<-- [start:example]
import torch
from torch import nn
from torch.nn import functional as F

past = torch.ones(4, 4, dtype=torch.bool).tril()  # True = may attend
x = torch.zeros(1, 4, 4)  # all scores are 0: equal weights where allowed
layer = nn.MultiheadAttention(4, 1, batch_first=True)

sdpa = F.scaled_dot_product_attention(x, x, torch.eye(4)[None], past)
for name, weights in (
    ("F.scaled_dot_product_attention, past", sdpa),
    ("nn.MultiheadAttention, past", layer(x, x, x, attn_mask=past)[1]),
    ("nn.MultiheadAttention, ~past", layer(x, x, x, attn_mask=~past)[1]),
):
    print(name)
    for i in (0, 3):
        print(f"  query {i}:", *(f"{w:.2f}" for w in weights[0, i]))
# --8<-- [end:example]
