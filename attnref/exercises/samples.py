"""Inputs of the cases: the book's six words, and random tensors that are short to read."""

import torch
from torch import Tensor

from attnref.oracle import Array

# "Your journey starts with one step", the running example of the book.
SIX_WORDS = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
JOURNEY = 1


def row(*numbers: float) -> Tensor:
    """A vector, ``(len(numbers),)``."""
    return torch.tensor(numbers)


def rows(*vectors: list[float]) -> Tensor:
    """A matrix, one vector per row."""
    return torch.tensor(vectors)


def tenths(*shape: int, seed: int = 0) -> Tensor:
    """Normal random numbers, rounded to tenths.

    Examples:
        >>> tenths(2, 3)
        tensor([[ 1.5000, -0.3000, -2.2000],
                [ 0.6000, -1.1000, -1.4000]])
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).mul(10).round().div(10)


def to_single(array: Array) -> Tensor:
    """What the oracle computed in float64, rounded once to float32."""
    return torch.as_tensor(array, dtype=torch.float32)
