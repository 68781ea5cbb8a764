"""What the page on attention sinks states beyond the functions themselves."""

import math

import pytest
import torch

from attnref import attend, attention_weights, softmax
from attnref.variants.quantized import quantize


@pytest.mark.claim("sink-gradient")
def test_the_gradient_of_a_sink_is_minus_what_its_weight_would_have_kept(randn):
    """The derivative of the loss by the sink is minus the sum of its weights times g · o."""
    query, key, value = randn(2, 5, 7), randn(2, 11, 7), randn(2, 11, 3)
    sink = randn(2).requires_grad_()
    output, weights, _ = attend(query, key, value, sink=sink)
    upstream = randn(*output.shape)
    found = torch.autograd.grad(output, sink, upstream)[0]
    taken = 1 - weights.sum(-1)  # (2, n)
    torch.testing.assert_close(found, -(taken * (upstream * output).sum(-1)).sum(-1))


@pytest.mark.claim("sink-fixes-the-zero")
def test_beside_a_sink_adding_a_number_to_all_scores_counts(randn):
    query, key, bias = randn(5, 7), randn(11, 7), torch.full((1, 11), 3.0, dtype=torch.float64)
    bias = bias.to(query.device)
    plain, moved = (attention_weights(query, key, mask) for mask in (None, bias))
    torch.testing.assert_close(plain, moved)
    beside, shifted = (attention_weights(query, key, mask, sink=1.0) for mask in (None, bias))
    assert (shifted.sum(-1) > beside.sum(-1) + 0.01).all()
    # What is lost is the invariance alone: the sink moved as well gives the same again.
    together = attention_weights(query, key, bias, sink=4.0)
    torch.testing.assert_close(together, beside)


@pytest.mark.claim("silence-needs-a-lead")
@pytest.mark.parametrize("left", [0.5, 0.1, 0.001])
def test_a_key_that_leaves_a_share_leads_by_the_log_of_the_odds(left, randn):
    scores = randn(7, 11)
    lead = math.log((1 - left) / left)
    first = softmax.log_sum_exp(scores)[:, None] + lead
    weights = softmax.stable(torch.cat([first, scores], -1))
    torch.testing.assert_close(weights[:, 1:].sum(-1), torch.full_like(weights[:, 0], left))
    smaller = softmax.stable(torch.cat([first - 0.1, scores], -1))
    assert (smaller[:, 1:].sum(-1) > left * 1.0001).all()


def rounded(block):
    step = block.abs().max() / 127
    return (block / step).round() * step


@pytest.mark.claim("a-large-key-coarsens-its-block")
@pytest.mark.parametrize(("place", "axis", "sign"), [(0, 0, 1), (3, 31, -1), (64, 17, 1)])
def test_one_large_key_coarsens_all_others_of_its_block(place, axis, sign, randn):
    """Wherever its large number is; with a step for each token, it does not."""
    keys, queries = randn(64, 32), randn(128, 32)
    others = torch.arange(65, device=keys.device) != place
    errors = {}
    for size in (0.0, 10.0, 40.0):
        large = torch.zeros_like(keys[:1])
        large[0, axis] = sign * size
        block = torch.cat([keys[:place], large, keys[place:]])
        moved = queries @ (rounded(block) - block)[others].mT
        errors[size] = moved.square().mean().sqrt()
    step = keys.abs().max()
    assert errors[10.0] / errors[0.0] == pytest.approx(float(10 / step), rel=0.1)
    assert errors[40.0] / errors[0.0] == pytest.approx(float(40 / step), rel=0.1)
    alone = quantize(keys).dequantize()
    assert torch.equal(alone, quantize(block).dequantize()[others])


@pytest.mark.claim("a-sink-may-be-a-key-of-zeros")
def test_the_key_that_takes_nearly_all_can_be_any_vector(randn):
    """The shortest of all, or as long as you like: only differences of keys count."""
    queries, keys, left = randn(128, 16), randn(64, 16), 0.001
    queries[:, 0], keys[:, 0] = 4.0, 0.0  # a channel that all queries share
    sink = torch.zeros_like(keys[:1])
    row = softmax.log_sum_exp(queries @ keys.mT / 4)
    sink[0, 0] = row.max() + math.log((1 - left) / left)  # the score, times 4 / 4
    plain = attention_weights(queries, torch.cat([sink, keys]))
    assert (plain[:, 1:].sum(-1) <= left * (1 + 1e-9)).all()
    for wanted in (torch.zeros_like(sink), 100 * randn(1, 16)):
        moved = torch.cat([sink, keys]) - sink + wanted
        torch.testing.assert_close(attention_weights(queries, moved), plain, rtol=1e-9, atol=0)
        shorter = (moved[0].norm() < moved[1:].norm(dim=-1)).all()
        assert shorter == (wanted == 0).all()
