"""The variance of q·k grows with d_k, and what each scale factor leaves of it."""

# --8<-- [start:example]
import torch
from attnref import scaling

pairs = 20_000
generator = torch.Generator().manual_seed(0)

print(" d_k    no scale  1/sqrt(d_k)     1/d_k")
for d_k in (16, 64, 256, 1024):
    q = torch.randn(pairs, d_k, generator=generator)
    k = torch.randn(pairs, d_k, generator=generator)
    products = (q * k).sum(dim=-1)
    variances = [
        (factor(d_k) * products).var().item()
        for factor in (scaling.unscaled, scaling.inverse_sqrt, scaling.inverse)
    ]
    print(
        f"{d_k:4}  {variances[0]:10.2f}  {variances[1]:11.3f}  {variances[2]:8.5f}"
    )
# --8<-- [end:example]
