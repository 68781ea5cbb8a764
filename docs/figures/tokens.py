"""Tokens with structure and without, and how far an output is from the exact one."""

import torch
from torch import Generator, Tensor


def waves(n: int, d: int, generator: Generator) -> Tensor:
    """A slow path: neighbours are nearly equal."""
    place = torch.arange(n, dtype=torch.float64)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator, dtype=torch.float64)
    return 2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))


def noise(n: int, d: int, generator: Generator) -> Tensor:
    """Independent Gaussian components: no structure at all."""
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def error(found: Tensor, exact: Tensor) -> float:
    """Relative to the exact output."""
    return float((found - exact).norm() / exact.norm())
