"""A factor read off the past: how well each row knows the variance."""

# --8<-- [start:example]
import torch
from attnref import adaptive_scaling

draws, n, d_k = 500, 128, 64
generator = torch.Generator().manual_seed(0)
q, k = torch.randn(2, draws, n, d_k, generator=generator)

c = adaptive_scaling.from_past(q, k)[..., 0]  # (draws, n)
estimate = c**-2 / d_k  # 1 where it is the variance of the scores
levels = torch.tensor([0.05, 0.5, 0.95])
print("row  mean    5 %   50 %   95 %")
for row in (2, 4, 8, 32, 128):
    found = estimate[:, row - 1]
    shares = "  ".join(f"{x:5.2f}" for x in found.quantile(levels))
    print(f"{row:3}  {found.mean():4.2f}  {shares}")
# --8<-- [end:example]
