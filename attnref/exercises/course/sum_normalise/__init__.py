"""Scores divided by their sum."""

from collections.abc import Iterator

from torch import Tensor

from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import JOURNEY, SIX_WORDS, row, rows


def case(scores: Tensor) -> Case:
    return Case({"scores": scores}, scores / scores.sum(-1, keepdim=True))


def sums_to_one() -> Iterator[Case]:
    # Equal scores: every rule that makes shares of a whole agrees on them.
    yield case(row(2.0, 2.0))


def ratios() -> Iterator[Case]:
    yield case(row(1.0, 3.0))
    yield case(SIX_WORDS @ SIX_WORDS[JOURNEY])


def each_row() -> Iterator[Case]:
    yield case(rows([1.0, 3.0, 4.0], [1.0, 1.0, 2.0]))


GRADER = Grader(checks=(sums_to_one, ratios, each_row), usual=((each_row, "RuntimeError"),))
