"""The sliding window."""

from collections.abc import Iterator

from attnref import masks
from attnref.exercises.grading import Case, Grader


def case(n: int, window: int) -> Case:
    return Case(
        {"n": n, "window": window}, masks.sliding_window(n, window=window, is_causal=True).dense()
    )


def own_token() -> Iterator[Case]:
    yield case(1, 1)


def future() -> Iterator[Case]:
    # As wide as the sequence: the lower end of the window is out of sight.
    yield case(2, 2)


def count() -> Iterator[Case]:
    yield case(2, 1)
    yield case(5, 2)
    yield case(7, 3)


GRADER = Grader(checks=(own_token, future, count))
