import math

import pytest
import torch

from attnref import scaling


@pytest.mark.parametrize("head_dim", [1, 3, 64, 97])
def test_factors(head_dim):
    assert scaling.unscaled(head_dim) == 1.0
    assert scaling.inverse_sqrt(head_dim) == pytest.approx(1 / math.sqrt(head_dim), rel=1e-15)
    assert scaling.inverse(head_dim) == pytest.approx(1 / head_dim, rel=1e-15)


@pytest.mark.parametrize("factor", [scaling.unscaled, scaling.inverse_sqrt, scaling.inverse])
@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, "64"])
def test_a_wrong_width_is_named(factor, wrong):
    with pytest.raises(ValueError, match=r"^head_dim: expected a positive integer, got") as error:
        factor(wrong)
    assert repr(wrong) in str(error.value)
    assert "query.shape[-1]" in str(error.value)


@pytest.mark.claim("score-variance-by-factor")
@pytest.mark.parametrize("head_dim", [16, 64, 256])
def test_score_variance_follows_the_factor(head_dim, device, generator):
    """Var(c q·k) = c² d_k for independent components of mean 0 and variance 1."""
    pairs = 20_000
    q, k = torch.randn(2, pairs, head_dim, device=device, generator=generator, dtype=torch.float64)
    products = (q * k).sum(-1)
    for factor in (scaling.unscaled, scaling.inverse_sqrt, scaling.inverse):
        expected = factor(head_dim) ** 2 * head_dim
        measured = (factor(head_dim) * products).var().item()
        # Relative s.d. of a sample variance is sqrt((kurtosis - 1) / N), with kurtosis
        # 3 + 6/d_k here; five of them fail by chance about once in two million runs.
        bound = 5 * math.sqrt((2 + 6 / head_dim) / pairs)
        assert measured == pytest.approx(expected, rel=bound)
