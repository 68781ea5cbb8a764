"""Nyström attention: exact at full rank, and its error against rank."""

import itertools
import math

import pytest
import torch

import attnref
from attnref.variants.nystrom import nystrom_attention
from tests.variants.every import every


def by_svd(query, key, value, rank, scale):
    """The definition, with segments cut by hand and the pseudo-inverse of linear algebra."""

    def means(tokens):
        length = tokens.shape[-2]
        edges = [-(-i * length // rank) for i in range(rank + 1)]
        runs = [tokens[..., a:b, :] for a, b in itertools.pairwise(edges)]
        return torch.stack([run.mean(-2) for run in runs], -2)

    def weights(q, k):
        return torch.softmax(scale * q @ k.mT, -1)

    q, k = means(query), means(key)
    return weights(query, k) @ torch.linalg.pinv(weights(q, k)) @ (weights(q, key) @ value)


def relative(ours, exact):
    return ((ours - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_values_and_gradients_are_those_of_the_definition(rank, randn):
    inputs = [randn(2, 3, *size).requires_grad_() for size in ((7, 5), (11, 5), (11, 2))]
    ours = nystrom_attention(*inputs, num_landmarks=rank, iterations=40, scale=1.3)
    expected = by_svd(*inputs, rank, 1.3)
    # The core's condition number, up to about 1e4 here, multiplies the rounding.
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-9)
    cotangent = randn(2, 3, 7, 2)
    one, other = (torch.autograd.grad(x, inputs, cotangent) for x in (ours, expected))
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.claim("nystrom-exact-at-full-rank")
def test_it_is_exact_with_every_token_a_landmark(randn):
    query, key, value = randn(3, 7, 16), randn(3, 7, 16), randn(3, 7, 2)
    ours = nystrom_attention(query, key, value, num_landmarks=7, iterations=40)
    exact = attnref.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(ours, exact, rtol=1e-8, atol=1e-9)
    # Stopped early the inverse is not whole, and the answer is not exact.
    assert relative(nystrom_attention(query, key, value, num_landmarks=7), exact) > 1e-6


@pytest.mark.claim("nystrom-weights-may-be-negative")
def test_weights_sum_to_one_but_may_be_negative(device, randn):
    """Where the core is invertible: its inverse, too, leaves a vector of ones as it is."""
    query, key = 2 * randn(3, 7, 5), 2 * randn(3, 11, 5)
    eye = torch.eye(11, device=device, dtype=torch.float64).expand(3, 11, 11)
    weights = nystrom_attention(query, key, eye, num_landmarks=3, iterations=40)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-8)
    assert weights.min() < 0


@pytest.mark.claim("nystrom-error-needs-structure")
def test_the_error_falls_with_the_rank_on_smooth_data_and_not_on_random(device, generator, randn):
    n, d = 256, 8
    place = torch.arange(n, device=device, dtype=torch.float64)[:, None] / n
    numbers = torch.rand(3, 2, d, device=device, generator=generator, dtype=torch.float64)
    query, key, value = (
        2 * torch.sin(2 * math.pi * (1 + speed) * place + 7 * phase) for phase, speed in numbers
    )
    exact = attnref.scaled_dot_product_attention(query, key, value)
    errors = [
        relative(nystrom_attention(query, key, value, num_landmarks=r, iterations=12), exact)
        for r in (2, 4, 8, 16, 32)
    ]
    assert errors[-1] < 0.1 * errors[0]
    assert errors[-1] < 0.05
    # Without structure the landmarks are near the mean, and the core is near singular.
    query, key, value = randn(512, 64), randn(512, 64), randn(512, 64)
    exact = attnref.scaled_dot_product_attention(query, key, value)
    mean = relative(value.mean(-2, keepdim=True), exact)

    def random_error(iterations, landmarks=32):
        options = {"num_landmarks": landmarks, "iterations": iterations}
        return relative(nystrom_attention(query, key, value, **options), exact)

    assert random_error(40) > 2 * mean
    assert random_error(6) > 0.9 * mean
    assert random_error(6, landmarks=128) > 0.5


@pytest.mark.claim("full-inversion-is-erratic")
def test_forty_steps_help_some_smooth_tokens_and_harm_others(device):
    """Sixteen landmarks of 512 tokens, as on the page, six draws of them."""
    n, d = 512, 64
    place = torch.arange(n)[:, None] / n
    ratios = []
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.rand(3, 2, d, generator=generator)
        query, key, value = (
            (2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))).double().to(device)
            for phase, speed in numbers
        )
        exact = attnref.scaled_dot_product_attention(query, key, value)
        six, forty = (
            nystrom_attention(query, key, value, num_landmarks=16, iterations=steps) - exact
            for steps in (6, 40)
        )
        ratios.append((forty.norm() / six.norm()).item())
    assert min(ratios) < 0.9
    assert max(ratios) > 20


@every(("n", "m"), [(1, 1), (7, 3), (65, 100), (5, 0), (0, 5)])
def test_the_usual_number_of_landmarks_fits_every_length(n, m, randn):
    query, key, value = randn(n, 3), randn(m, 3), randn(m, 2)
    ours = nystrom_attention(query, key, value)
    if m == 0 or n == 0:
        assert torch.equal(ours, query.new_zeros(n, 2))
    else:
        expected = nystrom_attention(query, key, value, num_landmarks=min(64, n, m))
        assert torch.equal(ours, expected)


def test_what_does_not_fit_is_named(randn):
    query, key = randn(7, 3), randn(5, 3)
    for wrong, kind in ((0, ValueError), (6, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(kind, match=r"^num_landmarks: expected .* between 1 and 5"):
            nystrom_attention(query, key, key, num_landmarks=wrong)
    with pytest.raises(ValueError, match=r"^iterations: expected an integer of 1 or more, got 0"):
        nystrom_attention(query, key, key, num_landmarks=2, iterations=0)
    with pytest.raises(ValueError, match=r"^value: expected shape \(5, 'd_v'\)"):
        nystrom_attention(query, key, query, num_landmarks=2)
