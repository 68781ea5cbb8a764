"""Decode six tokens with a cache, and compare with one causal pass."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.kv_cache import cached_attention_step

generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, 6, 8, generator=generator, dtype=torch.float64)
whole = attnref.scaled_dot_product_attention(q, k, v, is_causal=True)  # (6, 8)

pieces = (3, 1, 2)  # a prompt, one token, two at once
cache = None
for new_q, new_k, new_v, rows in zip(
    *(x.split(pieces) for x in (q, k, v, whole)), strict=True
):
    output, cache = cached_attention_step(new_q, new_k, new_v, cache)
    same = torch.allclose(output, rows, rtol=0, atol=1e-12)
    print(
        f"queries: {len(new_q)}, keys: {len(cache[0])}, "
        f"rows of the whole pass: {same}"
    )
# --8<-- [end:example]
