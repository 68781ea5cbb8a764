"""Attention of all queries at once, not yet scaled."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import SIX_WORDS, rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor) -> Case:
    output = oracle.attend(query, key, value, scale=1.0).output
    return Case({"query": query, "key": key, "value": value}, to_single(output))


def roles() -> Iterator[Case]:
    # Each query matches one key alone, so the weights are 0 and 1 along rows and columns.
    yield case(
        rows([10.0, 0.0], [0.0, 10.0]), rows([10.0, 0.0], [0.0, 10.0]), rows([1.0, 2.0], [3.0, 4.0])
    )


def shares() -> Iterator[Case]:
    yield case(
        rows([1.0, 0.0], [0.0, 0.0]), rows([1.0, 0.0], [0.0, 1.0], [2.0, 0.0]), torch.ones(3, 1)
    )


def numbers() -> Iterator[Case]:
    yield case(rows([1.0, 0.0]), rows([1.0, 0.0], [0.0, 1.0]), rows([10.0], [20.0]))
    yield case(SIX_WORDS, SIX_WORDS, SIX_WORDS)


def batch() -> Iterator[Case]:
    yield case(tenths(2, 1, 2), tenths(2, 2, 2, seed=1), tenths(2, 2, 1, seed=2))
    yield case(tenths(2, 3, 5, 2), tenths(2, 3, 7, 2, seed=1), tenths(2, 3, 7, 3, seed=2))


GRADER = Grader(
    checks=(roles, shares, numbers, batch),
    without=ATTENTION,
    # All that does not depend on the scale.
    properties=(
        "shape",
        "row_sums",
        "convexity",
        "key_permutation",
        "value_linearity",
        "batch_independence",
        "head_independence",
        "rectangular",
        "value_width",
    ),
)
