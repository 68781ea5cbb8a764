"""Mean and variance of q·k when each query resembles its key."""

# --8<-- [start:example]
import torch

pairs, d_k = 40_000, 64
generator = torch.Generator().manual_seed(0)


def gaussian(rho):
    q, noise = torch.randn(2, pairs, d_k, generator=generator)
    return q, rho * q + (1 - rho**2) ** 0.5 * noise


def signs(rho):
    """Each component of k repeats that of q with probability (1 + rho)/2."""
    q = torch.randn(pairs, d_k, generator=generator).sign()
    luck = torch.rand(pairs, d_k, generator=generator)
    return q, torch.where(luck < (1 + rho) / 2, q, -q)


print("components  rho  mean/d_k  var/d_k")
for draw in (gaussian, signs):
    for rho in (0.0, 0.3, 0.6, 0.9):
        q, k = draw(rho)
        dots = (q * k).sum(-1)
        print(
            f"{draw.__name__:10}  {rho}  {dots.mean() / d_k:z8.2f}"
            f"  {dots.var() / d_k:7.2f}"
        )
# --8<-- [end:example]
