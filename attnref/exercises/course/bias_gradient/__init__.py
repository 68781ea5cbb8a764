"""The gradient of a bias that depends on the distance."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import rows, tenths
from attnref.positions import distances


def case(grad: Tensor) -> Case:
    n, m = grad.shape[-2:]
    t = distances(n, m, alignment="top-left")  # (n + m - 1,)
    apart = torch.arange(m) - torch.arange(n)[:, None]  # (n, m)
    bias = torch.zeros(*grad.shape[:-2], len(t), dtype=torch.float64, requires_grad=True)
    table = bias[..., apart - t[0]]
    (found,) = torch.autograd.grad(table, bias, grad.double())
    return Case({"grad": grad}, found.float())


def one_sum_per_distance() -> Iterator[Case]:
    yield case(torch.ones(2, 2))
    yield case(torch.ones(3, 3))


def from_far_behind_to_far_ahead() -> Iterator[Case]:
    yield case(rows([1.0, 2.0], [4.0, 8.0]))
    yield case(tenths(4, 4))


def queries_and_keys() -> Iterator[Case]:
    yield case(tenths(1, 3))
    yield case(tenths(5, 2))


def batch() -> Iterator[Case]:
    yield case(tenths(2, 3, 4, 5))


GRADER = Grader(
    checks=(one_sum_per_distance, from_far_behind_to_far_ahead, queries_and_keys, batch),
    usual=(
        (one_sum_per_distance, "shape"),
        (queries_and_keys, "shape"),
        (batch, "shape"),
        (batch, "ValueError"),
    ),
)
