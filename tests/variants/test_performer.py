"""Performer: what its random features average to, how far off they are, and causality."""

import math

import pytest
import torch

import attnref
from attnref.variants.performer import (
    METHOD,
    _exponents,
    performer_attention,
    random_projection,
)


@pytest.fixture
def project(generator):
    def draw(num_features, head_dim, **options):
        return random_projection(
            num_features, head_dim, generator=generator, dtype=torch.float64, **options
        )

    return draw


def estimates(x, y, projection):
    """One unbiased estimate of exp(x·y) for each feature, straight from the formula."""
    exponents = [_exponents(t, projection, 1.0) for t in (x, y)]
    return torch.exp(exponents[0] + exponents[1])


@pytest.mark.claim("random-features-are-unbiased")
@pytest.mark.parametrize("orthogonal", [False, True])
def test_products_of_features_are_unbiased(orthogonal, project, randn):
    """The mean over many draws is exp(q·k/sqrt d) within five standard errors."""
    d, draws = 5, 40_000
    x, y = 0.6 * randn(d), 0.6 * randn(d)
    groups = estimates(x, y, project(draws * d, d, orthogonal=orthogonal)).view(draws, d).mean(-1)
    error = groups.std() / math.sqrt(draws)
    assert (groups.mean() - torch.exp(x @ y)).abs() < 5 * error


@pytest.mark.claim("random-features-variance")
@pytest.mark.parametrize("similarity", [-0.5, 0.5])
def test_the_variance_is_the_one_of_the_formula(similarity, project, device):
    """e^(2 x·y) (e^|x+y|² - 1) for one feature; large similarities have large variances."""
    x = torch.tensor([0.5, 0.0, 0.0], device=device, dtype=torch.float64)
    y = torch.tensor([similarity, 0.1, 0.0], device=device, dtype=torch.float64)
    draws = 400_000
    sample = estimates(x, y, project(draws, 3, orthogonal=False))
    expected = torch.exp(2 * x @ y) * torch.expm1((x + y).square().sum())
    deviations = (sample - torch.exp(x @ y)).square()
    error = deviations.std() / math.sqrt(draws)
    assert (deviations.mean() - expected).abs() < 5 * error


@pytest.mark.claim("orthogonal-features-vary-less")
def test_orthogonal_vectors_vary_less(project, device):
    """The theorem promises 10 % here: 2 (d - 1) / (d (d + 2)) (e^|x|² - e^-|x|²)² of the whole."""
    d, draws = 5, 60_000
    x = torch.full((d,), math.sqrt(0.3 / d), device=device, dtype=torch.float64)
    variance = {
        orthogonal: estimates(x, x, project(draws * d, d, orthogonal=orthogonal))
        .view(draws, d)
        .mean(-1)
        .var()
        .item()
        for orthogonal in (False, True)
    }
    expected = math.exp(0.6) * math.expm1(1.2) / d
    assert variance[False] == pytest.approx(expected, rel=0.05)
    assert variance[True] < 0.95 * variance[False]


def test_orthogonal_vectors_are_orthogonal_and_as_long_as_gaussian_ones(project):
    d = 7
    vectors = project(2000 * d + 3, d)
    assert vectors.shape == (2000 * d + 3, d)
    blocks = vectors[:-3].view(2000, d, d)
    products = blocks @ blocks.mT
    apart = products - torch.diag_embed(products.diagonal(dim1=-2, dim2=-1))
    assert apart.abs().max() < 1e-13
    squares = vectors.square().sum(-1)  # chi-squared: mean d, variance 2 d
    assert (squares.mean() - d).abs() < 5 * math.sqrt(2 * d / len(squares))
    # The covariance of all vectors is the identity: no direction is preferred.
    covariance = vectors.mT @ vectors / len(vectors)
    identity = torch.eye(d, device=vectors.device, dtype=vectors.dtype)
    assert (covariance - identity).abs().max() < 5 * math.sqrt(2 / len(vectors))
    assert (vectors.mean(0).abs() < 5 / math.sqrt(len(vectors))).all()


@pytest.mark.claim("performer-error-falls-as-the-root")
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_error_falls_as_the_root_of_the_number_of_features(is_causal, project, randn):
    """Sixteen times the features, a quarter of the error, on average over draws."""
    query, key, value = 0.5 * randn(17, 8), 0.5 * randn(17, 8), randn(17, 3)
    exact = attnref.scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    def error(num_features):
        squares = [
            (
                performer_attention(
                    query, key, value, projection=project(num_features, 8), is_causal=is_causal
                )
                - exact
            )
            .square()
            .mean()
            for _ in range(64)
        ]
        return torch.stack(squares).mean().sqrt().item()

    ratio = error(64) / error(1024)
    # 64 draws know each mean square to about 1/sqrt(64) of itself; bias is of higher order.
    assert ratio == pytest.approx(4, rel=0.3)
    assert error(4096) < 0.03


@pytest.mark.claim("performer-exponents-in-range")
def test_the_exponents_are_shifted_into_range(project, device, randn):
    """Components of variance 16 at d = 64 have |x|²/2 = 64: bare powers are 0 in float32."""
    query, key, value = (4 * randn(3, 29, 64, dtype=torch.float32) for _ in range(3))
    projection = project(256, 64).float()
    bare = [torch.exp(_exponents(t, projection, 0.5)) for t in (query, key)]
    assert (bare[0] @ bare[1].mT == 0).all()
    options = {"projection": projection, "scale": 0.5}
    ours = performer_attention(query, key, value, **options)
    wide = METHOD.formula(
        *(x.double() for x in (query, key, value)), projection=projection.double(), scale=0.5
    )
    # Exponents of a few hundred, off by float32's eps each, and d_k roundings in their sums.
    torch.testing.assert_close(ours.double(), wide, rtol=0, atol=500 * 64 * 1.2e-7)
    underflown = performer_attention(query, key, value, **options, is_causal=True)
    assert underflown.isfinite().all()


def test_the_same_generator_gives_the_same_projection(device):
    one, other = (
        random_projection(7, 3, generator=torch.Generator(device).manual_seed(5)) for _ in range(2)
    )
    assert torch.equal(one, other)
    assert one.dtype == torch.float32
    assert one.device.type == device.type


def test_what_does_not_fit_is_named(generator, project, randn):
    tokens = randn(5, 3)
    projection = project(4, 3)
    with pytest.raises(ValueError, match=r"^projection: expected shape \(r, 3\)") as error:
        performer_attention(tokens, tokens, tokens, projection=project(4, 7))
    assert "got (4, 7). Draw it with random_projection" in str(error.value)
    with pytest.raises(ValueError, match=r"^scale: expected a number of 0 or more, got -1\.0"):
        performer_attention(tokens, tokens, tokens, projection=projection, scale=-1.0)
    with pytest.raises(ValueError, match=r"^block_size: expected an integer of 1 or more, got 0"):
        performer_attention(tokens, tokens, tokens, projection=projection, block_size=0)
    with pytest.raises(ValueError, match=r"^value: expected shape \(5, 'd_v'\)"):
        performer_attention(tokens, tokens, randn(7, 3), projection=projection)
    for wrong, kind in ((0, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(kind, match=r"^num_features: expected an integer of 1 or more"):
            random_projection(wrong, 3, generator=generator)
        with pytest.raises(kind, match=r"^head_dim: expected an integer of 1 or more"):
            random_projection(3, wrong, generator=generator)


@pytest.mark.parametrize("size", [1.0, 14.0])
def test_padding_is_not_the_largest_key(size, randn, generator):
    """A key of zeros has the exponent 0, beside which those of long keys underflow in float32."""
    query, key, value = (randn(5, 16, dtype=torch.float32) for _ in range(3))
    key = key / key.norm(dim=-1, keepdim=True) * size * 4
    projection = random_projection(64, 16, generator=generator)
    expected = performer_attention(query, key[:3], value[:3], projection=projection)
    counts = torch.tensor([True, True, True, False, False])
    found = performer_attention(query, key, value, counts[None], projection=projection)
    torch.testing.assert_close(found, expected)
    nothing = performer_attention(query, key, value, counts[None] & False, projection=projection)
    assert torch.equal(nothing, torch.zeros_like(nothing))


@pytest.mark.claim("performer-floor")
def test_a_number_added_to_each_feature_pulls_towards_the_mean(randn, project):
    """Features as performer-pytorch forms them, on the inputs of the benchmark, with 256 draws."""
    n, d, floor = 1024, 64, 1e-4
    query, key, value = (randn(2, n, d) for _ in range(3))
    projection = project(256, d)
    exact = attnref.scaled_dot_product_attention(query, key, value)

    def features(tokens, dims):
        exponents = _exponents(tokens, projection, d**-0.5)
        largest = (exponents + tokens.square().sum(-1, keepdim=True) / (2 * d**0.5)).amax(
            dims, keepdim=True
        )
        return torch.exp(exponents - largest)

    q, k = features(query, -1), features(key, (-1, -2))
    for side in (q, k):
        assert (side < floor).double().mean() > 0.5

    def error(q, k):
        weights = q @ k.mT
        output = weights / weights.sum(-1, keepdim=True) @ value
        return ((output - exact).norm() / exact.norm()).item()

    mean = ((value.mean(-2, keepdim=True) - exact).norm() / exact.norm()).item()
    assert error(q, k) > 2 * mean
    assert error(q + floor, k + floor) == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_causal_what_is_not_a_number_goes_back_no_further_than_its_chunk(randn, project, bad):
    query, key, value = (randn(300, 8) for _ in range(3))
    projection = project(64, 8)

    def reached(key, value, **options):
        given = {"projection": projection, **options}
        return (~performer_attention(query, key, value, **given).isfinite()).any(-1).nonzero()

    key[100, 3] = bad
    assert reached(key, value).numel() == 300
    assert reached(key, value, is_causal=True).min() == 100
    key[100, 3], value[100, 3] = 0.0, bad
    assert reached(key, value).numel() == 300
    assert reached(key, value, is_causal=True).min() == 64  # where its chunk begins
