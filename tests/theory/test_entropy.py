"""What the pages claim of entropy: its bounds, Gaussian scores, information, length."""

import math

import pytest
import torch

import attnref
from attnref import softmax

EPS = torch.finfo(torch.float64).eps


@pytest.fixture
def rows(device, randn):
    """Weights of 300 rows of 7 keys, from flat to saturated, and both extremes."""
    size = torch.logspace(-2, 1.5, 300, dtype=torch.float64, device=device)[:, None]
    random = randn(300, 7)
    extremes = torch.zeros(2, 7, dtype=torch.float64, device=device)
    extremes[1, 0] = 1e3
    return softmax.stable(torch.cat([size * random, extremes]))


@pytest.mark.claim("counts-of-keys-in-order")
def test_four_counts_of_keys_are_ordered(rows):
    counts = torch.stack(
        [
            1 / rows.amax(-1),
            1 / rows.square().sum(-1),
            softmax.entropy(rows).exp(),
            torch.full_like(rows[:, 0], 7),
        ]
    )
    assert (counts.diff(dim=0) >= -64 * EPS).all()
    torch.testing.assert_close(counts[:, -2], torch.full_like(counts[:, -2], 7))
    torch.testing.assert_close(counts[:3, -1], torch.ones_like(counts[:3, -1]))


@pytest.mark.claim("gibbs-inequality")
def test_a_divergence_is_never_negative(rows, generator):
    others = rows[torch.randperm(len(rows), device=rows.device, generator=generator)]
    others = others + 1e-12
    others = others / others.sum(-1, keepdim=True)
    divergence = (rows * (rows.clamp(min=1e-300) / others).log()).sum(-1)
    assert (divergence >= -64 * EPS).all()
    assert divergence.max() > 1


@pytest.mark.claim("noise-of-an-average")
def test_independent_noise_of_the_values_is_divided_by_the_inverse_sum_of_squares(rows, generator):
    p, draws = rows[150], 20_000
    v = torch.randn(draws, 7, dtype=p.dtype, device=p.device, generator=generator)
    # Relative s.d. of a sample variance of normals is sqrt(2 / draws).
    expected = p.square().sum().item()
    assert (v @ p).var().item() == pytest.approx(expected, rel=5 * math.sqrt(2 / draws))


@pytest.mark.claim("gaussian-entropy")
@pytest.mark.parametrize("deviation", [0.25, 0.5, 1.0])
def test_entropy_of_gaussian_scores_is_half_the_variance_below_its_maximum(deviation, randn):
    n, rows = 8192, 100
    scores = randn(rows, n)
    entropy = softmax.entropy(softmax.stable(deviation * scores))
    error = entropy.std().item() / math.sqrt(rows)
    # ln Z and the mean score under p are ratios of averages of n terms; their bias is of the
    # order of the relative variance of one term over n, e^σ² (1 + σ²)²/n.
    variance = deviation**2
    bias = math.exp(variance) * (1 + variance) ** 2 / n
    expected = math.log(n) - variance / 2
    assert entropy.mean().item() == pytest.approx(expected, abs=5 * error + bias)


@pytest.mark.claim("beyond-freezing-the-law-is-absurd")
def test_the_law_would_be_negative_beyond_the_freezing_point(randn):
    n = 1024
    deviation = 1.3 * math.sqrt(2 * math.log(n))
    scores = randn(200, n)
    p = softmax.stable(deviation * scores)
    entropy = softmax.entropy(p)
    assert math.log(n) - deviation**2 / 2 < -4
    assert (entropy >= 0).all()
    assert entropy.exp().mean() < 10
    assert p.topk(10).values.sum(-1).mean() > 0.9


@pytest.mark.claim("information-is-a-mean-divergence")
def test_what_the_index_tells_of_the_query(randn):
    for c in (0.0, 0.25, 1.0, 16.0):
        q = randn(97, 5)
        k = randn(11, 5)
        p = softmax.stable(c * q @ k.mT)  # (97, 11)
        together = p.mean(0)
        information = softmax.entropy(together) - softmax.entropy(p).mean()
        divergence = torch.special.xlogy(p, p / together).sum(-1).mean()
        torch.testing.assert_close(information, divergence, rtol=0, atol=64 * EPS)
        assert -64 * EPS <= information <= math.log(11)
        assert (information > 0.01) == (c > 0)


@pytest.mark.claim("information-of-small-factors")
def test_for_small_factors_the_index_tells_half_the_variance_of_the_scores(randn):
    """To second order in c; what is left out is of the order of c times σ², by the third moment."""
    d_k, n, queries = 16, 256, 4000
    q = randn(queries, d_k)
    k = randn(n, d_k)

    def told(q, c):
        scores = c * q @ k.mT
        p = softmax.stable(scores)
        information = softmax.entropy(p.mean(0)) - softmax.entropy(p).mean()
        return information.item(), scores.var(-1, correction=0).mean().item()

    for c in (1 / 64, 1 / 32, 1 / 16):
        information, variance = told(q, c)
        assert information == pytest.approx(variance / 2, rel=c)
    # Not for a factor that is not small, nor for queries that have much in common.
    information, variance = told(q, 1.0)
    assert information < variance / 4
    information, variance = told(q + 3 * q[:1], 1 / 16)
    assert information < variance / 4


@pytest.mark.claim("root-of-the-logarithm-keeps-the-share")
def test_random_scores_keep_their_share_of_the_entropy_under_the_root_of_the_logarithm(randn):
    def share(n, factor):
        scores = randn(2**18 // n, n)
        return (softmax.entropy(softmax.stable(factor * scores)).mean() / math.log(n)).item()

    short, long = 64, 32_768
    growth = math.log(long) / math.log(short)
    before = share(short, 1.0)
    assert share(long, 1.0) > before + 0.04
    assert share(long, growth) < before - 0.1
    # For σ² = ln n / ln 64 the law is 1 - 1/(2 ln 64) at every length; at 64 keys it is low by
    # the bias of short rows, e (1 + 1)²/64 of ln 64 at most.
    bias = 4 * math.e / 64 / math.log(64)
    assert share(long, math.sqrt(growth)) == pytest.approx(before, abs=bias)


@pytest.mark.claim("entropy-from-fused-outputs")
@pytest.mark.parametrize("c", [0.1, 0.5, 3.0])
def test_entropy_without_the_matrix_of_weights(c, randn):
    """H = ln Z - c q·(P K): the log-sum-exp, and attention with the keys as values."""
    q = randn(13, 5)
    k = randn(11, 5)
    log_sum_exp = softmax.log_sum_exp(c * q @ k.mT)
    mean_key = attnref.scaled_dot_product_attention(q, k, k, scale=c)
    found = log_sum_exp - c * (q * mean_key).sum(-1)
    expected = softmax.entropy(attnref.attention_weights(q, k, scale=c))
    torch.testing.assert_close(found, expected, rtol=0, atol=256 * EPS)
