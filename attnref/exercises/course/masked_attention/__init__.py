"""Attention that leaves forbidden keys out."""

from collections.abc import Iterator

import torch
from torch import Tensor, tensor

from attnref import masks, oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Case:
    output = oracle.attend(query, key, value, attn_mask).output
    return Case(
        {"query": query, "key": key, "value": value, "attn_mask": attn_mask}, to_single(output)
    )


def true_may_look() -> Iterator[Case]:
    # The allowed key matches so well that it gets all the weight however the mask is applied.
    yield case(rows([10.0]), rows([10.0], [0.0]), rows([1.0], [2.0]), tensor([[True, False]]))


def sums_to_one() -> Iterator[Case]:
    mask = tensor([[True, False, True]])
    yield case(rows([1.0]), rows([0.0], [0.0], [1.0]), torch.ones(3, 1), mask)


def forbidden_is_nothing() -> Iterator[Case]:
    mask = tensor([[True, False, True]])
    yield case(rows([0.0]), rows([0.0], [0.0], [0.0]), rows([1.0], [2.0], [6.0]), mask)
    yield case(tenths(5, 2), tenths(5, 2, seed=1), tenths(5, 3, seed=2), masks.causal(5).dense())


def very_negative_scores() -> Iterator[Case]:
    mask = tensor([[True, False]])
    yield case(rows([1e5]), rows([-1e5], [0.0]), rows([1.0], [2.0]), mask)


def broadcast() -> Iterator[Case]:
    mask = masks.padding([3, 7], 7).dense()  # (2, 1, 1, 7)
    yield case(
        tenths(2, 1, 2), tenths(2, 2, 2, seed=1), tenths(2, 2, 1, seed=2), tensor([[1, 0]]) > 0
    )
    yield case(tenths(2, 3, 5, 2), tenths(2, 3, 7, 2, seed=1), tenths(2, 3, 7, 3, seed=2), mask)


GRADER = Grader(
    checks=(true_may_look, sums_to_one, forbidden_is_nothing, very_negative_scores, broadcast),
    without=ATTENTION,
    usual=((broadcast, "IndexError"),),
)
