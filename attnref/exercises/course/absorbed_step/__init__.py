"""A step of latent attention with its matrices absorbed."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import latent_attention
from attnref.exercises.grading import ATTENTION, Case, Grader, largest_tensor
from attnref.exercises.samples import rows, tenths


def case(query: Tensor, latents: Tensor, key_up: Tensor, value_up: Tensor) -> Case:
    arguments = {"query": query, "latents": latents, "key_up": key_up, "value_up": value_up}
    output = latent_attention(query[..., None, :], latents, key_up, value_up, absorb=False)
    return Case(arguments, output[..., 0, :])


def reads_the_values() -> Iterator[Case]:
    yield case(rows([0.0]), rows([1.0], [3.0]), torch.ones(1, 1, 1), 2 * torch.ones(1, 1, 1))
    yield case(rows([0.0]), rows([1.0, 0.0], [0.0, 1.0]), torch.ones(1, 1, 2), tenths(1, 3, 2))


def each_head_its_own() -> Iterator[Case]:
    ups = torch.tensor([[[1.0]], [[-1.0]]])
    yield case(rows([1.0], [1.0]), rows([0.0], [1.0]), ups, torch.ones(2, 1, 1))
    yield case(rows([0.0], [0.0]), rows([1.0], [3.0]), torch.ones(2, 1, 1), ups)


def scale() -> Iterator[Case]:
    key_up = torch.tensor([[[1.0], [0.0], [0.0], [0.0]]])  # (1, 4, 1)
    yield case(rows([2.0, 0.0, 0.0, 0.0]), rows([0.0], [1.0]), key_up, torch.ones(1, 1, 1))


def batch() -> Iterator[Case]:
    query, latents = tenths(2, 3, 4), tenths(2, 5, 6, seed=1)
    yield case(query, latents, tenths(3, 4, 6, seed=2), tenths(3, 2, 6, seed=3))


def makes_no_keys() -> Iterator[Case]:
    query, latents = tenths(4, 8), tenths(32, 4, seed=1)
    ups = {"key_up": tenths(4, 8, 4, seed=2), "value_up": tenths(4, 8, 4, seed=3)}
    limit = 4 * 32 * 8 // 2  # half of the keys of all heads; scores and latents are far fewer
    yield Case({"query": query, "latents": latents, **ups}, limit, largest_tensor(limit))


GRADER = Grader(
    checks=(reads_the_values, each_head_its_own, scale, batch, makes_no_keys),
    without=ATTENTION,
    usual=((batch, "IndexError"),),
)
