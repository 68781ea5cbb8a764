"""Fewer key heads than query heads: two errors, a wrong repair, the fix."""

# --8<-- [start:example]
import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
query = torch.randn(1, 6, 5, 8, generator=generator)  # 6 heads
sdpa = F.scaled_dot_product_attention

for heads, options in ((2, {}), (4, {"enable_gqa": True})):
    key = torch.randn(1, heads, 7, 8, generator=generator)
    try:
        sdpa(query, key, key, **options)
    except RuntimeError as error:
        print(f"{heads} key heads, {options}\n  {error}")

key, value = torch.randn(2, 1, 2, 7, 8, generator=generator)  # 2 heads
fixed = sdpa(query, key, value, enable_gqa=True)
for name, copy in (
    ("repeat", lambda x: x.repeat(1, 3, 1, 1)),
    ("repeat_interleave", lambda x: x.repeat_interleave(3, dim=1)),
):
    order = copy(torch.arange(2).view(1, 2, 1, 1)).flatten().tolist()
    same = torch.allclose(
        sdpa(query, copy(key), copy(value)), fixed, atol=1e-6
    )
    print(f"{name}: key heads {order}, as enable_gqa: {same}")
# --8<-- [end:example]
