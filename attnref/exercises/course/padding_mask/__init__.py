"""The padding mask of a batch."""

from collections.abc import Iterator

from torch import Tensor, tensor

from attnref import masks
from attnref.exercises.grading import Case, Grader


def case(lengths: Tensor, m: int) -> Case:
    return Case({"lengths": lengths, "m": m}, masks.padding(lengths, m).dense())


def true_is_a_token() -> Iterator[Case]:
    yield case(tensor([2]), 2)


def count() -> Iterator[Case]:
    yield case(tensor([2]), 4)
    yield case(tensor([0]), 2)


def each_sample() -> Iterator[Case]:
    yield case(tensor([1, 3]), 3)
    yield case(tensor([4, 2, 3]), 5)


GRADER = Grader(checks=(true_is_a_token, count, each_sample))
