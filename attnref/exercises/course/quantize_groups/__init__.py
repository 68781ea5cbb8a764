"""Groups of components as eight-bit floats, each with a step of its own."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import quantize
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows


def case(tokens: Tensor, group_size: int) -> Case:
    found = quantize(tokens, dtype=torch.float8_e4m3fn, group_size=group_size)
    return Case({"tokens": tokens, "group_size": group_size}, found.dequantize())


def largest() -> Iterator[Case]:
    yield case(row(448.0)[None], 1)


def nearest() -> Iterator[Case]:
    yield case(row(448.0, 17.0, 1.0)[None], 3)


def back() -> Iterator[Case]:
    yield case(row(896.0, 3.0)[None], 2)


def own_step() -> Iterator[Case]:
    yield case(row(448.0, 1.0, 17.0, 3.0)[None], 2)


def signs() -> Iterator[Case]:
    yield case(row(-896.0, 3.0)[None], 2)


def zeros() -> Iterator[Case]:
    yield case(row(0.0, 0.0)[None], 2)


def batch() -> Iterator[Case]:
    # A small group lies where another token, or sample, has a large one.
    first = rows([448.0, 3.0, 14.0, 2.6], [17.0, 3.0, 5.0, 1.1])
    second = rows([17.0, 5.0, 3.0, 1.0], [9.0, 2.0, 448.0, 5.0])
    yield case(torch.stack([first, second]), 2)


GRADER = Grader(checks=(largest, nearest, back, own_step, signs, zeros, batch))
