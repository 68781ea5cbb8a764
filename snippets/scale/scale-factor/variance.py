"""The variance of q·k, and what each scale factor leaves of it."""

# --8<-- [start:example]
import torch

pairs = 20_000
generator = torch.Generator().manual_seed(0)

print(" d_k    no scale  1/sqrt(d_k)     1/d_k")
for d_k in (16, 64, 256, 1024):
    q = torch.randn(pairs, d_k, generator=generator)
    k = torch.randn(pairs, d_k, generator=generator)
    products = (q * k).sum(dim=-1)
    none, root, full = (
        (factor * products).var() for factor in (1.0, d_k**-0.5, 1 / d_k)
    )
    print(f"{d_k:4}  {none:10.2f}  {root:11.3f}  {full:8.5f}")
# --8<-- [end:example]
