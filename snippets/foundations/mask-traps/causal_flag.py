"""is_causal beside a mask: three functions, three readings."""

# --8<-- [start:example]
import attnref
import torch
from torch import nn
from torch.nn import functional as F

x = torch.zeros(1, 1, 4, 4)  # equal scores
value = torch.eye(4)[None, None]  # so that the output shows the weights
may = torch.ones(4, 4, dtype=torch.bool)
may[:, 1] = False  # key 1 is padding


def show(name, output):
    row = output.reshape(4, -1)[2]
    print(f"{name:22}", " ".join(f"{weight:.2f}" for weight in row))


print("query 2 of 4, key 1 forbidden")
both = attnref.scaled_dot_product_attention(x, x, value, may, is_causal=True)
show("attnref", both)

for width in (4, 3):
    try:
        part = value[..., :width]
        output = F.scaled_dot_product_attention(
            x, x, part, may, is_causal=True
        )
        show(f"PyTorch, d_v = {width}", output)
    except RuntimeError as error:
        print(f"PyTorch, d_v = {width}:  {str(error).split(': ')[1]}")

layer = nn.MultiheadAttention(4, 1, bias=False, batch_first=True)
state = {
    "in_proj_weight": torch.eye(4).repeat(3, 1),
    "out_proj.weight": torch.eye(4),
}
layer.load_state_dict(state)
for weights in (True, False):
    output, _ = layer(
        *(x[0], x[0], value[0]),
        attn_mask=~may,  # True = may not attend, here
        is_causal=True,  # "a hint", says its documentation
        need_weights=weights,
    )
    show(f"nn, need_weights={weights}", output)
# --8<-- [end:example]
