"""The mask of a tree of drafts, behind a cache."""

from collections.abc import Iterator

from attnref import masks
from attnref.exercises.grading import Case, Grader


def case(parents: list[int], past: int) -> Case:
    return Case({"parents": parents, "past": past}, masks.tree(parents, past=past).dense())


def itself() -> Iterator[Case]:
    yield case([-1], 0)


def upwards() -> Iterator[Case]:
    yield case([-1, 0], 0)
    yield case([-1, 0, 0], 0)


def all_the_way() -> Iterator[Case]:
    yield case([-1, 0, 1], 0)
    yield case([-1, 0, 0, 1, 3], 0)


def cache() -> Iterator[Case]:
    yield case([-1, 0], 2)
    yield case([-1, -1, 0, 0], 3)


def any_order() -> Iterator[Case]:
    yield case([1, -1], 0)
    yield case([1, 2, -1], 0)
    yield case([2, 0, -1, 1, 0], 2)


GRADER = Grader(checks=(itself, upwards, all_the_way, cache, any_order), usual=((cache, "shape"),))
