"""Which positions a rank holds, so that all have the same work."""

from collections.abc import Iterator

import torch

from attnref.exercises.grading import Case, Grader
from attnref.layouts import rank_positions


def case(n: int, ranks: int, rank: int) -> Case:
    parts = rank_positions(n, ranks=ranks, rank=rank, layout="zigzag")
    positions = [position for part in parts for position in part]
    arguments = {"n": n, "ranks": ranks, "rank": rank}
    return Case(arguments, torch.tensor(positions, dtype=torch.int64))


def both_ends() -> Iterator[Case]:
    # Pieces of one position, whose order inside plays no part.
    yield case(4, 2, 0)
    yield case(6, 3, 1)
    yield case(6, 3, 2)


def in_order() -> Iterator[Case]:
    yield case(8, 2, 0)
    yield case(24, 3, 1)


def uneven() -> Iterator[Case]:
    yield case(7, 2, 0)
    yield case(7, 2, 1)
    yield case(29, 3, 2)


def nothing() -> Iterator[Case]:
    yield case(1, 2, 1)
    yield case(3, 4, 3)


GRADER = Grader(
    checks=(both_ends, in_order, uneven, nothing), usual=((uneven, "shape"), (nothing, "dtype"))
)
