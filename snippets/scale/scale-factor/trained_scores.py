"""After training q and k are correlated: the mean score grows."""

# --8<-- [start:example]
import torch

pairs, rho = 20_000, 0.36
generator = torch.Generator().manual_seed(0)

print(" d_k  mean of q.k/sqrt(d_k)  mean of q.k/d_k")
for d_k in (16, 64, 256, 1024):
    q = torch.randn(pairs, d_k, generator=generator)
    noise = torch.randn(pairs, d_k, generator=generator)
    k = rho * q + (1 - rho**2) ** 0.5 * noise  # variance 1, correlation rho
    mean = (q * k).sum(dim=-1).mean()
    print(f"{d_k:4}  {mean / d_k**0.5:21.2f}  {mean / d_k:15.3f}")
# --8<-- [end:example]
