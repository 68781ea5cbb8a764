"""Division by the sum, on scores as an untrained head gives them."""

# --8<-- [start:example]
import torch
from attnref import softmax

generator = torch.Generator().manual_seed(0)
scores = torch.randn(10_000, 64, generator=generator)  # (rows, keys)

print("         rows with a      largest weight in size")
print("         negative weight  median  one row of 100 above")
for name, weights in {
    "sum": scores / scores.sum(-1, keepdim=True),
    "softmax": softmax.stable(scores),
}.items():
    negative = (weights < 0).any(-1).float().mean()
    largest = weights.abs().amax(-1)
    print(
        f"{name:8} {negative:15.0%}  {largest.median():6.2f}"
        f"  {largest.quantile(0.99):20.2f}"
    )
# --8<-- [end:example]
