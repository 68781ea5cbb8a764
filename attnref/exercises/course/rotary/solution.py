"""Rotary positions."""

import torch
from torch import Tensor


def rotary(x: Tensor, offset: int = 0) -> Tensor:
    n, d = x.shape[-2:]
    position = torch.arange(offset, offset + n)  # (n,)
    frequency = 10_000.0 ** (-torch.arange(0, d, 2) / d)  # (d/2,)
    angle = position[:, None] * frequency  # (n, d/2), the same for all heads
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., n, d/2): the two coordinates of each pair
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2)  # (..., n, d)
