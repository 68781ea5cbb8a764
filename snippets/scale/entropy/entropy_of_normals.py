"""Entropy of Gaussian scores: ln n - variance/2, until they freeze."""

# --8<-- [start:example]
import math

import torch
from attnref import softmax

n, rows = 1024, 1000
generator = torch.Generator().manual_seed(0)
scores = torch.randn(rows, n, generator=generator)

print(f"n = {n}, ln n = {math.log(n):.2f}")
print("deviation  measured  law   e^H   1/sum p^2  1/max p")
for deviation in (0.25, 0.5, 1.0, 2.0, 3.0, 3.72, 5.0, 8.0):
    p = softmax.stable(deviation * scores)
    entropy = softmax.entropy(p)
    law = math.log(n) - deviation**2 / 2
    print(
        f"{deviation:9.2f}  {entropy.mean():8.2f}  {law:5.2f}"
        f"  {entropy.exp().mean():6.1f}"
        f"  {p.square().sum(-1).reciprocal().mean():6.1f}"
        f"  {p.amax(-1).reciprocal().mean():6.1f}"
    )
# --8<-- [end:example]
