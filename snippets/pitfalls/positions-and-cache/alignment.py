"""is_causal=True with a cache: one new query, then three, and the fix."""

# --8<-- [start:example]
import torch
from attnref.masks import causal
from torch.nn import functional as F

sdpa = F.scaled_dot_product_attention
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 7, 8, generator=generator)
whole = sdpa(query, key, value, is_causal=True)  # without a cache

for new in (1, 3):  # so many new queries, seven keys in the cache
    last = query[-new:]
    mask = causal(new, 7, alignment="bottom-right").dense()
    for name, step in (
        ("is_causal=True", sdpa(last, key, value, is_causal=True)),
        ("bottom-right", sdpa(last, key, value, attn_mask=mask)),
    ):
        same = torch.allclose(step, whole[-new:], atol=1e-6)
        first = torch.equal(step[0], value[0])
        print(f"{new} new, {name}: right: {same}, is value 0: {first}")
# --8<-- [end:example]
