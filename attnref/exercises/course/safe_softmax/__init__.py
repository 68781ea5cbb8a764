"""Softmax of rows that may have nothing to see."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import softmax
from attnref.exercises.grading import Case, Grader, gradient_of
from attnref.exercises.samples import row, rows

NONE = -torch.inf


def case(scores: Tensor) -> Case:
    return Case({"scores": scores}, softmax.stable(scores))


def gradient(scores: Tensor, upstream: Tensor) -> Case:
    weights = softmax.stable(scores)
    expected = softmax.jacobian_product(weights, upstream)
    return Case({"scores": scores}, expected, gradient_of("scores", upstream))


def ordinary_rows() -> Iterator[Case]:
    yield case(row(0.0, NONE, 1.0))
    yield case(rows([1.0, 2.0], [NONE, 1000.0]))


def empty_row() -> Iterator[Case]:
    yield case(row(NONE, NONE))


def other_rows() -> Iterator[Case]:
    yield case(rows([NONE, NONE], [0.0, 0.0]))


def gradients() -> Iterator[Case]:
    yield gradient(row(NONE, NONE), row(1.0, 2.0))
    yield gradient(rows([NONE, NONE, NONE], [0.0, NONE, 1.0]), rows([1.0, 2, 3], [4.0, 5, 6]))


GRADER = Grader(checks=(ordinary_rows, empty_row, other_rows, gradients))
