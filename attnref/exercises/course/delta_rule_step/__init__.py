"""One token of the gated delta rule."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import gated_delta_attention_step
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows, tenths


def case(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> Case:
    output, new = gated_delta_attention_step(
        query[..., None, :],
        key[..., None, :],
        value[..., None, :],
        state,
        log_decay=decay.log()[..., None],
        beta=beta[..., None],
    )
    arguments = {"query": query, "key": key, "value": value, "decay": decay, "beta": beta}
    return Case(arguments | {"state": state}, (output[..., 0, :], new))


ONE = torch.ones(())


def replaces() -> Iterator[Case]:
    yield case(row(1.0), row(1.0), row(7.0), ONE, ONE, rows([3.0]))
    yield case(row(0.0), row(1.0), row(5.0), ONE, ONE, rows([2.0]))


def by_a_share() -> Iterator[Case]:
    yield case(row(1.0), row(1.0), row(8.0), ONE, torch.tensor(0.5), rows([4.0]))


def forgets_first() -> Iterator[Case]:
    half = torch.tensor(0.5)
    yield case(row(1.0), row(0.0), row(0.0), half, ONE, rows([8.0]))
    yield case(row(1.0), row(1.0), row(8.0), half, half, rows([4.0]))


def scale() -> Iterator[Case]:
    key = row(1.0, 0.0, 0.0, 0.0)
    yield case(2 * key, key, row(6.0), ONE, ONE, torch.zeros(4, 1))


def batch() -> Iterator[Case]:
    rates = torch.tensor([[0.2, 0.9, 0.5], [0.4, 0.7, 1.0]])
    yield case(
        tenths(2, 3, 4),
        tenths(2, 3, 4, seed=1) / 2,
        tenths(2, 3, 2, seed=2),
        rates.flip(-1),
        rates,
        tenths(2, 3, 4, 2, seed=3),
    )


GRADER = Grader(
    checks=(replaces, by_a_share, forgets_first, scale, batch), usual=((batch, "RuntimeError"),)
)
