"""A step of the online softmax that rescales only where the maximum has risen by enough."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import SOFTMAX, Case, Grader
from attnref.exercises.samples import row, rows, tenths, to_single


def case(seen: int, scores: Tensor, value: Tensor, top: Tensor) -> Case:
    """The keys after the first ``seen``, which were summed up against ``top``, are the block."""
    before = sum_directly(scores[:, :seen], value[:seen], top)
    highest = scores[:, seen:].amax(-1, keepdim=True)
    new = torch.where(highest - top > 8, highest, top)
    names = ("scores", "value", "top", "normaliser", "sums")
    block = (scores[:, seen:], value[seen:])
    return Case(dict(zip(names, block + before, strict=True)), sum_directly(scores, value, new))


def sum_directly(scores: Tensor, value: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of all these keys at once, in float64."""
    powers = torch.exp2(scores.double() - top.double())
    sums = powers @ value.double()
    return top, to_single(powers.sum(-1, keepdim=True).numpy()), to_single(sums.numpy())


def first_block() -> Iterator[Case]:
    yield case(0, row(1.0, 0.0)[None], rows([2.0], [4.0]), rows([-math.inf]))
    yield case(0, row(100.0, 101.0)[None], rows([2.0], [4.0]), rows([-math.inf]))


def falling() -> Iterator[Case]:
    yield case(1, row(2.0, 0.0)[None], rows([2.0], [4.0]), rows([2.0]))


def small_rise() -> Iterator[Case]:
    yield case(1, row(0.0, 1.0)[None], rows([2.0], [4.0]), rows([0.0]))


def at_the_threshold() -> Iterator[Case]:
    yield case(1, row(0.0, 8.0)[None], rows([2.0], [4.0]), rows([0.0]))


def large_rise() -> Iterator[Case]:
    # First with sums of 0, which no factor changes, then with 512 beside a new term of 4.
    yield case(1, row(0.0, 9.0)[None], rows([0.0], [4.0]), rows([0.0]))
    yield case(1, row(0.0, 9.0)[None], rows([512.0], [4.0]), rows([0.0]))


def large_scores() -> Iterator[Case]:
    yield case(1, row(0.0, 1000.0)[None], rows([2.0], [4.0]), rows([0.0]))
    yield case(1, row(1000.0, 1009.0)[None], rows([2.0], [4.0]), rows([1000.0]))


def each_row_its_own() -> Iterator[Case]:
    yield case(1, rows([0.0, 1.0], [0.0, 9.0]), rows([2.0], [4.0]), rows([0.0], [0.0]))
    yield case(3, 4 * tenths(4, 8), tenths(8, 2, seed=1), rows([0.0], [-2.0], [4.0], [8.0]))


GRADER = Grader(
    checks=(
        first_block,
        falling,
        small_rise,
        at_the_threshold,
        large_rise,
        large_scores,
        each_row_its_own,
    ),
    without=SOFTMAX,
)
