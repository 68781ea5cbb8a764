"""Attention that never holds all the weights."""

from collections.abc import Iterator

from torch import Tensor

from attnref import oracle
from attnref.exercises.grading import ATTENTION, Case, Grader, largest_tensor
from attnref.exercises.samples import rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor, block_size: int) -> Case:
    output = oracle.attend(query, key, value).output
    arguments = {"query": query, "key": key, "value": value, "block_size": block_size}
    return Case(arguments, to_single(output))


def one_block() -> Iterator[Case]:
    yield case(tenths(1, 4), tenths(2, 4, seed=1), tenths(2, 1, seed=2), 2)
    yield case(tenths(2, 3, 2, 4), tenths(2, 3, 5, 4, seed=1), tenths(2, 3, 5, 3, seed=2), 5)


def even_blocks() -> Iterator[Case]:
    # The scores fall from block to block, then they rise.
    yield case(rows([1.0]), rows([1.0], [0.0]), rows([1.0], [2.0]), 1)
    yield case(rows([1.0]), rows([0.0], [1.0]), rows([1.0], [2.0]), 1)
    yield case(tenths(3, 2), tenths(8, 2, seed=1), tenths(8, 3, seed=2), 2)


def last_block() -> Iterator[Case]:
    yield case(rows([0.0]), rows([0.0], [0.0], [0.0]), rows([1.0], [2.0], [6.0]), 2)
    yield case(tenths(3, 2), tenths(7, 2, seed=1), tenths(7, 3, seed=2), 4)


def large_scores() -> Iterator[Case]:
    yield case(rows([100.0]), rows([10.0], [10.01]), rows([1.0], [2.0]), 1)
    yield case(rows([100.0]), rows([-10.0], [-10.01]), rows([1.0], [2.0]), 1)


def never_the_whole() -> Iterator[Case]:
    query, key, value = tenths(32, 2), tenths(64, 2, seed=1), tenths(64, 2, seed=2)
    arguments = {"query": query, "key": key, "value": value, "block_size": 4}
    limit = 32 * 64 // 4  # a quarter of all the weights: several blocks of 32 × 4 fit
    yield Case(arguments, limit, largest_tensor(limit))


GRADER = Grader(
    checks=(one_block, even_blocks, last_block, large_scores, never_the_whole),
    without=ATTENTION,
    properties=(
        "row_sums",
        "convexity",
        "oracle",
        "scale",
        "key_permutation",
        "shift_invariance",
        "gradients",
        "rectangular",
        "value_width",
    ),
    fixed=(3,),  # a block_size that does not divide the 7 keys
)
