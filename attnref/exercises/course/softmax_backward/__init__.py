"""The gradient of the scores from that of the weights."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import softmax
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows, tenths


def case(weights: Tensor, grad: Tensor) -> Case:
    product = softmax.jacobian_product(weights.double(), grad.double())
    return Case({"weights": weights, "grad": grad}, product.float())


def constant() -> Iterator[Case]:
    yield case(row(0.25, 0.75), row(1.0, 1.0))


def weighted_mean() -> Iterator[Case]:
    yield case(row(0.25, 0.75), row(1.0, 0.0))


def each_row() -> Iterator[Case]:
    yield case(rows([0.25, 0.75], [0.5, 0.5]), rows([1.0, 0.0], [0.0, 2.0]))
    yield case(torch.softmax(tenths(2, 3, 5), -1), tenths(2, 3, 5, seed=1))


GRADER = Grader(checks=(constant, weighted_mean, each_row))
