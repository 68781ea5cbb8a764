"""The variance of q·k: the theorem, its general law, and where it fails, counted exactly."""

import math
from fractions import Fraction
from itertools import product

import pytest

SIGNS = (Fraction(-1), Fraction(1))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def expectation(outcomes) -> Fraction:
    """Of numbers with their probabilities."""
    return sum(number * probability for number, probability in outcomes)


def variance_of_dot(pairs) -> Fraction:
    """Of q·k over ``(q, k, probability)``."""
    pairs = list(pairs)
    assert sum(probability for *_, probability in pairs) == 1
    mean = expectation((dot(q, k), p) for q, k, p in pairs)
    return expectation((dot(q, k) ** 2, p) for q, k, p in pairs) - mean**2


def uniformly(pairs):
    pairs = list(pairs)
    return [(q, k, Fraction(1, len(pairs))) for q, k in pairs]


@pytest.mark.claim("variance-equals-the-width")
def test_variance_is_the_width_for_independent_signs():
    for d_k in (1, 2, 3, 5):
        vectors = list(product(SIGNS, repeat=d_k))
        assert variance_of_dot(uniformly(product(vectors, vectors))) == d_k


@pytest.mark.claim("zero-means-are-not-enough")
def test_zero_means_do_not_make_the_mixed_terms_vanish():
    copies = [(sign,) * 8 for sign in SIGNS]
    assert variance_of_dot(uniformly(product(copies, copies))) == 64

    triples = [((a, t), (b, a * b * t)) for a, b, t in product(SIGNS, repeat=3)]
    assert variance_of_dot(uniformly(triples)) == 4
    for left_out in range(4):  # any three components take all eight values equally often
        components = [(*q, *k) for q, k in triples]
        kept = [c[:left_out] + c[left_out + 1 :] for c in components]
        assert sorted(kept) == sorted(product(SIGNS, repeat=3))


@pytest.mark.claim("sign-slip-is-luck")
def test_the_sign_slip_is_right_only_for_mean_zero():
    for mean in (Fraction(number, 8) for number in range(-40, 41)):
        square = 1 + mean**2  # variance 1
        slip = (mean - square) ** 2  # E[q] - E[q²] for q, and the same for k
        assert (slip == square**2) == (mean == 0)
    assert (Fraction(5, 4) ** 2, (Fraction(1, 2) - Fraction(5, 4)) ** 2) == (
        Fraction(25, 16),
        Fraction(9, 16),
    )


@pytest.mark.claim("general-variance-law")
def test_general_law():
    """tr(Σq Σk) + μq^T Σk μq + μk^T Σq μk, for correlated components with means of their own."""
    queries = [((1, 2, -1), 2), ((0, -3, 1), 3), ((4, 1, 1), 1), ((-1, 1, 5), 1)]
    keys = [((2, 0, 1), 1), ((-1, 1, 3), 4), ((3, -1, 0), 2)]

    def weighted(vectors):
        total = sum(weight for _, weight in vectors)
        return [(vector, Fraction(weight, total)) for vector, weight in vectors]

    def moments(vectors):
        mean = [expectation((v[p], w) for v, w in vectors) for p in range(3)]
        covariance = [
            [
                expectation((v[p] * v[r], w) for v, w in vectors) - mean[p] * mean[r]
                for r in range(3)
            ]
            for p in range(3)
        ]
        return mean, covariance

    def form(a, matrix):
        return sum(a[p] * matrix[p][r] * a[r] for p in range(3) for r in range(3))

    queries, keys = weighted(queries), weighted(keys)
    (mean_q, cov_q), (mean_k, cov_k) = moments(queries), moments(keys)
    law = (
        sum(cov_q[p][r] * cov_k[r][p] for p in range(3) for r in range(3))
        + form(mean_q, cov_k)
        + form(mean_k, cov_q)
    )
    pairs = [(q, k, wq * wk) for q, wq in queries for k, wk in keys]
    assert all(mean != 0 for mean in (*mean_q, *mean_k))
    assert variance_of_dot(pairs) == law


@pytest.mark.claim("variance-over-random-weights")
@pytest.mark.parametrize("same_input", [False, True])
def test_variance_over_random_weights(same_input, randn):
    d_model, d_k, draws, deviation = 11, 7, 20_000, 0.3
    x, y = randn(2, d_model)
    if same_input:
        y = x
    W_q, W_k = deviation * randn(2, draws, d_model, d_k)
    s = ((x @ W_q) * (y @ W_k)).sum(-1)
    expected = d_k * deviation**4 * x.dot(x).item() * y.dot(y).item()
    # A sample variance has relative s.d. sqrt((kurtosis - 1) / draws); kurtosis is 3 + 6/d_k.
    bound = 5 * math.sqrt((2 + 6 / d_k) / draws)
    assert s.var().item() == pytest.approx(expected, rel=bound)
    assert s.mean().item() == pytest.approx(0, abs=5 * math.sqrt(expected / draws))
