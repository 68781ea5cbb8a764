"""The gradients of attention, by hand."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths, to_single


def case(grad_output: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Case:
    found = oracle.gradients(grad_output, query, key, value)
    expected = tuple(to_single(each) for each in (found.query, found.key, found.value))
    arguments = {"grad_output": grad_output, "query": query, "key": key, "value": value}
    return Case(arguments, expected)


def value_gradient() -> Iterator[Case]:
    # Queries and keys of 0: their gradients are 0 too, and the weights are plain shares.
    yield case(rows([1.0], [2.0], [3.0]), torch.zeros(3, 1), torch.zeros(2, 1), rows([1.0], [2.0]))
    # One query that sees one key almost alone, and one that sees both.
    yield case(rows([1.0], [0.0]), rows([8.0], [0.0]), rows([8.0], [-8.0]), rows([0.0], [0.0]))


def through_the_softmax() -> Iterator[Case]:
    yield case(rows([1.0]), rows([1.0]), rows([0.0], [1.0]), rows([1.0], [3.0]))
    yield case(tenths(3, 2), tenths(3, 1, seed=1), tenths(5, 1, seed=2), tenths(5, 2, seed=3))


def scale() -> Iterator[Case]:
    yield case(tenths(1, 1), tenths(1, 4, seed=1), tenths(2, 4, seed=2), tenths(2, 1, seed=3))


def batch() -> Iterator[Case]:
    key, value = tenths(2, 3, 5, 4, seed=2), tenths(2, 3, 5, 2, seed=3)
    yield case(tenths(2, 3, 7, 2), tenths(2, 3, 7, 4, seed=1), key, value)


GRADER = Grader(
    checks=(value_gradient, through_the_softmax, scale, batch),
    without=ATTENTION | {"backward"},
    usual=((value_gradient, "shape"), (value_gradient, "RuntimeError"), (batch, "RuntimeError")),
)
