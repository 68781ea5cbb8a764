"""Attention with its scale factor."""

from collections.abc import Iterator

from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Arguments, Case, Grader
from attnref.exercises.samples import rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Case:
    arguments: Arguments = {"query": query, "key": key, "value": value}
    if scale is not None:
        arguments["scale"] = scale
    output = oracle.attend(query, key, value, scale=scale).output
    return Case(arguments, to_single(output))


def square_root() -> Iterator[Case]:
    # n = m = d_k = d_v = 4: a factor from the wrong one of them stays unseen.
    yield case(tenths(4, 4), tenths(4, 4, seed=1), tenths(4, 4, seed=2))


def width() -> Iterator[Case]:
    yield case(rows([2.0, 0.0, 0.0, 0.0]), rows([2.0, 0, 0, 0], [0.0, 0, 0, 0]), rows([1.0], [0.0]))
    yield case(tenths(2, 3, 5, 8), tenths(2, 3, 7, 8, seed=1), tenths(2, 3, 7, 3, seed=2))


def given_scale() -> Iterator[Case]:
    four = rows([2.0, 0.0, 0.0, 0.0])
    yield case(four, rows([2.0, 0, 0, 0], [0.0, 0, 0, 0]), rows([1.0], [0.0]), scale=0.25)


def scale_of_zero() -> Iterator[Case]:
    yield case(rows([1.0]), rows([1.0], [0.0]), rows([1.0], [0.0]), scale=0.0)


GRADER = Grader(
    checks=(square_root, width, given_scale, scale_of_zero),
    without=ATTENTION,
    properties=(
        "row_sums",
        "convexity",
        "oracle",
        "scale",
        "key_permutation",
        "shift_invariance",
        "value_linearity",
        "batch_independence",
        "head_independence",
        "rectangular",
        "value_width",
    ),
)
