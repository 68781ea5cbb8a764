"""One wide tensor as several heads."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import Case, Grader


def case(num_heads: int, *shape: int) -> Case:
    """Numbers in the order of counting, so that each tells where it came from."""
    wide = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    return Case({"tensor": wide, "num_heads": num_heads}, _heads(wide, num_heads))


def _heads(wide: Tensor, num_heads: int) -> Tensor:
    """Head by head: each is a block of neighbouring columns."""
    return torch.stack(wide.chunk(num_heads, dim=-1), dim=-3)  # (..., h, n, d)


def blocks_of_columns() -> Iterator[Case]:
    # A single token: the order of tokens and heads stays unseen.
    yield case(2, 1, 4)


def tokens() -> Iterator[Case]:
    yield case(2, 2, 2)
    yield case(2, 3, 4)


def batch() -> Iterator[Case]:
    yield case(2, 2, 1, 2)
    yield case(3, 2, 5, 6)


GRADER = Grader(checks=(blocks_of_columns, tokens, batch), usual=((batch, "shape"),))
