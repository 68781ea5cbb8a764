"""Top-k attention: which keys it keeps, and what dropping the others costs."""

import pytest
import torch

import attnref
from attnref.variants.topk import topk_attention
from tests.variants.every import every

EPS = torch.finfo(torch.float64).eps


@pytest.mark.claim("dropping-moves-twice-the-mass")
@every("count", [1, 2, 5, 13])
def test_dropping_moves_the_weights_by_twice_the_dropped_mass(count, device, randn):
    query, key, value = randn(3, 7, 5), randn(3, 13, 5), randn(3, 13, 2)
    p = attnref.attention_weights(query, key)
    eye = torch.eye(13, device=device, dtype=p.dtype).expand(3, 13, 13)
    kept = topk_attention(query, key, eye, num_keys=count)
    dropped = p.masked_fill(kept > 0, 0.0).sum(-1)
    torch.testing.assert_close((p - kept).abs().sum(-1), 2 * dropped, rtol=0, atol=32 * EPS)
    # No other choice of as many keys drops less.
    smallest = p.sort(-1).values[..., : 13 - count].sum(-1)
    torch.testing.assert_close(dropped, smallest, rtol=0, atol=32 * EPS)
    exact = attnref.scaled_dot_product_attention(query, key, value)
    moved = (topk_attention(query, key, value, num_keys=count) - exact).norm(dim=-1)
    diameter = torch.cdist(value, value).amax((-2, -1))[:, None]
    assert (moved <= dropped * diameter + 32 * EPS).all()


@pytest.mark.claim("ties-keep-as-many")
def test_equal_scores_keep_as_many_keys(device):
    zeros = torch.zeros(1, 7, 3, device=device)
    weights = topk_attention(zeros, zeros, torch.eye(7, device=device)[None], num_keys=3)
    assert ((weights > 0).sum(-1) == 3).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 7, device=device))


@every(
    ("wrong", "kind"),
    [(0, ValueError), (8, ValueError), (True, TypeError), (2.0, TypeError)],
)
def test_a_wrong_number_is_named(wrong, kind, randn):
    with pytest.raises(kind, match=r"^num_keys: expected an integer between 1 and 7"):
        topk_attention(randn(5, 3), randn(7, 3), randn(7, 2), num_keys=wrong)
