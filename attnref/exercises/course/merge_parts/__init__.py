"""Merging attention over two sets of keys."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows, tenths
from attnref.softmax import Partial, merge

NONE = -torch.inf


def case(output_1: Tensor, lse_1: Tensor, output_2: Tensor, lse_2: Tensor) -> Case:
    merged = merge(_part(output_1, lse_1), _part(output_2, lse_2))
    arguments = {"output_1": output_1, "lse_1": lse_1, "output_2": output_2, "lse_2": lse_2}
    return Case(arguments, (merged.output, merged.log_sum_exp()))


def _part(output: Tensor, lse: Tensor) -> Partial:
    column = lse[..., None]  # (..., n, 1)
    return Partial(output, column, (column != NONE).to(output.dtype))


def equal_parts() -> Iterator[Case]:
    yield case(rows([2.0]), row(0.0), rows([4.0]), row(0.0))


def unequal_parts() -> Iterator[Case]:
    yield case(rows([2.0]), row(1.0), rows([4.0]), row(0.0))


def own_share() -> Iterator[Case]:
    # As many queries as components: nothing but the numbers tells which was meant.
    yield case(rows([2.0, 2.0], [2.0, 2.0]), row(1.0, 0.0), torch.zeros(2, 2), row(0.0, 0.0))
    halves = (tenths(2, 3, 5), tenths(2, 3, seed=1), tenths(2, 3, 5, seed=2), tenths(2, 3, seed=3))
    yield case(*halves)


def large_scores() -> Iterator[Case]:
    # Apart, for float32 rounds a sum of near ones to 1000.69315 ± 0.00003.
    yield case(rows([2.0]), row(1000.0), rows([4.0]), row(900.0))


def empty_parts() -> Iterator[Case]:
    yield case(rows([2.0]), row(1.0), rows([0.0]), row(NONE))
    yield case(rows([0.0]), row(NONE), rows([0.0]), row(NONE))


GRADER = Grader(checks=(equal_parts, unequal_parts, own_share, large_scores, empty_parts))
