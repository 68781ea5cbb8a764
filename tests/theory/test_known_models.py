"""Arithmetic of the factors that the page on known models quotes."""

import itertools
import math
import re
from pathlib import Path

import pytest
import torch

import attnref
from attnref import scaling, softmax

ROOT = Path(__file__).parents[2]


@pytest.mark.claim("layer-number-undone")
def test_dividing_by_the_layer_number_and_multiplying_back_changes_nothing(randn):
    query, key = randn(5, 7), randn(11, 7)
    usual = attnref.attention_weights(query, key)
    for layer in (1, 2, 12, 96):
        divided = query @ key.mT / (math.sqrt(7) * layer)
        torch.testing.assert_close(softmax.stable(divided * layer), usual, rtol=1e-13, atol=0)
        if layer > 1:
            assert (softmax.entropy(softmax.stable(divided)) > softmax.entropy(usual)).all()


@pytest.mark.claim("fourth-root-on-both-sides")
def test_a_fourth_root_on_both_sides_is_the_usual_factor_without_the_overflow(device, randn):
    query, key = randn(5, 7), randn(11, 7)
    both = attnref.attention_weights(query / 7**0.25, key / 7**0.25, scale=1.0)
    usual = attnref.attention_weights(query, key)
    torch.testing.assert_close(both, usual, rtol=1e-13, atol=0)
    large = torch.full((1, 128), 30.0, dtype=torch.float16, device=device)
    assert ((large @ large.mT) / math.sqrt(128)).isinf().all()
    fourth = large * 128**-0.25
    assert (fourth @ fourth.mT).isfinite().all()


@pytest.mark.claim("a-sink-takes-what-no-key-deserves")
def test_a_learned_sink_is_one_more_key_whose_value_is_zero(randn):
    query, key, value, sink = randn(5, 7), randn(11, 7), randn(11, 3), 2.5
    scores = query @ key.mT / math.sqrt(7)
    powers = scores.exp()
    with_sink = powers / (powers.sum(-1, keepdim=True) + math.exp(sink))
    assert (with_sink.sum(-1) < 1).all()
    # The same as a key with that score for every query, and a value of zeros.
    extended = torch.cat([scores, torch.full_like(scores[:, :1], sink)], dim=-1)
    nothing = torch.cat([value, torch.zeros_like(value[:1])])
    ours = softmax.stable(extended) @ nothing
    torch.testing.assert_close(with_sink @ value, ours, rtol=1e-12, atol=1e-14)


@pytest.mark.claim("short-context-untouched")
def test_the_factor_by_position_is_1_below_its_threshold(device, randn):
    """The formula is that of the page, run by its program for the positions that it prints."""
    lines = (
        (ROOT / "snippets/scale/known-models/by_position.out")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    printed = dict(re.findall(r"position +(\d+): times ([\d.]+)", "\n".join(lines)))

    def times(position):
        return 1 + 0.1 * math.log((position + 1) // 8192 + 1)

    assert printed == {str(at): f"{times(int(at)):.3f}" for at in map(int, printed)}
    assert {times(position) for position in range(8191)} == {1.0}
    assert printed["8190"] == "1.000" < printed["8191"]
    # One number per row, which a row keeps when it is decoded from a cache.
    n, first = 11, 8191 - 7  # the last four positions lie beyond the threshold
    query, key, value = randn(n, 5), randn(n, 5), randn(n, 3)
    factor = torch.tensor([times(first + i) for i in range(n)], dtype=torch.float64, device=device)
    scaled = scaling.scale_query(query, factor[:, None])
    attend = attnref.scaled_dot_product_attention
    training, usual = (
        attend(scaled, key, value, is_causal=True),
        attend(query, key, value, is_causal=True),
    )
    assert torch.equal(training[:7], usual[:7])
    assert ((training - usual)[7:].abs().amax(-1) > 1e-3).all()
    for at in range(n):
        row = scaling.scale_query(query[at : at + 1], factor[at : at + 1, None])
        cached = attend(row, key[: at + 1], value[: at + 1])[0]
        torch.testing.assert_close(training[at], cached, rtol=1e-12, atol=1e-13)


@pytest.mark.claim("another-default-is-another-model")
def test_a_kernel_with_another_default_factor_gives_other_weights_without_a_word(randn):
    """PyTorch's function divides by sqrt(d_k) unless told: a model without a factor must say so."""
    query, key, value = randn(5, 64), randn(11, 64), randn(11, 3)
    model = torch.softmax(query @ key.mT, -1) @ value
    silent = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    told = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=1.0)
    torch.testing.assert_close(told, model, rtol=1e-10, atol=1e-12)
    assert (silent - model).abs().max() > 0.1


@pytest.mark.claim("variance-of-a-point")
def test_the_variance_of_a_point_in_space_is_nine_halves():
    """Of |k|²/2 - q·k in three dimensions, counted on three points a coordinate.

    They have the moments of a standard normal up to the fifth; the square has degree four in k.
    """
    points = [(-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6)]
    mean = square = 0.0
    for one, another in itertools.product(points, repeat=2):
        (q, p_q), (k, p_k) = one, another
        term = k**2 / 2 - q * k
        mean += p_q * p_k * term
        square += p_q * p_k * term**2
    # Coordinates are independent, so that variances add.
    assert 3 * (square - mean**2) == pytest.approx(9 / 2, rel=1e-14)
