"""What the page on block-sparse attention claims of keys that are left out."""

import pytest
import torch

import attnref


@pytest.mark.claim("dropped-weight-bounds-the-error")
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_dropped_weight_bounds_the_error(share, device, generator, randn):
    """Weights move by exactly twice what is dropped, the output by no more than it × diameter."""
    query, key = randn(2, 41, 7)
    value = randn(41, 3)
    kept = torch.rand(41, 41, device=device, generator=generator) > share
    kept.fill_diagonal_(True)
    whole = attnref.attention_weights(query, key)
    part = attnref.attention_weights(query, key, kept)
    dropped = (whole * ~kept).sum(-1)
    torch.testing.assert_close((whole - part).abs().sum(-1), 2 * dropped, rtol=1e-12, atol=1e-12)
    error = ((whole - part) @ value).norm(dim=-1)
    diameter = torch.cdist(value, value).max()
    assert (error <= dropped * diameter * (1 + 1e-12)).all()
    # Attained: what is dropped lies at one end of the diameter, what is kept at the other.
    ends = torch.where(kept[0], 1.0, -1.0).double()
    moved = ((whole[0] - part[0]) @ ends).abs()
    torch.testing.assert_close(moved, 2 * dropped[0], rtol=1e-12, atol=1e-12)
