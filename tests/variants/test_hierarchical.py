"""Hierarchical attention: the weights it stands for, their error bound, and its cost."""

import math
from itertools import pairwise

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import attnref
from attnref.variants.hierarchical import hierarchical_attention
from tests.variants.every import every

CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def run_of(i, j, block_size, num_means, n):
    """The keys that share one score with key j for query i, from the definition."""
    size = block_size
    if abs(i // size - j // size) <= 1:
        return range(j, j + 1)
    while abs(i // (2 * size) - j // (2 * size)) > 1:
        size *= 2
    length = size // num_means
    start = j // length * length
    return range(start, min(start + length, n))


def replaced_scores(query, key, block_size, num_means):
    """All n × n scores that the method stands for, one pair at a time."""
    n, d_k = query.shape[-2:]
    rows = []
    for i in range(n):
        means = [
            key[..., list(run_of(i, j, block_size, num_means, n)), :].mean(-2) for j in range(n)
        ]
        rows.append((query[..., i : i + 1, :] * torch.stack(means, -2)).sum(-1))
    return torch.stack(rows, -2) / math.sqrt(d_k)


def dense(query, key, value, *, is_causal, block_size, num_means):
    scores = replaced_scores(query, key, block_size, num_means)
    n = scores.shape[-1]
    future = torch.ones(n, n, dtype=torch.bool, device=query.device).triu(1)
    if is_causal:
        scores = scores.masked_fill(future, -torch.inf)
    return torch.softmax(scores, -1) @ value


def smooth(n, d, generator):
    """A path of slow waves: neighbours are nearly equal."""
    device = generator.device
    place = torch.arange(n, device=device, dtype=torch.float64)[:, None] / n
    phase, speed = torch.rand(2, d, device=device, generator=generator, dtype=torch.float64)
    return 2 * torch.sin(2 * math.pi * (1 + 2 * speed) * place + 7 * phase)


@pytest.mark.claim("hierarchical-shares-scores")
@pytest.mark.parametrize("is_causal", [False, True])
@every(
    ("n", "block_size", "num_means"),
    [(1, 2, 1), (7, 4, 2), (23, 2, 1), (24, 2, 2), (37, 4, 2), (53, 6, 3), (33, 3, 3), (17, 2, 2)],
)
def test_values_and_gradients_are_those_of_the_replaced_scores(
    n, block_size, num_means, is_causal, randn, assert_same
):
    options = {"is_causal": is_causal, "block_size": block_size, "num_means": num_means}
    inputs = [t.requires_grad_() for t in (randn(2, 3, n, 5), randn(2, 3, n, 5), randn(2, 3, n, 7))]
    ours, expected = hierarchical_attention(*inputs, **options), dense(*inputs, **options)
    with torch.no_grad():  # block by block
        torch.testing.assert_close(hierarchical_attention(*inputs, **options), expected, **CLOSE)
    assert_same(ours, expected, inputs, 1e-11)


@every(("n", "block_size", "num_means"), [(13, 7, 1), (14, 7, 7), (5, 64, 8), (28, 7, 7)])
@every("is_causal", [False, True])
def test_it_is_exact_where_no_run_has_two_keys(n, block_size, num_means, is_causal, randn):
    query, key, value = randn(3, n, 5), randn(3, n, 5), randn(3, n, 2)
    torch.testing.assert_close(
        hierarchical_attention(
            query, key, value, is_causal=is_causal, block_size=block_size, num_means=num_means
        ),
        attnref.scaled_dot_product_attention(query, key, value, is_causal=is_causal),
        **CLOSE,
    )


@pytest.mark.claim("equal-keys-in-runs-are-exact")
@pytest.mark.parametrize("is_causal", [False, True])
def test_it_is_exact_where_the_keys_of_a_run_are_equal(is_causal, randn):
    """Values may differ: their mean is all that equal weights see."""
    n = 64
    query, value = randn(n, 5), randn(n, 3)
    key = randn(n // 16, 5).repeat_interleave(16, 0)
    torch.testing.assert_close(
        hierarchical_attention(query, key, value, is_causal=is_causal, block_size=4, num_means=1),
        attnref.scaled_dot_product_attention(query, key, value, is_causal=is_causal),
        **CLOSE,
    )


@pytest.mark.claim("hierarchical-bound")
@pytest.mark.parametrize("is_smooth", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_error_keeps_its_bound(is_causal, is_smooth, generator, randn):
    """tanh(δ/2) times the diameter of the values, row by row; small on smooth data only."""
    n, d, options = 97, 8, {"block_size": 8, "num_means": 4}
    query, key, value = (smooth(n, d, generator) if is_smooth else randn(n, d) for _ in range(3))
    exact = attnref.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    ours = hierarchical_attention(query, key, value, is_causal=is_causal, **options)
    off = (replaced_scores(query, key, **options) - query @ key.mT / math.sqrt(d)).abs()
    if is_causal:
        off = off.tril()
    delta = off.amax(-1)  # (n,)
    bound = torch.tanh(delta / 2) * torch.cdist(value, value).max()
    moved = (ours - exact).norm(dim=-1)
    assert (moved <= bound + 1e-13).all()
    assert moved.max() > 1e-4  # it is an approximation
    error = (ours - exact).norm() / exact.norm()
    mean = (value.mean(0) - exact).norm() / exact.norm()
    if is_smooth:
        assert error < 0.1 * mean
    elif not is_causal:
        assert error > 0.2 * mean


@pytest.mark.claim("hierarchical-bound")
@every("delta", [0.01, 0.1, 0.3])
def test_a_run_of_two_keys_comes_near_the_bound(delta):
    """All weight lies on one run, with scores of δ and -δ, which become 0: off by tanh(δ)/2."""
    n, d = 8, 2
    query, key, value = (torch.zeros(n, d, dtype=torch.float64) for _ in range(3))
    query[-1] = torch.tensor([30.0, 1.0])
    key[:, 0] = -1.0
    key[:2] = torch.tensor([[1.0, delta], [1.0, -delta]], dtype=torch.float64)
    key *= math.sqrt(d)
    value[0, 0], value[1, 0] = 1.0, -1.0
    options = {"block_size": 2, "num_means": 1}
    exact = attnref.scaled_dot_product_attention(query, key, value)[-1]
    ours = hierarchical_attention(query, key, value, **options)[-1]
    off = replaced_scores(query, key, **options) - query @ key.mT / math.sqrt(d)
    assert off[-1].abs().max().item() == pytest.approx(delta, rel=1e-12)
    moved, bound = (ours - exact).norm().item(), 2 * math.tanh(delta / 2)
    assert 0.9 * bound < moved <= bound


@pytest.mark.claim("more-means-are-nearer")
def test_more_means_are_nearer_on_smooth_data(generator):
    """A fourth with each doubling; with values that jump, what is left is of the first order."""
    query, key, value = (smooth(500, 8, generator) for _ in range(3))

    def errors(value):
        exact = attnref.scaled_dot_product_attention(query, key, value)
        return [
            (hierarchical_attention(query, key, value, block_size=16, num_means=r) - exact).norm()
            for r in (1, 2, 4, 8, 16)
        ]

    found = errors(value)
    assert found == sorted(found, reverse=True)
    cuts = [after / before for before, after in pairwise(found[1:])]
    assert all(0.2 < cut < 0.3 for cut in cuts)
    jumping = errors(value * torch.where(torch.arange(500) % 2 == 0, 1, -1)[:, None].to(value))
    assert all(after > 0.35 * before for before, after in pairwise(jumping[1:]))


@pytest.mark.claim("hierarchical-operations")
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_number_of_operations_is_that_of_the_docstring(is_causal, randn):
    """It grows by 4 log(4n)/log(n) when n does by 4, and so stays below 4.8."""
    heads, d_k, d_v, block_size, num_means = 2, 5, 3, 16, 2

    def operations(n):
        query, key, value = randn(heads, n, d_k), randn(heads, n, d_k), randn(heads, n, d_v)
        with FlopCounterMode(display=False) as counter:
            hierarchical_attention(
                query, key, value, is_causal=is_causal, block_size=block_size, num_means=num_means
            )
        return counter.get_total_flops()

    counts = {}
    for n in (512, 2048, 8192):
        counts[n] = operations(n)
        levels = math.log2(n / (2 * block_size))
        columns = (2 if is_causal else 3) * (block_size + num_means * levels)
        assert counts[n] == 2 * heads * n * columns * (d_k + d_v)
    assert counts[8192] / counts[2048] < 4.8


def test_means_of_the_largest_numbers_do_not_overflow(device):
    key = torch.full((8, 1), 3e38, device=device)
    value = torch.full((8, 1), 3e38, device=device)
    for query in (torch.zeros_like(key), torch.full_like(key, 1e-38)):
        ours = hierarchical_attention(query, key, value, block_size=1, num_means=1)
        torch.testing.assert_close(ours, value)


def test_a_block_may_be_longer_than_the_text(randn):
    """One block of all tokens, at no more than their cost."""
    query, key, value = randn(5, 3), randn(5, 3), randn(5, 2)
    expected = attnref.scaled_dot_product_attention(query, key, value, is_causal=True)
    ours = hierarchical_attention(
        query, key, value, block_size=10**9, num_means=10**9, is_causal=True
    )
    torch.testing.assert_close(ours, expected)


@every(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size: expected an integer of 1 or more"),
        ({"num_means": 0}, "num_means: expected an integer of 1 or more"),
        ({"block_size": 8, "num_means": 3}, "num_means: expected a divisor of block_size=8, got 3"),
        ({"key": torch.ones(7, 3)}, "key: expected 6 tokens, as query has, got 7. Near"),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    tokens = torch.ones(6, 3)
    given = {"query": tokens, "key": tokens} | options
    with pytest.raises(ValueError, match=f"^{message}"):
        hierarchical_attention(value=given["key"], **given)
