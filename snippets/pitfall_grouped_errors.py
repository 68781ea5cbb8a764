"""Fewer key heads than query heads: two errors of PyTorch, and the cure."""

# --8<-- [start:example]
import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
query = torch.randn(1, 6, 5, 8, generator=generator)  # 6 heads

for heads, options in ((2, {}), (4, {"enable_gqa": True})):
    key = torch.randn(1, heads, 5, 8, generator=generator)
    try:
        F.scaled_dot_product_attention(query, key, key, **options)
    except RuntimeError as error:
        print(f"{heads} key heads, {options}\n  {error}")

key = torch.randn(1, 2, 5, 8, generator=generator)
cured = F.scaled_dot_product_attention(query, key, key, enable_gqa=True)
copies = key.repeat_interleave(3, dim=1)  # 0 0 0 1 1 1
same = F.scaled_dot_product_attention(query, copies, copies)
print("enable_gqa=True, as with copies:", torch.allclose(cured, same))
# --8<-- [end:example]
