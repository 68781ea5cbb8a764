"""Tokens with structure and without, and how far an output is from the exact one.

They are drawn in single precision, as in the programs of the pages: another precision draws other
numbers, and a figure would not show what is in the table beside it.
"""

import torch
from torch import Generator, Tensor


def waves(n: int, d: int, generator: Generator) -> Tensor:
    """A slow path: neighbours are nearly equal."""
    place = torch.arange(n, dtype=torch.float64)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator).double()
    return 2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))


def noise(n: int, d: int, generator: Generator) -> Tensor:
    """Independent Gaussian components: no structure at all."""
    return torch.randn(n, d, generator=generator).double()


def error(found: Tensor, exact: Tensor) -> float:
    """Relative to the exact output."""
    return float((found - exact).norm() / exact.norm())
