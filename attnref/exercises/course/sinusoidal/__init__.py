"""Sinusoidal positions."""

from collections.abc import Iterator

from attnref import positions
from attnref.exercises.grading import Case, Grader


def case(length: int, dim: int) -> Case:
    return Case({"length": length, "dim": dim}, positions.sinusoidal(length, dim))


def first_row() -> Iterator[Case]:
    yield case(1, 4)


def fastest_pair() -> Iterator[Case]:
    yield case(3, 2)


def frequencies() -> Iterator[Case]:
    yield case(2, 4)
    yield case(31, 6)


GRADER = Grader(checks=(first_row, fastest_pair, frequencies))
