"""A gate for each component of what each head answers."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import MultiHeadAttention
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import rows, tenths


def case(inputs: Tensor, answers: Tensor, gate_weight: Tensor, out_weight: Tensor) -> Case:
    weights = {"gate_weight": gate_weight, "out_weight": out_weight}
    arguments = {"inputs": inputs, "answers": answers, **weights}
    layer = MultiHeadAttention(
        inputs.shape[-1],
        answers.shape[-3],
        head_dim=1,
        value_head_dim=answers.shape[-1],
        bias=False,
        gate="elementwise",
        attention=lambda query, key, value: answers.double(),
        dtype=torch.float64,
    )
    # nn.Linear keeps its weight as (outputs, inputs).
    named = {"gate_proj.weight": gate_weight, "out_proj.weight": out_weight}
    state = layer.state_dict() | {name: each.double().T for name, each in named.items()}
    layer.load_state_dict(state)
    output: Tensor = layer(inputs.double())
    return Case(arguments, output.detach().float())


def gate() -> Iterator[Case]:
    one, two = torch.eye(1), rows([2.0])
    yield case(rows([0.0]), two[None], one, one)
    yield case(rows([3.0]), two[None], one, one)


def before_the_output() -> Iterator[Case]:
    # The two components of one head have gates of their own, and W_O adds them up.
    yield case(rows([1.0, -1.0]), rows([2.0, 4.0])[None], torch.eye(2), torch.ones(2, 2))


def heads_in_their_place() -> Iterator[Case]:
    inputs = rows([2.0, -2.0], [-3.0, 1.0])
    answers = torch.tensor([[[1.0], [10.0]], [[100.0], [1000.0]]])  # (2, 2, 1)
    yield case(inputs, answers, torch.eye(2), torch.eye(2))
    yield case(tenths(3, 4), tenths(2, 3, 5), tenths(4, 10, seed=1), tenths(10, 4, seed=2))


def batch() -> Iterator[Case]:
    inputs, answers = tenths(2, 3, 4), tenths(2, 2, 3, 5, seed=1)
    yield case(inputs, answers, tenths(4, 10, seed=2), tenths(10, 4, seed=3))


GRADER = Grader(
    checks=(gate, before_the_output, heads_in_their_place, batch), usual=((batch, "ValueError"),)
)
