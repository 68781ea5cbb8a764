"""Softmax that does not overflow."""

from collections.abc import Iterator

from torch import Tensor

from attnref import softmax
from attnref.exercises.grading import SOFTMAX, Case, Grader
from attnref.exercises.samples import JOURNEY, SIX_WORDS, row, rows


def case(scores: Tensor) -> Case:
    return Case({"scores": scores}, softmax.stable(scores))


def differences() -> Iterator[Case]:
    yield case(row(1.0, 2.0))
    yield case(SIX_WORDS @ SIX_WORDS[JOURNEY])


def each_row() -> Iterator[Case]:
    yield case(rows([0.0, 1.0, 1.0], [2.0, 0.0, 1.0]))


def large_scores() -> Iterator[Case]:
    # A shift by the mean or by the smallest score is enough here.
    yield case(row(1000.0, 1001.0))


def spread_scores() -> Iterator[Case]:
    yield case(row(0.0, 0.0, 0.0, 1000.0))


def own_maximum() -> Iterator[Case]:
    yield case(rows([0.0, 1.0], [1000.0, 1001.0]))


GRADER = Grader(
    checks=(differences, each_row, large_scores, spread_scores, own_maximum),
    without=SOFTMAX,
    usual=((each_row, "RuntimeError"),),
)
