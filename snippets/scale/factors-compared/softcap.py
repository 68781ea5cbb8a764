"""Soft-capped scores: the largest weight as queries grow."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.softcap import softcap_attention

n, d, cap = 64, 64, 3.0
generator = torch.Generator().manual_seed(0)
q, k = torch.randn(2, n, d, generator=generator)
eye = torch.eye(n)  # with these values, the output is the weights

print("queries  largest weight, mean over rows")
print("          plain  capped")
for size in (1, 4, 16, 64):
    plain = attnref.scaled_dot_product_attention(size * q, k, eye)
    capped = softcap_attention(size * q, k, eye, cap=cap)
    means = [p.amax(-1).mean().item() for p in (plain, capped)]
    print(f"x {size:4}  {means[0]:7.3f} {means[1]:7.3f}")

whole = attnref.scaled_dot_product_attention(q, k, eye, softcap=cap)
mini = softcap_attention(q, k, eye, cap=cap)
print("as the whole function:", torch.allclose(whole, mini))
# --8<-- [end:example]
