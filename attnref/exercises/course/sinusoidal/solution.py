"""Sinusoidal positions."""

import torch
from torch import Tensor


def sinusoidal(length: int, dim: int) -> Tensor:
    position = torch.arange(length)  # (n,)
    frequency = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # (d/2,), one for each pair
    angle = position[:, None] * frequency  # (n, d/2)
    # Stacked as pairs, then laid flat: sine, cosine, sine, cosine, …
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (n, d)
