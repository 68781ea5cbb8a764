"""Differential and biased attention run under a counter of what they really do."""

import pytest
import torch

from attnref import cost
from attnref.cost import Sizes
from tests.cost.counter import Counter

SIZES = Sizes(n=5, m=13, d_k=7, d_v=2, batch=2, num_heads=3)


def drawn(generator, *shapes):
    return [torch.randn(2, 3, *shape, generator=generator) for shape in shapes]


def core(query, key, value, bias=None):
    scores = query @ key.mT
    return (scores if bias is None else scores + bias).softmax(-1) @ value


@pytest.mark.claim("differential-costs-two-cores")
def test_differential(generator):
    shapes = ((5, 7), (5, 7), (13, 7), (13, 7), (13, 2))
    one, other, first_key, second_key, value = drawn(generator, *shapes)
    with Counter() as counter:
        first, second = core(one, first_key, value), core(other, second_key, value)
    with Counter() as difference:
        output = torch.add(first, second * 0.5)
    spent, alone = cost.of("differential", SIZES), cost.of("fused", SIZES)
    assert spent.operations.matmul == counter.cost.operations.matmul
    both = spent.operations.elementwise - 2 * alone.operations.elementwise
    assert both == difference.cost.operations.elementwise
    assert spent.operations.exponentials == 2 * alone.operations.exponentials
    numbers = sum(x.numel() for x in (one, other, first_key, second_key))
    read = numbers + 2 * value.numel() + first.numel() + second.numel()
    assert spent.bytes_read == 4 * read
    made = first.numel() + second.numel() + output.numel()
    assert spent.bytes_written == spent.peak_bytes == 4 * made


@pytest.mark.parametrize("table", [True, False])
def test_distance_bias(table, generator):
    query, key, value = drawn(generator, (5, 7), (13, 7), (13, 2))
    bias = torch.randn(3, 5 + 13 - 1, generator=generator)
    biases = bias.unfold(-1, 13, 1).flip(-2)
    with Counter() as without:
        core(query, key, value)
    with Counter() as counter:
        output = core(query, key, value, biases)
    spent = cost.of("distance_bias", SIZES, table=table)
    alone = cost.of("fused", SIZES)
    assert spent.operations.matmul == counter.cost.operations.matmul
    added = spent.operations.elementwise - alone.operations.elementwise
    assert added == (counter.cost.operations.elementwise - without.cost.operations.elementwise)
    numbers = sum(x.numel() for x in (query, key, value))
    written = output.numel() + table * biases.numel()
    assert spent.bytes_read == 4 * (numbers + bias.numel() + table * biases.numel())
    assert spent.bytes_written == spent.peak_bytes == 4 * written


def test_pairs_that_a_mask_forbids_are_not_counted():
    heads = 2 * 3
    for method, each in (("differential", 4 * (7 + 2)), ("distance_bias", 2 * (7 + 2))):
        some, every = (cost.of(method, SIZES, pairs=pairs).operations for pairs in (20, None))
        assert every.matmul - some.matmul == heads * (5 * 13 - 20) * each
        assert every.exponentials > some.exponentials
    some, every = (
        cost.of("distance_bias", SIZES, pairs=p).operations.elementwise for p in (20, None)
    )
    assert every - some == heads * (5 * 13 - 20) * 4  # three in the core, and the bias
