"""Which blocks each query reads, chosen by the mean of their keys."""

from collections.abc import Iterator

from torch import Tensor

from attnref import moba_choice
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths


def case(query: Tensor, key: Tensor, block_size: int, num_blocks: int) -> Case:
    arguments = {"query": query, "key": key, "block_size": block_size, "num_blocks": num_blocks}
    choice = moba_choice(query, key, block_size=block_size, num_blocks=num_blocks, is_causal=True)
    return Case(arguments, choice.dense())


def own_block() -> Iterator[Case]:
    yield case(rows([1.0], [1.0]), rows([1.0], [1.0]), 2, 1)
    yield case(rows(*[[1.0]] * 4), rows([3.0], [3.0], [1.0], [1.0]), 2, 1)


def no_future() -> Iterator[Case]:
    yield case(rows(*[[1.0]] * 4), rows([1.0], [1.0], [3.0], [3.0]), 2, 2)
    yield case(rows(*[[1.0]] * 6), rows([1.0], [1.0], [2.0], [2.0], [3.0], [3.0]), 2, 2)


def best_mean() -> Iterator[Case]:
    key = rows([1.0], [1.0], [3.0], [2.0], [0.0], [0.0])
    yield case(rows(*[[1.0]] * 6), key, 2, 2)
    key = rows([5.0], [-5.0], [1.0], [1.0], [-1.0], [-1.0])  # the largest key is in no good block
    yield case(rows(*[[1.0]] * 6), key, 2, 2)
    yield case(rows(*[[-1.0]] * 6), rows([1.0], [1.0], [3.0], [2.0], [4.0], [4.0]), 2, 2)


def fewer_blocks() -> Iterator[Case]:
    yield case(rows(*[[1.0]] * 4), rows([1.0], [2.0], [3.0], [4.0]), 2, 5)


def batch() -> Iterator[Case]:
    query, key = tenths(2, 3, 12, 4), tenths(2, 3, 12, 4, seed=1)
    yield case(query, key, 3, 2)


GRADER = Grader(
    checks=(own_block, best_mean, no_future, fewer_blocks, batch),
    without=ATTENTION,
    usual=((fewer_blocks, "RuntimeError"),),
)
