"""Rotary positions."""

from collections.abc import Iterator

from torch import Tensor

from attnref import positions
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import rows, tenths


def case(x: Tensor, **offset: int) -> Case:
    return Case({"x": x} | offset, positions.rotary(x, offset=offset.get("offset", 0)))


def position_zero() -> Iterator[Case]:
    yield case(rows([1.0, 2.0]))


def direction() -> Iterator[Case]:
    # A single pair: which components make one stays unseen.
    yield case(rows([1.0, 0.0], [1.0, 0.0]))


def pairs() -> Iterator[Case]:
    yield case(rows([1.0, 0, 0, 0], [1.0, 0, 0, 0]))
    yield case(tenths(7, 6))


def offset() -> Iterator[Case]:
    yield case(rows([1.0, 0.0]), offset=1)
    yield case(tenths(3, 4), offset=5)


def heads() -> Iterator[Case]:
    yield case(tenths(2, 1, 2))
    yield case(tenths(2, 3, 5, 4))


GRADER = Grader(checks=(position_zero, direction, pairs, offset, heads))
