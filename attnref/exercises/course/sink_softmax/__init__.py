"""A softmax beside a learned sink for each head."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import softmax
from attnref.exercises.grading import SOFTMAX, Case, Grader
from attnref.exercises.samples import row, rows, tenths


def case(scores: Tensor, sink: Tensor) -> Case:
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)
    weights = softmax.stable(torch.cat([scores, column], dim=-1))[..., :-1]
    return Case({"scores": scores, "sink": sink}, weights)


def takes_weight() -> Iterator[Case]:
    yield case(row(0.0, 0.0)[None, None], row(0.0))


def power_of_the_score() -> Iterator[Case]:
    yield case(row(0.0, 0.0)[None, None], row(math.log(2.0)))


def one_shift() -> Iterator[Case]:
    yield case(row(1.0, 2.0)[None, None], row(2.0))


def each_head_its_own() -> Iterator[Case]:
    yield case(torch.zeros(2, 1, 2), row(0.0, math.log(2.0)))
    yield case(tenths(3, 2, 3), row(-1.0, 0.0, 1.0))


def large_scores() -> Iterator[Case]:
    yield case(row(1000.0, 1001.0)[None, None], row(1000.0))


def all_far_below_zero() -> Iterator[Case]:
    yield case(row(-1000.0, -1001.0)[None, None], row(-1000.0))


def nothing_allowed() -> Iterator[Case]:
    yield case(rows([-math.inf, -math.inf], [0.0, -math.inf])[None], row(0.0))


def batch() -> Iterator[Case]:
    # As many samples as heads: a sink for each sample would broadcast too.
    yield case(tenths(3, 3, 2, 5), row(-1.0, 0.0, 1.0))


GRADER = Grader(
    checks=(
        takes_weight,
        power_of_the_score,
        one_shift,
        each_head_its_own,
        large_scores,
        all_far_below_zero,
        nothing_allowed,
        batch,
    ),
    without=SOFTMAX,
)
