"""ALiBi: scores that fall with distance."""

from collections.abc import Iterator

from attnref import positions
from attnref.exercises.grading import Case, Grader


def case(num_heads: int, n: int) -> Case:
    return Case({"num_heads": num_heads, "n": n}, positions.alibi(num_heads, n))


def distance() -> Iterator[Case]:
    # The slope 1/256 of a single head, times distances up to 50.
    yield case(1, 3)
    yield case(1, 51)


def slopes() -> Iterator[Case]:
    yield case(2, 2)
    yield case(8, 3)


GRADER = Grader(checks=(distance, slopes))
