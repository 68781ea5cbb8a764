"""The maximum and the sum of a softmax in one pass over blocks."""

import weakref
from collections.abc import Iterator

import torch
from torch import Tensor

from attnref import softmax
from attnref.exercises.findings import THE_BLOCKS
from attnref.exercises.grading import SOFTMAX, Arguments, Case, Function, Grader, Observer
from attnref.exercises.samples import row, tenths

# What a loop needs: the block that it has just used, and the one that arrives.
AT_ONCE = 2


def stream(function: Function, arguments: Arguments) -> object:
    return function(iter(arguments["blocks"]))


def count_alive(function: Function, arguments: Arguments) -> int:
    """How many blocks are alive at a time; up to ``AT_ONCE`` count as that."""
    alive: list[weakref.ref[Tensor]] = []
    most = AT_ONCE

    def arrive() -> Iterator[Tensor]:
        nonlocal most
        for block in arguments["blocks"]:
            fresh = block.clone()
            alive.append(weakref.ref(fresh))
            yield fresh
            del fresh
            most = max(most, sum(each() is not None for each in alive))

    function(arrive())
    return most


def case(*blocks: Tensor) -> Case:
    scores = torch.cat(blocks)  # (m,)
    part = softmax.partial_attention(scores[None], torch.zeros(len(scores), 1))
    expected = (part.maximum.flatten()[0], part.normaliser.flatten()[0])
    return Case({"blocks": list(blocks)}, expected, Observer(stream))


def one_block() -> Iterator[Case]:
    yield case(row(1.0, 2.0))


def falling() -> Iterator[Case]:
    yield case(row(2.0), row(1.0))
    yield case(row(3.0, 1.0), row(2.0), row(0.0, -1.0))


def rising() -> Iterator[Case]:
    yield case(row(1.0), row(2.0))
    yield case(*torch.split(tenths(17), 5))


def large_scores() -> Iterator[Case]:
    yield case(row(1000.0), row(1001.0))


def one_at_a_time() -> Iterator[Case]:
    blocks = list(torch.split(tenths(20), 4))
    yield Case({"blocks": blocks}, AT_ONCE, Observer(count_alive, THE_BLOCKS))


GRADER = Grader(
    checks=(one_block, falling, rising, large_scores, one_at_a_time),
    without=SOFTMAX,
)
