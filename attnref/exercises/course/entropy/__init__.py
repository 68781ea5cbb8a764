"""The entropy of the weights."""

from collections.abc import Iterator

from torch import Tensor

from attnref import softmax
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows


def case(weights: Tensor) -> Case:
    return Case({"weights": weights}, softmax.entropy(weights.double()).float())


def all_alike() -> Iterator[Case]:
    yield case(row(0.5, 0.5))
    yield case(row(0.25, 0.25, 0.25, 0.25))


def weighted() -> Iterator[Case]:
    yield case(row(0.9, 0.1))


def weight_of_zero() -> Iterator[Case]:
    yield case(row(1.0, 0.0))


def each_row() -> Iterator[Case]:
    yield case(rows([0.5, 0.5], [0.9, 0.1], [0.2, 0.8]))


GRADER = Grader(
    checks=(all_alike, weighted, weight_of_zero, each_row), usual=((each_row, "shape"),)
)
