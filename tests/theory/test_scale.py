"""What the pages claim of the scale factor: weights, gradients, training."""

import math

import pytest
import torch

import attnref


@pytest.mark.claim("entropy-falls-with-the-factor")
def test_raising_the_factor_never_raises_the_entropy(randn):
    query = randn(13, 7)
    key = randn(11, 7)
    entropies = []
    for factor in torch.linspace(0, 20, 41).tolist():
        p = attnref.attention_weights(query, key, scale=factor)
        entropies.append(-torch.special.xlogy(p, p).sum(-1))
    entropies = torch.stack(entropies)  # (factors, queries)
    torch.testing.assert_close(entropies[0], torch.full_like(entropies[0], math.log(11)))
    assert (entropies.diff(dim=0) <= 1e-14).all()
    assert (entropies[-1] < 0.9).all()


@pytest.mark.claim("largest-weight-bound")
def test_what_the_largest_weight_leaves_to_the_others(device, randn):
    scores = 5 * randn(1000, 11)
    p = torch.softmax(scores, -1)
    first, second = scores.topk(2).values.unbind(-1)
    others = p.sum(-1) - p.amax(-1)
    assert (others <= 10 * torch.exp(second - first) + 1e-15).all()
    # Equality when all the others are tied: the bound cannot be improved.
    tied = torch.zeros(11, dtype=torch.float64, device=device)
    tied[4] = 30.0
    left = torch.softmax(tied, -1)[0].item() * 10
    assert left == pytest.approx(10 * math.exp(-30), rel=1e-11)


@pytest.mark.claim("query-gradient-keeps-its-size")
def test_only_the_inverse_square_root_keeps_the_query_gradient(device, generator):
    n, queries = 64, 512

    def median_gradient(power, d_k):
        q = torch.randn(queries, 1, d_k, device=device, generator=generator, requires_grad=True)
        k = torch.randn(queries, n, d_k, device=device, generator=generator)
        p = attnref.attention_weights(q, k, scale=d_k**power)
        upstream = torch.randn(p.shape, device=device, generator=generator)
        (gradient,) = torch.autograd.grad(p, q, upstream)
        return gradient.norm(dim=-1).median().item()

    ratios = {
        power: median_gradient(power, 512) / median_gradient(power, 32) for power in (0, -0.5, -1)
    }
    # Spread of one norm is about a third of it, so a ratio of two medians of 512 errs by 0.03.
    assert ratios[-0.5] == pytest.approx(1, abs=0.1)
    assert ratios[-1] == pytest.approx(1 / 4, abs=0.03)  # 1/sqrt(512/32)
    assert ratios[0] < 0.2


@pytest.mark.claim("correlated-scores-drift")
@pytest.mark.parametrize("d_k", [16, 256])
def test_correlated_vectors_have_a_mean_score(d_k, randn):
    rho, pairs = 0.36, 4000
    q, noise = randn(2, pairs, d_k)
    k = rho * q + math.sqrt(1 - rho**2) * noise
    mean = (q * k).sum(-1).mean().item()
    # One term has variance 1 + rho²; five standard errors.
    error = 5 * math.sqrt((1 + rho**2) * d_k / pairs)
    for factor, expected in ((d_k**-0.5, rho * math.sqrt(d_k)), (1 / d_k, rho)):
        assert factor * mean == pytest.approx(expected, abs=factor * error)


@pytest.mark.claim("scale-is-absorbed")
def test_a_factor_can_be_absorbed_by_the_query_projection(randn):
    x = randn(11, 5)
    W_q, W_k = randn(2, 5, 7)
    for a in (0.25, 3.0, 7.0):
        one = attnref.scaled_dot_product_attention(x @ W_q, x @ W_k, x, scale=1.0)
        other = attnref.scaled_dot_product_attention(x @ (a * W_q), x @ W_k, x, scale=1 / a)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
        expected = torch.softmax((x @ W_q) @ (x @ W_k).mT, dim=-1) @ x
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-13)
