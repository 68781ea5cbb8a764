"""Causal linear attention."""

from collections.abc import Iterator

from torch import Tensor

from attnref.exercises.grading import Case, Grader, largest_tensor
from attnref.exercises.samples import rows, tenths
from attnref.variants import linear


def case(query: Tensor, key: Tensor, value: Tensor) -> Case:
    tokens = (query.double(), key.double(), value.double())
    output = linear.linear_attention(*tokens, is_causal=True)
    return Case({"query": query, "key": key, "value": value}, output.float())


def average() -> Iterator[Case]:
    # Keys that grow, so that a sum over the wrong ones shows; values all alike, so that
    # nothing else does.
    yield case(rows([1.0]), rows([1.0]), rows([3.0]))
    yield case(rows([1.0], [1.0]), rows([1.0], [3.0]), rows([3.0], [3.0]))


def future() -> Iterator[Case]:
    # Keys all alike: running means of the values, whatever the features are.
    yield case(rows([1.0], [1.0]), rows([1.0], [1.0]), rows([1.0], [3.0]))


def features() -> Iterator[Case]:
    yield case(rows([0.0], [1.0]), rows([1.0], [-1.0]), rows([1.0], [2.0]))
    yield case(tenths(2, 3, 7, 2), tenths(2, 3, 7, 2, seed=1), tenths(2, 3, 7, 5, seed=2))


def never_a_square() -> Iterator[Case]:
    arguments = {
        "query": tenths(64, 2),
        "key": tenths(64, 2, seed=1),
        "value": tenths(64, 2, seed=2),
    }
    limit = 64 * 64 // 4  # sums of 64 × 2 × 2 numbers, one per token, fit four times
    yield Case(arguments, limit, largest_tensor(limit))


GRADER = Grader(checks=(average, future, features, never_a_square))
