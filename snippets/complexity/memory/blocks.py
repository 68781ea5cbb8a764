"""Exact attention, while only one block of scores exists at a time."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.merge import merge

n, d, block = 1024, 64, 128
generator = torch.Generator().manual_seed(0)
q, k, v = (
    torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in "qkv"
)

whole = None
largest = 0
for keys, values in zip(k.split(block), v.split(block), strict=True):
    scores = q @ keys.T / d**0.5  # (n, block)
    largest = max(largest, scores.numel())
    part = scores.softmax(-1) @ values, scores.logsumexp(-1)
    whole = part if whole is None else merge(*whole, *part)

expected = attnref.scaled_dot_product_attention(q, k, v)
same = torch.allclose(whole[0], expected, rtol=0, atol=1e-12)
print("same output:", same)
print(f"scores held: {largest} instead of {n * n}")
# --8<-- [end:example]
