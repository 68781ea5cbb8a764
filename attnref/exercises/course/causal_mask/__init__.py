"""The causal mask, for a sequence and for its last tokens."""

from collections.abc import Iterator

from attnref import masks
from attnref.exercises.grading import Case, Grader


def case(n: int, m: int) -> Case:
    return Case({"n": n, "m": m}, masks.causal(n, m, alignment="bottom-right").dense())


def own_token() -> Iterator[Case]:
    yield case(1, 1)


def future() -> Iterator[Case]:
    yield case(2, 2)
    yield case(5, 5)


def cached() -> Iterator[Case]:
    yield case(1, 2)
    yield case(2, 5)


GRADER = Grader(checks=(own_token, future, cached))
