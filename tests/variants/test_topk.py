"""Top-k attention: which keys it keeps, and what dropping the others costs."""

import pytest
import torch
from every import every

import attnref
from attnref.variants.topk import topk_attention

EPS = torch.finfo(torch.float64).eps
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


@pytest.mark.parametrize("count", [1, 3, 11])
@every("masked", [None, "bool", "float"])
@every("is_causal", [False, True])
def test_values_and_gradients_are_those_of_a_mask_of_the_best(count, masked, is_causal, randn):
    """The mask is found by ranking the scores, apart from the function."""
    n, m = 7, 11
    inputs = [t.requires_grad_() for t in (randn(2, 3, n, 5), randn(2, 3, m, 5), randn(2, 3, m, 2))]
    mask = {None: None, "bool": randn(2, 1, n, m) > -0.5, "float": randn(n, m)}[masked]
    options = {"is_causal": is_causal, "scale": 0.7}
    ours = topk_attention(*inputs, mask, count=count, **options)
    scores = 0.7 * inputs[0].detach() @ inputs[1].detach().mT
    if masked == "bool":
        scores = scores.masked_fill(~mask, -torch.inf)
    if masked == "float":
        scores = scores + mask
    if is_causal:
        future = torch.ones(n, m, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    best = scores.argsort(-1, descending=True).argsort(-1) < count
    best = best & (scores > -torch.inf)
    bias = (mask if masked == "float" else torch.zeros_like(scores)).masked_fill(~best, -torch.inf)
    expected = attnref.scaled_dot_product_attention(*inputs, bias, scale=0.7)
    torch.testing.assert_close(ours, expected, **CLOSE)
    cotangent = randn(2, 3, n, 2)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, cotangent),
        torch.autograd.grad(expected, inputs, cotangent),
        **CLOSE,
    )


@pytest.mark.claim("dropping-moves-twice-the-mass")
@every("count", [1, 2, 5, 13])
def test_dropping_moves_the_weights_by_twice_the_dropped_mass(count, device, randn):
    query, key, value = randn(3, 7, 5), randn(3, 13, 5), randn(3, 13, 2)
    p = attnref.attention_weights(query, key)
    eye = torch.eye(13, device=device, dtype=p.dtype).expand(3, 13, 13)
    kept = topk_attention(query, key, eye, count=count)
    dropped = p.masked_fill(kept > 0, 0.0).sum(-1)
    torch.testing.assert_close((p - kept).abs().sum(-1), 2 * dropped, rtol=0, atol=32 * EPS)
    # No other choice of as many keys drops less.
    smallest = p.sort(-1).values[..., : 13 - count].sum(-1)
    torch.testing.assert_close(dropped, smallest, rtol=0, atol=32 * EPS)
    exact = attnref.scaled_dot_product_attention(query, key, value)
    moved = (topk_attention(query, key, value, count=count) - exact).norm(dim=-1)
    diameter = torch.cdist(value, value).amax((-2, -1))[:, None]
    assert (moved <= dropped * diameter + 32 * EPS).all()


@pytest.mark.claim("ties-keep-as-many")
def test_equal_scores_keep_as_many_keys(device):
    zeros = torch.zeros(1, 7, 3, device=device)
    weights = topk_attention(zeros, zeros, torch.eye(7, device=device)[None], count=3)
    assert ((weights > 0).sum(-1) == 3).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 7, device=device))


@every("wrong", [0, 8, True, 2.0])
def test_a_wrong_count_is_named(wrong, randn):
    with pytest.raises(ValueError, match=r"^count: expected an integer between 1 and 7"):
        topk_attention(randn(5, 3), randn(7, 3), randn(7, 2), count=wrong)


def test_what_does_not_fit_is_named(randn):
    query, key = randn(5, 3), randn(7, 3)
    with pytest.raises(ValueError, match=r"^value: expected shape \(7, 'd_v'\)"):
        topk_attention(query, key, randn(5, 2), count=1)
    with pytest.raises(ValueError, match=r"^attn_mask: expected a shape that broadcasts"):
        topk_attention(query, key, key, randn(7, 5), count=1)
