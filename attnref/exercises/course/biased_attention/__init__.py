"""Attention with PyTorch's attn_mask, of bools or of numbers."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Arguments, Case, Grader
from attnref.exercises.samples import rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Case:
    arguments: Arguments = {"query": query, "key": key, "value": value}
    if attn_mask is not None:
        arguments["attn_mask"] = attn_mask
    output = oracle.attend(query, key, value, attn_mask).output
    return Case(arguments, to_single(output))


def no_mask() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0], [2.0]))


def bools_forbid() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0], [2.0]), tensor([[True, False]]))


def numbers_are_added() -> Iterator[Case]:
    # Scores of 0: added before the scale or behind it, but not multiplied.
    bias = tensor([[math.log(3.0), 0.0]])
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([4.0], [8.0]), bias)
    yield case(tenths(3, 1), tenths(5, 1, seed=1), tenths(5, 2, seed=2), tenths(3, 5, seed=3))


def minus_infinity() -> Iterator[Case]:
    bias = tensor([[0.0, -torch.inf]])
    yield case(rows([1e5]), rows([-1e5], [0.0]), rows([1.0], [2.0]), bias)


def added_after_the_scale() -> Iterator[Case]:
    bias = tensor([[math.log(3.0), 0.0]])
    yield case(rows([0.0, 0, 0, 0]), torch.zeros(2, 4), rows([4.0], [8.0]), bias)
    heads = tenths(3, 1, 7, seed=3)  # one row of biases per head
    yield case(tenths(2, 3, 5, 2), tenths(2, 3, 7, 2, seed=1), tenths(2, 3, 7, 3, seed=2), heads)


GRADER = Grader(
    checks=(no_mask, bools_forbid, numbers_are_added, minus_infinity, added_after_the_scale),
    without=ATTENTION,
    properties=(
        "oracle",
        "scale",
        "mask_polarity",
        "float_mask",
        "mask_broadcast",
        "very_negative_scores",
        "gradients",
        "inputs_unchanged",
    ),
    usual=((no_mask, "TypeError"), (no_mask, "AttributeError")),
)
