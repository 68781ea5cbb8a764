"""Dropout on the six weights of "journey": five draws."""

# --8<-- [start:example]
import torch

weights = torch.tensor([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])
rate = 0.5
generator = torch.Generator().manual_seed(0)


def show(name, row):
    numbers = "  ".join(f"{weight:.4f}" for weight in row)
    print(f"{name:4}  {numbers}  sum {row.sum():.4f}")


show("all", weights)
for draw in range(1, 6):
    keep = torch.rand(6, generator=generator) >= rate
    show(draw, torch.where(keep, weights / (1 - rate), 0.0))
# --8<-- [end:example]
