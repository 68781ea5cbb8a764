"""A step of decoding whose keys and values are found through block tables."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import paged_attention
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import tenths


def case(
    query: Tensor, key_pages: Tensor, value_pages: Tensor, table: list[list[int]], *lengths: int
) -> Case:
    tables = torch.tensor(table), torch.tensor(lengths)
    output = paged_attention(query[:, :, None], key_pages, value_pages, *tables)
    arguments = {"query": query, "key_pages": key_pages, "value_pages": value_pages}
    arguments |= {"block_table": tables[0], "lengths": tables[1]}
    return Case(arguments, output[:, :, 0])


def averages(values: list[list[float]], table: list[list[int]], *lengths: int) -> Case:
    """Queries of zeros: each output is the mean of the values that are seen."""
    pages = torch.tensor(values)[..., None, None]  # (pages, places, 1, 1)
    return case(torch.zeros(len(table), 1, 1), torch.zeros_like(pages), pages, table, *lengths)


def finds_the_pages() -> Iterator[Case]:
    # The last value is the mean of those before it: whether it is seen stays unseen.
    yield averages([[3.0, 2.0, 2.0], [50.0, 50.0, 50.0], [1.0, 3.0, 1.0]], [[2, 0]], 6)


def stops_at_the_length() -> Iterator[Case]:
    yield averages([[2.0, 90.0], [1.0, 3.0]], [[1, 0]], 3)


def sees_the_newest() -> Iterator[Case]:
    yield averages([[1.0, 5.0]], [[0]], 2)
    yield averages([[1.0, 5.0]], [[0]], 1)


def each_its_own() -> Iterator[Case]:
    # Of equal lengths first, then of equal values in other numbers.
    yield averages([[1.0, 1.0], [4.0, 4.0]], [[0], [1]], 2, 2)
    yield averages([[1.0, 5.0], [1.0, 5.0]], [[0], [1]], 1, 2)


def scale() -> Iterator[Case]:
    keys = torch.tensor([[0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]])[None, :, None]
    values = torch.tensor([0.0, 1.0])[None, :, None, None]
    yield case(keys[:, 1], keys, values, [[0]], 2)


def heads() -> Iterator[Case]:
    query, keys, values = tenths(2, 3, 4), tenths(5, 2, 3, 4, seed=1), tenths(5, 2, 3, 2, seed=2)
    yield case(query, keys, values, [[4, 1], [0, 3]], 3, 4)


def nothing_leaks() -> Iterator[Case]:
    # A table is filled up with -1, and memory that nobody has written to may hold anything.
    nan = float("nan")
    yield averages([[1.0, nan]], [[0]], 1)
    yield averages([[1.0, 3.0], [2.0, nan], [nan, nan]], [[0, 1], [1, -1]], 3, 1)


GRADER = Grader(
    checks=(
        *(finds_the_pages, stops_at_the_length, sees_the_newest, each_its_own),
        *(scale, heads, nothing_leaks),
    ),
    without=ATTENTION,
)
