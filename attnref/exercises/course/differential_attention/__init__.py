"""The difference of two softmax attentions to the same values."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths
from attnref.variants import differential


def case(query: Tensor, key: Tensor, value: Tensor, factor: float) -> Case:
    arguments = {"query": query, "key": key, "value": value, "factor": factor}
    tensors = (query.double(), key.double(), value.double())
    output = differential.differential_attention(*tensors, lambd=factor)
    return Case(arguments, output.float())


def difference() -> Iterator[Case]:
    zeros = torch.zeros(1, 2)
    yield case(zeros, zeros, rows([4.0]), 0.5)
    yield case(zeros, torch.zeros(2, 2), rows([1.0], [5.0]), 1.0)
    yield case(zeros, torch.zeros(2, 2), rows([1.0], [5.0]), 1.5)


def halves() -> Iterator[Case]:
    # The first map tells the two keys apart, the second does not.
    yield case(rows([40.0, 0.0]), rows([1.0, 0.0], [0.0, 1.0]), rows([1.0], [5.0]), 0.5)
    keys = rows([1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0])
    yield case(rows([90.0, 90.0, 0.0, 0.0]), keys, rows([1.0], [5.0]), 0.5)


def scale_of_one_half() -> Iterator[Case]:
    yield case(tenths(3, 8), tenths(5, 8, seed=1), tenths(5, 2, seed=2), 0.3)


def batch() -> Iterator[Case]:
    yield case(tenths(2, 3, 4), tenths(2, 5, 4, seed=1), tenths(2, 5, 6, seed=2), 0.8)


GRADER = Grader(
    checks=(difference, halves, scale_of_one_half, batch),
    without=ATTENTION,
    usual=((batch, "RuntimeError"),),
)
