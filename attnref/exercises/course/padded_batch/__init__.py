"""Self-attention of a batch of sentences of different lengths."""

from collections.abc import Iterator

import torch
from torch import Tensor, tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import tenths, to_single


def case(inputs: Tensor, lengths: Tensor) -> Case:
    expected = torch.zeros_like(inputs)
    for sample, length in enumerate(lengths.tolist()):
        alone = inputs[sample, :length]  # (length, d)
        output = oracle.attend(alone, alone, alone).output
        expected[sample, :length] = to_single(output)
    return Case({"inputs": inputs, "lengths": lengths}, expected)


def samples_apart() -> Iterator[Case]:
    yield case(tensor([[[1.0]], [[2.0]]]), tensor([1, 1]))
    yield case(tenths(2, 3, 2), tensor([3, 3]))


def padding_gives_zeros() -> Iterator[Case]:
    # Padding like the token itself: whether it is seen makes no difference to the average.
    yield case(tensor([[[1.0, 2.0], [1.0, 2.0]]]), tensor([1]))


def padding_is_unseen() -> Iterator[Case]:
    yield case(tensor([[[1.0], [3.0], [5.0]]]), tensor([2]))


def own_length() -> Iterator[Case]:
    yield case(tensor([[[1.0], [3.0]], [[1.0], [3.0]]]), tensor([1, 2]))
    yield case(tenths(3, 5, 2), tensor([2, 5, 3]))


GRADER = Grader(
    checks=(samples_apart, padding_gives_zeros, padding_is_unseen, own_length), without=ATTENTION
)
