"""Multi-head self-attention from its four weights."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import MultiHeadAttention
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths


def case(inputs: Tensor, weights: tuple[Tensor, Tensor, Tensor, Tensor], num_heads: int) -> Case:
    names = ("query_weight", "key_weight", "value_weight", "out_weight")
    arguments = {"inputs": inputs} | dict(zip(names, weights, strict=True))
    return Case(arguments | {"num_heads": num_heads}, _truth(inputs, weights, num_heads))


def _truth(inputs: Tensor, weights: tuple[Tensor, ...], num_heads: int) -> Tensor:
    layer = MultiHeadAttention(
        inputs.shape[-1],
        num_heads,
        head_dim=weights[0].shape[-1] // num_heads,
        value_head_dim=weights[2].shape[-1] // num_heads,
        bias=False,
        dtype=torch.float64,
    )
    names = ("query_proj", "key_proj", "value_proj", "out_proj")
    layer.load_state_dict(
        # nn.Linear keeps its weight as (outputs, inputs).
        {f"{name}.weight": each.double().T for name, each in zip(names, weights, strict=True)}
    )
    output: Tensor = layer(inputs.double())
    return output.detach().float()


def _weights(width: int, key_width: int, value_width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        tenths(width, key_width, seed=1),
        tenths(width, key_width, seed=2),
        tenths(width, value_width, seed=3),
        tenths(value_width, width, seed=4),
    )


def out_projection() -> Iterator[Case]:
    one = torch.eye(1)
    yield case(rows([1.0]), (one, one, one, rows([3.0])), 1)
    yield case(tenths(3, 2), _weights(2, 2, 2), 1)


def heads_apart() -> Iterator[Case]:
    # Scores of ±100 and more pick one token whatever the scale: head 0 one like the token that
    # asks, head 1 its opposite.
    inputs = rows([10.0, 10.0], [-10.0, -20.0])
    identity = torch.eye(2)
    yield case(inputs, (identity, rows([1.0, 0.0], [0.0, -1.0]), identity, identity), 2)


def scale_of_a_head() -> Iterator[Case]:
    yield case(tenths(2, 4), _weights(4, 4, 4), 2)
    yield case(tenths(5, 6), _weights(6, 6, 9), 3)


def batch() -> Iterator[Case]:
    yield case(tenths(2, 3, 4), _weights(4, 4, 4), 2)


GRADER = Grader(
    checks=(out_projection, heads_apart, scale_of_a_head, batch),
    without=ATTENTION,
    usual=((batch, "RuntimeError"),),
)
