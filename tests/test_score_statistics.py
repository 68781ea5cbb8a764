import math

import numpy as np
import pytest
import torch

import attnref
from attnref import oracle, score_statistics
from attnref.score_statistics import ScoreStatistics
from tests.variants.every import every


@pytest.fixture(scope="module")
def rows(device):
    """Statistics of 1000 single rows, each a query with 64 keys of its own, and the scale 1/d_k."""

    def measure(head_dim):
        seeded = torch.Generator(device).manual_seed(head_dim)
        query = torch.randn(1000, 1, head_dim, device=device, generator=seeded)
        key = torch.randn(1000, 64, head_dim, device=device, generator=seeded)
        return score_statistics.measure(query, key, scale=1 / head_dim, generator=seeded)

    return measure


def assert_mean(numbers, expected, error=0.0, rel=0.0):
    """The mean of independent numbers within five standard errors, theirs and ``error``'s."""
    own = numbers.std().item() / math.sqrt(len(numbers))
    tolerance = 5 * math.hypot(own, error) + rel * expected
    assert numbers.mean().item() == pytest.approx(expected, abs=tolerance)


def by_hand(query, key, scale, bias, upstream):
    """Every statistic of one head, from the Jacobian matrix of each row, in NumPy."""
    weights = oracle.attend(query, key, key, attn_mask=bias, scale=scale).weights
    logits = scale * query @ key.T + bias
    kept = [i for i in range(len(query)) if np.isfinite(logits[i]).any()]
    numbers = logits[np.isfinite(logits)]
    entropy, largest, trace, to_score, to_query = [], [], [], [], []
    for i in kept:
        p = weights[i]
        jacobian = np.diag(p) - np.outer(p, p)
        entropy.append(-sum(x * math.log(x) for x in p if x > 0))
        largest.append(p.max())
        trace.append(np.trace(jacobian))
        to_score.append(np.linalg.norm(jacobian @ upstream[i]))
        to_query.append(np.linalg.norm(scale * key.T @ jacobian @ upstream[i]))
    return ScoreStatistics(
        numbers.mean(),
        numbers.var(),
        np.mean(entropy),
        np.mean(np.exp(entropy)),
        np.mean(largest),
        np.mean(trace),
        np.mean(to_score),
        np.mean(to_query),
    )


def mask_of(kind, device, randn):
    forbidden = torch.zeros(5, 11, dtype=torch.bool, device=device)
    forbidden[1] = forbidden[3, 4:] = forbidden[:, 2] = True
    if kind == "none":
        return None, torch.zeros(5, 11)
    if kind == "bool":
        return ~forbidden, torch.zeros(5, 11).masked_fill(forbidden.cpu(), -torch.inf)
    bias = randn(5, 11).masked_fill(forbidden, -torch.inf)
    return bias, bias.cpu()


@every("kind", ["none", "bool", "float"])
@every("scale", [None, 2.0])
def test_statistics_match_the_jacobian_of_each_row(kind, scale, device, randn):
    query, key, upstream = randn(2, 5, 7), randn(2, 11, 7), randn(2, 5, 11)
    kept = query.clone(), key.clone(), upstream.clone()
    mask, bias = mask_of(kind, device, randn)
    ours = score_statistics.measure(query, key, scale=scale, attn_mask=mask, upstream=upstream)
    for head in range(2):
        expected = by_hand(
            query[head].cpu().numpy(),
            key[head].cpu().numpy(),
            scale or 7**-0.5,
            bias.numpy(),
            upstream[head].cpu().numpy(),
        )
        for name, statistic, number in zip(ours._fields, ours, expected, strict=True):
            assert statistic.shape == (2,), name
            assert statistic[head].item() == pytest.approx(number, rel=1e-12, abs=1e-14), name
    for tensor, before in zip((query, key, upstream), kept, strict=True):
        assert torch.equal(tensor, before)


def test_upstream_of_an_output_gradient(randn):
    query, key, value, gradient = randn(5, 7), randn(11, 7), randn(11, 3), randn(5, 3)
    ours = score_statistics.measure(query, key, upstream=gradient @ value.mT).query_gradient
    query.requires_grad_()
    (attnref.scaled_dot_product_attention(query, key, value) * gradient).sum().backward()
    torch.testing.assert_close(ours, query.grad.norm(dim=-1).mean(), rtol=1e-12, atol=0)


def test_a_drawn_upstream_is_unit_gaussian_and_repeatable(device, randn):
    """E|J u|² = tr J² for independent u of variance 1."""
    query, key = randn(7), randn(11, 7)
    trials = 2000
    many = query.expand(trials, 1, 7)
    first, again = (
        score_statistics.measure(many, key, generator=torch.Generator(device).manual_seed(3))
        for _ in range(2)
    )
    assert torch.equal(first.score_gradient, again.score_gradient)
    p = attnref.attention_weights(query[None], key)[0]
    jacobian = p.diag() - torch.outer(p, p)
    assert_mean(first.score_gradient**2, (jacobian @ jacobian).trace().item())
    factor = key.mT @ jacobian / math.sqrt(7)
    assert_mean(first.query_gradient**2, factor.square().sum().item())


def test_leading_dimensions_broadcast_and_half_precision_becomes_float32(randn):
    query, key = randn(2, 3, 5, 7, dtype=torch.bfloat16), randn(3, 11, 7, dtype=torch.bfloat16)
    upstream = randn(2, 3, 5, 11, dtype=torch.float32)
    ours = score_statistics.measure(query, key, upstream=upstream)
    exact = score_statistics.measure(query.double(), key.double(), upstream=upstream.double())
    for name, statistic, expected in zip(ours._fields, ours, exact, strict=True):
        assert statistic.shape == (2, 3), name
        assert statistic.dtype == torch.float32, name
        # Weights rounded to bfloat16, each by half its eps; the entropy's slope is up to ln 11.
        torch.testing.assert_close(
            statistic.double(), expected, rtol=2**-8 * math.log(11), atol=0.01
        )


def test_no_query_sees_a_key(device, randn):
    nothing = torch.zeros(5, 11, dtype=torch.bool, device=device)
    ours = score_statistics.measure(
        randn(5, 7), randn(11, 7), attn_mask=nothing, upstream=randn(5, 11)
    )
    assert all(statistic.isnan() for statistic in ours)


def test_one_source_of_the_upstream_gradient_is_named(generator, randn):
    query, key, upstream = randn(5, 7), randn(11, 7), randn(5, 11)
    for arguments, message in (
        ({}, r"either upstream or generator, got neither\. .* torch\.Generator\(query\.device\)"),
        ({"upstream": upstream, "generator": generator}, "either upstream or generator, got both"),
        ({"upstream": randn(5, 3)}, r"the shape of the weights \(5, 11\), .* G @ value\.mT"),
    ):
        with pytest.raises(ValueError, match=f"^upstream: expected {message}"):
            score_statistics.measure(query, key, **arguments)


def test_arguments_of_attention_are_checked_as_there(randn):
    query, key, upstream = randn(5, 7), randn(11, 7), randn(5, 11)
    for arguments, message in (
        ({"attn_mask": torch.ones(5, 11).int()}, "attn_mask: expected bool"),
        ({"scale": torch.ones(2)}, "scale: expected a number or None"),
        ({"key": randn(11, 3)}, "key: expected last dimension 7"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            score_statistics.measure(query, **{"key": key, "upstream": upstream} | arguments)


def test_statistics_vmap_and_compile(randn):
    query, key, upstream = randn(3, 5, 7), randn(3, 11, 7), randn(3, 5, 11)

    def measure(query, key, upstream):
        return score_statistics.measure(query, key, upstream=upstream)

    together = measure(query, key, upstream)
    one_by_one = torch.vmap(measure)(query, key, upstream)
    compiled = torch.compile(measure, backend="eager", fullgraph=True)(query, key, upstream)
    for ours in (one_by_one, compiled):
        for statistic, expected in zip(ours, together, strict=True):
            torch.testing.assert_close(statistic, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.claim("inverse-starts-uniform")
@every("head_dim", [16, 64, 256])
def test_1_over_d_starts_nearly_uniform_with_a_small_gradient(head_dim, rows):
    """H = ln n - Var/2 and |dL/dq| = c sqrt(d_k/n), up to terms of the order of the variance.

    Over 64 keys the variance is 1/d_k times (1 - 1/64), for the mean is that of the row.
    """
    ours = rows(head_dim)
    assert_mean(math.log(64) - ours.entropy, (1 - 1 / 64) / (2 * head_dim), rel=1 / head_dim)
    assert_mean(ours.query_gradient, 1 / math.sqrt(64 * head_dim), rel=1 / head_dim)


@pytest.mark.claim("mean-jacobian-falls-slowly")
def test_without_a_scale_the_mean_jacobian_falls_as_one_over_the_deviation(generator, randn):
    """E tr J = ρ/σ for large σ, with ρ the density at 0 of the gap of the two largest scores.

    So it does not vanish exponentially: what is left comes from the rows whose two leaders tie.
    """
    n, deviation, step = 64, 64.0, 1e-3
    x = torch.arange(-8, 8, step, dtype=torch.float64)
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    rho = (n * (n - 1) * density**2 * torch.special.ndtr(x) ** (n - 2)).sum().item() * step
    assert rho == pytest.approx(2.344, abs=5e-4)
    key = randn(40_000, n, 1, dtype=torch.float32)
    query = deviation * torch.ones_like(key[:, :1])
    ours = score_statistics.measure(query, key, scale=1.0, generator=generator)
    # The next term comes with the chance ρ/σ that a third score is near.
    assert_mean(ours.jacobian_trace, rho / deviation, rel=rho / deviation)
    assert ours.jacobian_trace.median() < 1e-6


@pytest.mark.claim("flat-rows-keep-their-jacobian")
def test_flat_weights_keep_their_jacobian_and_lose_the_gradient_as_the_factor(randn):
    """A large divisor makes the gradient small for queries and keys, not for scores."""
    query, key, upstream = randn(1, 64), randn(64, 64), randn(1, 64)
    centred = (upstream - upstream.mean()) / 64
    for divisor in (1e4, 1e6):
        ours = score_statistics.measure(query, key, scale=1 / divisor, upstream=upstream)
        # Logits of the order of |q||k|/divisor, 64/divisor and a little more, remain.
        remains = 5 * 64 / divisor
        torch.testing.assert_close(ours.score_gradient, centred.norm(), rtol=remains, atol=0)
        expected = (centred @ key).norm()
        torch.testing.assert_close(divisor * ours.query_gradient, expected, rtol=remains, atol=0)
