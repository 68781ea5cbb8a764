"""Programs of linear attention run under a counter of what they really do."""

import pytest

from attnref import cost
from attnref.cost import Operations, Sizes
from tests.cost.counter import Counter, Number, numbers
from tests.cost.programs import DTYPES, inputs, linear, plain_attention
from tests.variants.every import every


def scalar_linear(query, key, value):
    """Linear attention as a recurrence, causal: the state takes in one token at a time."""
    zero, output = Number(0.0), []
    state = [[zero] * len(value[0]) for _ in key[0]]
    norm = [zero] * len(key[0])
    for q, k, v in zip(query, key, value, strict=True):
        norm = [a + b for a, b in zip(norm, k, strict=True)]
        state = [
            [s + a * b for s, b in zip(row, v, strict=True)]
            for row, a in zip(state, k, strict=True)
        ]
        total = sum((a * b for a, b in zip(q, norm, strict=True)), zero)
        sums = (
            sum((a * b for a, b in zip(q, c, strict=True)), zero) for c in zip(*state, strict=True)
        )
        output.append([number / total for number in sums])
    return output


@every("dtype", DTYPES)
@every("lengths", [(13, 17), (5, 2)])
@every("widths", [(5, 7), (11, 3)])
def test_linear(lengths, widths, dtype, generator):
    sizes = Sizes(
        n=lengths[0], m=lengths[1], d_k=widths[0], d_v=widths[1], batch=2, num_heads=3, dtype=dtype
    )
    query, key, value, _ = inputs(sizes, generator)
    with Counter() as counter:
        linear(query[:, 0], key, value)
    assert counter.cost == cost.of("linear", sizes)


def test_linear_causal_on_single_numbers(monkeypatch, generator):
    monkeypatch.setattr(Number, "done", Operations())
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7)
    query, key, value, _ = inputs(sizes, generator)
    scalar_linear(*map(numbers, (query[0, 0].exp(), key[0].exp(), value[0])))
    assert Number.done.total == cost.of("linear", sizes).operations.total


@pytest.mark.claim("linear-pays-beyond-the-width")
def test_linear_is_cheaper_only_beyond_n_equal_d(generator):
    """O(n) hides d²: short sequences cost linear attention more than the quadratic one."""

    def products(n, program):
        sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        query, key, value, _ = (tensor.to("meta") for tensor in inputs(sizes, generator))
        with Counter() as counter:
            program(query, key, value)
        return counter.cost.operations.matmul

    def first(query, key, value):
        linear(query[:, 0], key, value)

    assert (products(32, first), products(32, plain_attention)) == (524_288, 262_144)
    assert products(64, first) == products(64, plain_attention)
    assert 64 * products(4096, first) == products(4096, plain_attention)
    for n in (32, 64, 4096):
        sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        assert cost.of("linear", sizes).operations.matmul == products(n, first)
        assert cost.of("plain", sizes).operations.matmul == products(n, plain_attention)
