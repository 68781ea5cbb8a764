"""Attention whose query heads share keys and values."""

from collections.abc import Iterator

from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor) -> Case:
    output = oracle.attend(query, key, value, enable_gqa=True).output
    return Case({"query": query, "key": key, "value": value}, to_single(output))


def as_many() -> Iterator[Case]:
    yield case(tenths(2, 1, 2), tenths(2, 2, 2, seed=1), tenths(2, 2, 1, seed=2))


def neighbours_share() -> Iterator[Case]:
    # A single key: the output is the value of the head that was read.
    yield case(tenths(4, 1, 1), tenths(2, 1, 1, seed=1), tenths(2, 1, 1, seed=2))
    yield case(tenths(4, 3, 2), tenths(2, 5, 2, seed=1), tenths(2, 5, 3, seed=2))


def any_group() -> Iterator[Case]:
    yield case(tenths(3, 1, 1), tenths(1, 2, 1, seed=1), tenths(1, 2, 1, seed=2))
    yield case(tenths(6, 2, 2), tenths(2, 3, 2, seed=1), tenths(2, 3, 2, seed=2))


def batch() -> Iterator[Case]:
    yield case(tenths(2, 4, 3, 2), tenths(2, 2, 5, 2, seed=1), tenths(2, 2, 5, 3, seed=2))


GRADER = Grader(
    checks=(as_many, neighbours_share, any_group, batch),
    without=ATTENTION,
    properties=("oracle", "scale", "batch_independence", "head_independence", "strided"),
    usual=((any_group, "RuntimeError"), (batch, "RuntimeError")),
)
