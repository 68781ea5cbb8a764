"""One step of decoding with a cache of keys and values."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import KVCache, oracle
from attnref.exercises.grading import ATTENTION, Case, Grader
from attnref.exercises.samples import rows, tenths, to_single


def case(query: Tensor, key: Tensor, value: Tensor, past_key: Tensor, past_value: Tensor) -> Case:
    arguments = {"query": query, "key": key, "value": value}
    arguments |= {"past_key": past_key, "past_value": past_value}
    cache = KVCache()
    cache.append(past_key, past_value)
    keys, values = cache.append(key, value)  # (..., t + 1, d), (..., t + 1, d_v)
    output = oracle.attend(query, keys, values).output
    return Case(arguments, (to_single(output), keys, values))


def first_token() -> Iterator[Case]:
    yield case(rows([1.0]), rows([2.0]), rows([3.0]), torch.zeros(0, 1), torch.zeros(0, 1))


def newest_comes_last() -> Iterator[Case]:
    # Values all alike: which keys were looked at stays unseen.
    yield case(rows([0.0]), rows([2.0]), rows([5.0]), rows([1.0]), rows([5.0]))


def sees_all() -> Iterator[Case]:
    yield case(rows([0.0]), rows([2.0]), rows([6.0]), rows([1.0], [1.0]), rows([1.0], [2.0]))


def scale() -> Iterator[Case]:
    yield case(
        rows([2.0, 0.0, 0.0, 0.0]),
        rows([2.0, 0.0, 0.0, 0.0]),
        rows([1.0]),
        rows([0.0, 0.0, 0.0, 0.0]),
        rows([0.0]),
    )
    new = (tenths(2, 3, 1, 4), tenths(2, 3, 1, 4, seed=1), tenths(2, 3, 1, 2, seed=2))
    yield case(*new, tenths(2, 3, 5, 4, seed=3), tenths(2, 3, 5, 2, seed=4))


GRADER = Grader(checks=(first_token, newest_comes_last, sees_all, scale), without=ATTENTION)
