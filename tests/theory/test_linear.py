"""What the page on linear attention proves: values that its state cannot hold."""

import pytest
import torch

import attnref
from attnref.variants.linear import _elu_plus_one, linear_attention, linear_state


@pytest.mark.claim("linear-state-has-values-that-vanish")
@pytest.mark.parametrize(("m", "d"), [(6, 5), (29, 7)])
def test_with_more_keys_than_features_some_values_reach_no_query(m, d, randn):
    query, key = (randn(rows, d) for rows in (53, m))
    features = _elu_plus_one(key)  # (m, d)
    # The last of the right singular vectors of features.mT is one of its null space.
    value = torch.linalg.svd(features.mT).Vh[-1:].mT  # (m, 1), of length 1
    # Sums of up to m products of size 3 at most, each rounded once.
    small = 8 * m * torch.finfo(torch.float64).eps
    state = linear_state(key, value)
    assert state.key_value.abs().max() < small
    assert linear_attention(query, key, value).abs().max() < small
    # The weights of softmax have full rank over the keys: no values vanish for all queries.
    assert torch.linalg.matrix_rank(attnref.attention_weights(query, key)) == m
    assert torch.linalg.matrix_rank(_elu_plus_one(query) @ features.mT) == d


@pytest.mark.claim("features-and-keys-normalised")
@pytest.mark.parametrize("n", [512, 1024])
def test_most_of_the_error_of_the_normalised_features_is_a_factor(n, generator, device):
    """Softmax over the features of a query and over the keys of a feature, times d ** -0.5."""
    d = 64
    query, key, value = (torch.randn(4, n, d, generator=generator, device=device) for _ in range(3))
    weights = query.softmax(-1) * d**-0.5 @ key.softmax(-2).mT
    sums = weights.sum(-1)
    torch.testing.assert_close(sums, torch.full_like(sums, d**-0.5))
    exact = attnref.scaled_dot_product_attention(query, key, value)

    def error(output):
        return ((output - exact).norm() / exact.norm()).item()

    ours, theirs = error(linear_attention(query, key, value)), error(weights @ value)
    assert theirs > 0.9
    assert error(d**0.5 * weights @ value) == pytest.approx(ours, rel=0.05)
    assert theirs > 1.15 * ours
