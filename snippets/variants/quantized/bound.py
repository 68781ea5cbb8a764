"""Scores that err by at most eps move weights by tanh(eps/2)."""

# --8<-- [start:example]
import torch

generator = torch.Generator().manual_seed(0)
scores = torch.randn(100_000, 5, generator=generator, dtype=torch.float64)
signs = torch.randn(scores.shape, generator=generator).sign()
p = scores.softmax(-1)

print("eps   worst of 100000 rows  two keys  tanh(eps/2)")
for eps in (0.01, 0.1, 0.5, 1.0, 2.0):
    moved = (scores + eps * signs).softmax(-1)
    variation = (moved - p).abs().sum(-1).max() / 2
    pair = torch.tensor([-eps, eps], dtype=torch.float64)
    extreme = ((pair / 2).softmax(0) - (-pair / 2).softmax(0)).abs().sum() / 2
    bound = torch.tensor(eps / 2).tanh()
    print(f"{eps:4}  {variation:20.4f}  {extreme:8.4f}  {bound:11.4f}")
# --8<-- [end:example]
