"""is_causal beside a padding mask: refused, half read, and combined."""

# --8<-- [start:example]
import attnref
import torch
from attnref.masks import causal, padding
from torch import nn
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
x = torch.randn(1, 4, 8, generator=generator)
narrow = x[..., :7]  # values as wide as the queries are not refused
may = padding([3], 4).dense()[0, 0].expand(4, 4)  # key 3 is padding
both = (causal(4) & padding([3], 4)).dense()[0, 0]  # (4, 4), True = may

try:
    F.scaled_dot_product_attention(x, x, narrow, may, is_causal=True)
except RuntimeError as error:
    print(error)

layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
right, _ = layer(x, x, x, attn_mask=~both)  # True = may not, here
for need in (True, False):
    flagged, _ = layer(
        x, x, x, attn_mask=~may, is_causal=True, need_weights=need
    )
    same = torch.allclose(flagged, right, atol=1e-6)
    print(f"layer, need_weights={need}, both are obeyed: {same}")

fixed = F.scaled_dot_product_attention(x, x, narrow, both)
ours = attnref.scaled_dot_product_attention(x, x, narrow, may, is_causal=True)
print("combined, as attnref:", torch.allclose(fixed, ours, atol=1e-6))
# --8<-- [end:example]
