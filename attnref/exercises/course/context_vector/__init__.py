"""The context vector of one word, in the four steps of the book."""

from collections.abc import Iterator

from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import JOURNEY, SIX_WORDS, rows, to_single


def case(inputs: Tensor, position: int) -> Case:
    asker = inputs[position : position + 1]  # (1, d)
    context = oracle.attend(asker, inputs, inputs, scale=1.0).output
    return Case({"inputs": inputs, "position": position}, to_single(context[0]))


def average() -> Iterator[Case]:
    yield case(rows([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), 0)


def asker() -> Iterator[Case]:
    # Each word matches itself alone, so the weights are 0 and 1 however they are made.
    words = rows([10.0, 0.0], [0.0, 10.0])
    yield case(words, 0)
    yield case(words, 1)


def softmax_weights() -> Iterator[Case]:
    yield case(rows([1.0, 0.0], [0.0, 1.0]), 0)
    yield case(SIX_WORDS, JOURNEY)
    yield case(SIX_WORDS, 5)


GRADER = Grader(checks=(average, asker, softmax_weights))
