"""One product of random features: its mean and its variance."""

# --8<-- [start:example]
import torch
from attnref import random_projection

d, draws = 8, 1_000_000
generator = torch.Generator().manual_seed(0)
w = random_projection(
    draws, d, orthogonal=False, generator=generator, dtype=torch.float64
)

print("|x|  |y|   x.y  e^(x.y)   mean  variance  formula")
for length, other in ((0.3, 0.3), (0.6, 0.6), (0.6, -0.6)):
    x = torch.zeros(d, dtype=torch.float64)
    y = x.clone()
    x[0], y[0] = length, other
    exponents = [w @ t - t.square().sum() / 2 for t in (x, y)]
    products = sum(exponents).exp()  # one estimate for each feature
    power = (x @ y).exp()
    formula = power**2 * torch.expm1((x + y).square().sum())
    print(
        f"{x.norm():.1f}  {y.norm():.1f} {x @ y:5.2f}  {power:7.3f}"
        f"  {products.mean():5.3f}  {products.var():8.3f}  {formula:7.3f}"
    )

print("\nfeatures that make the spread as large as the power itself")
for d_k in (16, 64, 128):
    print(f"d_k = {d_k:3}: {torch.tensor(2 * d_k**0.5).expm1().item():.1e}")
# --8<-- [end:example]
