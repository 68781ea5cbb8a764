import functools
import math

import numpy as np
import pytest
import torch
from every import every

import attnref
from attnref import oracle, scaling, score_statistics
from attnref.score_statistics import ScoreStatistics


@pytest.fixture(scope="module")
def rows(device):
    """Statistics of 1000 single rows, each a query with 64 keys of its own."""

    @functools.cache
    def measure(head_dim, factor):
        seeded = torch.Generator(device).manual_seed(head_dim)
        query = torch.randn(1000, 1, head_dim, device=device, generator=seeded)
        key = torch.randn(1000, 64, head_dim, device=device, generator=seeded)
        return score_statistics.measure(query, key, scale=factor(head_dim), generator=seeded)

    return measure


def assert_mean(numbers, expected, error=0.0, rel=0.0):
    """The mean of independent numbers within five standard errors, theirs and ``error``'s."""
    own = numbers.std().item() / math.sqrt(len(numbers))
    tolerance = 5 * math.hypot(own, error) + rel * expected
    assert numbers.mean().item() == pytest.approx(expected, abs=tolerance)


def by_hand(query, key, scale, bias, upstream):
    """Every statistic of one head, from the Jacobian matrix of each row, in NumPy."""
    _, weights = oracle.scaled_dot_product_attention(query, key, key, attn_mask=bias, scale=scale)
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


@every("kind", ["none", "bool", "float"])
def test_gradients_are_those_of_autograd(kind, device, randn):
    """dL/ds and dL/dq of attention itself, row by row: each row is a leading index here."""
    scale = 0.3
    query, key, upstream = randn(5, 1, 7), randn(5, 11, 7), randn(5, 1, 11)
    mask, bias = mask_of(kind, device, randn)
    mask = None if mask is None else mask[:, None]
    ours = score_statistics.measure(query, key, scale=scale, attn_mask=mask, upstream=upstream)

    query.requires_grad_()
    weights = attnref.attention_weights(query, key, mask, scale=scale)
    (to_query,) = torch.autograd.grad((weights * upstream).sum(), query)
    # The scores as a mask, under a factor of 0, give the gradient of the scores.
    scores = scale * query.detach() @ key.mT + bias[:, None].to(device)
    scores.requires_grad_()
    weights = attnref.attention_weights(query.detach(), key, scores, scale=0.0)
    (to_score,) = torch.autograd.grad((weights * upstream).sum(), scores)

    seeing = bias.isfinite().any(-1).to(device)
    for statistic, gradient in ((ours.query_gradient, to_query), (ours.score_gradient, to_score)):
        norms = gradient[:, 0].norm(dim=-1)
        torch.testing.assert_close(statistic[seeing], norms[seeing], rtol=1e-12, atol=1e-14)
        assert statistic[~seeing].isnan().all()
        assert (norms[~seeing] == 0).all()
    # Leaving out the factor of s = c q·k, a common slip, is wrong by just that factor.
    slip = ours.query_gradient / scale
    assert (slip[seeing] / to_query[:, 0].norm(dim=-1)[seeing] > 3).all()


def test_upstream_of_an_output_gradient(randn):
    query, key, value, gradient = randn(5, 7), randn(11, 7), randn(11, 3), randn(5, 3)
    ours = score_statistics.measure(query, key, upstream=gradient @ value.mT).query_gradient
    query.requires_grad_()
    (attnref.scaled_dot_product_attention(query, key, value) * gradient).sum().backward()
    torch.testing.assert_close(ours, query.grad.norm(dim=-1).mean(), rtol=1e-12, atol=0)


def test_a_factor_per_head_is_measured_through_the_query(device, randn):
    """Only the gradient needs the factor again: it is that of the query as it was passed in."""
    factors = torch.tensor([0.2, 1.5], device=device, dtype=torch.float64)
    query, key, upstream = randn(2, 5, 7), randn(2, 11, 7), randn(2, 5, 11)
    scaled = scaling.scale_query(query, scaling.per_head(factors))
    ours = score_statistics.measure(scaled, key, scale=1.0, upstream=upstream)
    ours = ours._replace(query_gradient=factors * ours.query_gradient)
    for head, factor in enumerate(factors.tolist()):
        alone = score_statistics.measure(
            query[head], key[head], scale=factor, upstream=upstream[head]
        )
        for name, statistic, expected in zip(ours._fields, ours, alone, strict=True):
            assert statistic[head].item() == pytest.approx(expected.item(), rel=1e-12), name


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
    for came, arguments in (
        ("neither", {}),
        ("both", {"upstream": upstream, "generator": generator}),
    ):
        with pytest.raises(
            ValueError, match=rf"^upstream: expected either upstream or generator, got {came}\."
        ) as error:
            score_statistics.measure(query, key, **arguments)
        assert "torch.Generator(query.device)" in str(error.value)
    with pytest.raises(
        ValueError, match=r"^upstream: expected the shape of the weights \(5, 11\), got \(5, 3\)\."
    ) as error:
        score_statistics.measure(query, key, upstream=randn(5, 3))
    assert "G @ value.mT" in str(error.value)


def test_arguments_of_attention_are_checked_as_there(randn):
    query, key, upstream = randn(5, 7), randn(11, 7), randn(5, 11)
    with pytest.raises(TypeError, match=r"^attn_mask: expected bool"):
        score_statistics.measure(query, key, attn_mask=torch.ones(5, 11).int(), upstream=upstream)
    with pytest.raises(TypeError, match=r"^scale: expected a number or None"):
        score_statistics.measure(query, key, scale=torch.ones(2), upstream=upstream)
    with pytest.raises(ValueError, match=r"^key: expected last dimension 7"):
        score_statistics.measure(query, randn(11, 3), upstream=upstream)


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


# What the factors do. Single rows of 64 keys, all components N(0, 1), upstream N(0, 1).

# Means of 40 000 rows, with standard errors of at most 1.5 % without a scale and 0.3 % with one.
ROWS = [
    # d_k, factor, max p, sum p², e^H, |dL/ds|, |dL/dq|
    (16, scaling.unscaled, (0.577, 0.441, 5.02, 0.257, 0.988)),
    (64, scaling.unscaled, (0.792, 0.710, 2.04, 0.177, 1.40)),
    (256, scaling.unscaled, (0.897, 0.854, 1.39, 0.102, 1.64)),
    (16, scaling.inverse_sqrt, (0.107, 0.0397, 40.8, 0.177, 0.176)),
    (64, scaling.inverse_sqrt, (0.107, 0.0388, 40.4, 0.178, 0.177)),
    (256, scaling.inverse_sqrt, (0.107, 0.0386, 40.3, 0.177, 0.177)),
    (16, scaling.inverse, (0.0272, 0.0166, 62.1, 0.127, 0.0313)),
    (64, scaling.inverse, (0.0208, 0.0159, 63.5, 0.124, 0.0155)),
    (256, scaling.inverse, (0.0181, 0.0157, 63.9, 0.124, 0.00773)),
]


@every(("head_dim", "factor", "means"), ROWS)
def test_the_table_of_factors(head_dim, factor, means, rows):
    ours = rows(head_dim, factor)
    statistics = (
        ours.max_weight,
        1 - ours.jacobian_trace,
        ours.effective_keys,
        ours.score_gradient,
        ours.query_gradient,
    )
    share = 0.015 if factor is scaling.unscaled else 0.003
    for statistic, mean in zip(statistics, means, strict=True):
        assert_mean(statistic, mean, error=share * mean)


def test_without_a_scale_the_weights_are_peaked_but_not_one_hot(rows):
    """One row in five has a weight above 0.99 when d_k = n = 64; on average two keys count."""
    peaked = (rows(64, scaling.unscaled).max_weight > 0.99).double()
    assert_mean(peaked, 0.1935, error=0.002)
    assert (rows(64, scaling.inverse_sqrt).max_weight > 0.99).sum() == 0


def test_scores_condense_once_their_variance_passes_2_ln_n(generator, randn):
    """1024 Gaussian scores: variance 64 > 2 ln n sits on few keys, variance 4 < 2 ln n does not."""
    key = randn(1000, 1024, 1, dtype=torch.float32)
    one = torch.ones_like(key[:, :1])
    condensed = score_statistics.measure(8 * one, key, scale=1.0, generator=generator)
    spread = score_statistics.measure(2 * one, key, scale=1.0, generator=generator)
    # From 150 000 rows, with their standard error.
    assert_mean(1 - condensed.jacobian_trace, 0.6019, error=0.0007)
    assert (1 - spread.jacobian_trace).mean() < 0.1


def test_without_a_scale_the_mean_gradient_hides_the_median(rows):
    """The gradient to the query keeps a mean above 1 because a few rows have very large ones."""
    for head_dim, median in ((64, 0.81), (256, 0.22)):
        gradients = rows(head_dim, scaling.unscaled).query_gradient
        assert gradients.mean() > 1.0
        # As many of 1000 rows lie below the median of 40 000 rows as a fair coin shows heads.
        below = (gradients < median).double().mean().item()
        assert below == pytest.approx(0.5, abs=5 * math.hypot(0.5 / 1000**0.5, 0.5 / 40_000**0.5))
    scaled = rows(256, scaling.inverse_sqrt)
    assert scaled.query_gradient.median() / scaled.query_gradient.mean() > 0.9
    lowest = rows(256, scaling.unscaled).score_gradient.quantile(0.1)
    assert lowest < 1e-4 < 0.1 < scaled.score_gradient.quantile(0.1)


def test_only_the_inverse_square_root_makes_the_query_gradient_independent_of_the_width(rows):
    unscaled, usual, inverse = (
        [rows(head_dim, factor).query_gradient.mean().item() for head_dim in (16, 64, 256)]
        for factor in (scaling.unscaled, scaling.inverse_sqrt, scaling.inverse)
    )
    # Ratios of means whose standard errors are 1 % with a scale and 8 % at most without.
    assert max(usual) / min(usual) < 1.07
    assert unscaled[2] / unscaled[0] > 1.1
    assert inverse[0] / inverse[2] == pytest.approx(4, rel=0.07)


@pytest.mark.claim("inverse-starts-uniform")
@every("head_dim", [16, 64, 256])
def test_1_over_d_starts_nearly_uniform_with_a_small_gradient(head_dim, rows):
    """H = ln n - Var/2 and |dL/dq| = c sqrt(d_k/n), up to terms of the order of the variance.

    Over 64 keys the variance is 1/d_k times (1 - 1/64), for the mean is that of the row.
    """
    ours = rows(head_dim, scaling.inverse)
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


@every(("divisor", "expected"), [(0.25, 5.06e-14), (1.0, 3.35e-4), (8.0, 2.46e-2), (64.0, 3.89e-3)])
def test_two_keys_and_a_gap_of_8(divisor, expected, device):
    """Between a scale that saturates and one that flattens, the gradient has its maximum."""
    query = torch.tensor([[1.0]], device=device, dtype=torch.float64)
    key = torch.tensor([[8.0], [0.0]], device=device, dtype=torch.float64)
    upstream = torch.tensor([[1.0, 0.0]], device=device, dtype=torch.float64)
    ours = score_statistics.measure(query, key, scale=1 / divisor, upstream=upstream)
    # dL/dq = p(1 - p)/divisor times the gap; 1 - p is formed with an error of half an eps.
    assert ours.query_gradient.item() / 8 == pytest.approx(
        expected, rel=5e-3, abs=torch.finfo(torch.float64).eps / divisor
    )
    assert 1 - ours.max_weight.item() <= math.exp(-8 / divisor) + 1e-16


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


@every("head_dim", [16, 64, 256])
def test_alignment_makes_1_over_d_the_factor_that_does_not_depend_on_the_width(head_dim, randn):
    """Trained queries correlate with keys, E[q_p k_p] = ρ: the usual factor lets logits drift."""
    pairs, rho = 2000, 0.36
    query = randn(pairs, 1, head_dim)
    key = rho * query + math.sqrt(1 - rho**2) * randn(pairs, 1, head_dim)
    upstream = torch.zeros(pairs, 1, 1, dtype=query.dtype, device=query.device)
    for factor, expected in (
        (scaling.inverse(head_dim), rho),
        (scaling.inverse_sqrt(head_dim), rho * math.sqrt(head_dim)),
    ):
        ours = score_statistics.measure(query, key, scale=factor, upstream=upstream)
        assert_mean(ours.logit_mean, expected)


@every("head_dim", [16, 64, 256])
def test_unscaled_products_grow_in_size_with_the_root_of_the_width_and_not_in_mean(head_dim, randn):
    """E|q·k| = sqrt(2/π) E|q|, near sqrt(2 d/π), around a mean of 0."""
    query, key = randn(2000, 1, head_dim), randn(2000, 1, head_dim)
    upstream = torch.zeros(2000, 1, 1, dtype=query.dtype, device=query.device)
    products = score_statistics.measure(query, key, scale=1.0, upstream=upstream).logit_mean
    length = math.sqrt(2) * math.exp(math.lgamma((head_dim + 1) / 2) - math.lgamma(head_dim / 2))
    assert_mean(products, 0.0)
    assert_mean(products.abs(), math.sqrt(2 / math.pi) * length)
