"""Linear attention, one token at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import LinearState, linear_attention_step, linear_state
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, tenths


def case(query: Tensor, key: Tensor, value: Tensor, past: LinearState) -> Case:
    rows = (query[..., None, :], key[..., None, :], value[..., None, :])
    output, state = linear_attention_step(*rows, past)
    arguments = {"query": query, "key": key, "value": value}
    arguments |= {"key_value": past.key_value, "normaliser": past.normaliser}
    return Case(arguments, (output[..., 0, :], state.key_value, state.normaliser))


def first_token() -> Iterator[Case]:
    yield case(row(1.0), row(2.0), row(5.0), LinearState(torch.zeros(1, 1), torch.zeros(1)))
    nothing = LinearState(torch.zeros(2, 1), torch.zeros(2))
    yield case(row(0.0, 1.0), row(1.0, 0.0), row(5.0), nothing)


def carries_the_past() -> Iterator[Case]:
    past = linear_state(torch.zeros(2, 1), torch.ones(2, 1))
    yield case(row(0.0), row(0.0), row(4.0), past)


def features() -> Iterator[Case]:
    past = linear_state(torch.zeros(1, 1), torch.ones(1, 1))
    yield case(row(-1.0), row(-1.0), row(2.0), past)


def batch() -> Iterator[Case]:
    past = linear_state(tenths(2, 3, 5, 4, seed=3), tenths(2, 3, 5, 2, seed=4))
    yield case(tenths(2, 3, 4), tenths(2, 3, 4, seed=1), tenths(2, 3, 2, seed=2), past)


GRADER = Grader(
    checks=(first_token, carries_the_past, features, batch), usual=((batch, "RuntimeError"),)
)
