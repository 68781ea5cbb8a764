"""Attention that lets nothing out from behind the mask, not even NaN."""

from collections.abc import Iterator

import torch
from torch import Tensor, tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader, gradient_of
from attnref.exercises.samples import rows, tenths, to_single

FIRST = tensor([True, False])
NAN, INF = torch.nan, torch.inf


def case(query: Tensor, key: Tensor, value: Tensor, is_token: Tensor) -> Case:
    arguments = {"query": query, "key": key, "value": value, "is_token": is_token}
    output = oracle.attend(query, key, value, is_token).output
    return Case(arguments, to_single(output))


def ordinary_numbers() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0], [3.0]), FIRST)
    tokens = tensor([True, True, False, True, False])
    yield case(tenths(3, 2), tenths(5, 2, seed=1), tenths(5, 2, seed=2), tokens)


def nan_in_a_value() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0], [NAN]), FIRST)
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0], [-INF]), FIRST)


def nan_in_a_key() -> Iterator[Case]:
    yield case(rows([1.0]), rows([0.0], [NAN]), rows([1.0], [3.0]), FIRST)
    yield case(rows([1.0]), rows([0.0], [INF]), rows([1.0], [3.0]), FIRST)


def visible_nan() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0]), rows([1.0, NAN], [3.0, 4.0]), tensor([True, True]))


def gradients() -> Iterator[Case]:
    query, key, value = rows([1.0]), rows([0.0], [1.0], [NAN]), rows([1.0], [3.0], [NAN])
    is_token = tensor([True, True, False])
    upstream = rows([1.0])
    expected = oracle.gradients(upstream, query, key, value, is_token).query
    arguments = {"query": query, "key": key, "value": value, "is_token": is_token}
    yield Case(arguments, to_single(expected), gradient_of("query", upstream))


GRADER = Grader(
    checks=(ordinary_numbers, nan_in_a_value, nan_in_a_key, visible_nan, gradients),
    without=ATTENTION,
)
