"""What the page on positions claims: order without positions, and what each kind knows."""

import math

import pytest
import torch

import attnref
from attnref.positions import rotary, sinusoidal


def frequencies(d, device=None):
    """Of the pairs: the angles by which rotary turns them from one position to the next."""
    pairs = torch.tensor([1.0, 0.0], dtype=torch.float64, device=device).repeat(1, d // 2)
    x, y = rotary(pairs, offset=1).unflatten(-1, (d // 2, 2)).unbind(-1)
    return torch.atan2(y, x)[0]  # (d/2,)


@pytest.fixture
def words(randn):
    return randn(2, 7, 12)


@pytest.fixture
def order(device):
    return torch.tensor([3, 0, 6, 2, 5, 1, 4], device=device)


def attend(x, **options):
    return attnref.scaled_dot_product_attention(x, x, x, **options)


@pytest.mark.claim("permutation-equivariant")
def test_shuffled_words_give_shuffled_outputs(words, order, device, generator):
    """Of the function and of a layer; not under a causal mask, nor with positions."""
    close = {"rtol": 0, "atol": 1e-14}
    torch.testing.assert_close(attend(words[:, order]), attend(words)[:, order], **close)
    layer = attnref.MultiHeadAttention(
        12, 3, generator=generator, device=device, dtype=torch.float64
    )
    torch.testing.assert_close(layer(words[:, order]), layer(words)[:, order], **close)

    def moved(function):
        return (function(words[:, order]) - function(words)[:, order]).abs().max().item()

    assert moved(lambda x: attend(x, is_causal=True)) > 0.1
    table = sinusoidal(7, 12, dtype=torch.float64, device=device)
    assert moved(lambda x: attend(x + table)) > 0.1
    layer.rotate = rotary
    assert moved(layer) > 0.01


@pytest.mark.claim("causal-last-row-ignores-order")
def test_one_causal_layer_does_not_tell_the_last_word_the_order(words, order):
    """Its row averages a set; two layers average rows that have seen different sets."""
    order = torch.cat([order[order != 6], order.new_tensor([6])])  # the last word stays last
    shuffled = words[:, order]
    one, other = attend(words, is_causal=True), attend(shuffled, is_causal=True)
    torch.testing.assert_close(one[:, -1], other[:, -1], rtol=0, atol=1e-14)
    assert (one[:, 2] - other[:, 2]).abs().max() > 0.1
    one, other = attend(one, is_causal=True), attend(other, is_causal=True)
    assert (one[:, -1] - other[:, -1]).abs().max() > 0.01


@pytest.mark.claim("sinusoid-products-know-the-distance")
def test_products_of_sinusoids_depend_on_the_distance(device):
    d = 10
    table = sinusoidal(23, d, dtype=torch.float64, device=device)
    products = table @ table.mT
    steps = torch.arange(23, dtype=torch.float64, device=device)
    law = torch.cos((steps[:, None] - steps)[..., None] * frequencies(d, device=device)).sum(-1)
    torch.testing.assert_close(products, law, rtol=0, atol=1e-13)  # angles up to 22, ten terms
    assert products[0].std() > 0.1


@pytest.mark.claim("a-shift-is-a-rotation")
def test_a_shift_of_sinusoids_is_a_rotation_by_one_matrix(device):
    """PE_{t+k} = R_k PE_t with the same R_k for every t; rotary turns by the same angles."""
    d, shift = 10, 5
    table = sinusoidal(29, d, dtype=torch.float64, device=device)
    angles = shift * frequencies(d, device=device)
    sines, cosines = table[:-shift, 0::2], table[:-shift, 1::2]
    turned = torch.stack(
        [
            sines * angles.cos() + cosines * angles.sin(),
            cosines * angles.cos() - sines * angles.sin(),
        ],
        dim=-1,
    ).flatten(-2)
    torch.testing.assert_close(turned, table[shift:], rtol=0, atol=1e-13)
    # The pair (cos, sin) is what rotary makes of (1, 0).
    ones = torch.tensor([1.0, 0.0], dtype=torch.float64, device=device).repeat(29, d // 2)
    pairs = rotary(ones).unflatten(-1, (d // 2, 2)).flip(-1).flatten(-2)
    torch.testing.assert_close(pairs, table, rtol=0, atol=1e-13)


@pytest.mark.claim("interpolated-angles-were-seen")
@pytest.mark.parametrize("factor", [2, 4, 7])
def test_interpolated_positions_stay_within_a_step_of_the_trained_ones(factor):
    """Position t becomes t / s, up to 4096 - 1/s, where training went to 4095.

    Between two trained angles, or a part of a step beyond the last: never a whole one.
    """
    trained, d = 4096, 128
    longer = torch.arange(factor * trained, dtype=torch.float64)
    step, last = frequencies(d), (trained - 1) * frequencies(d)  # (64,) each
    beyond = longer[:, None] / factor * step - last  # (factor · 4096, 64)
    assert (beyond < step).all()
    assert (beyond > 0).any(dim=-1).sum() == factor - 1
    assert (longer[-1] * step - last > step).all()  # as it would be without
    # The price: neighbours are as near to each other as 1 / s of a step.
    assert (longer.diff() / factor).unique().tolist() == pytest.approx([1 / factor])


@pytest.mark.claim("slow-pairs-never-turn")
def test_how_many_pairs_make_a_full_turn_in_training():
    """Period 2 pi base^(2i/d) > n: for i > d/2 log(n / 2 pi) / log(base)."""
    trained, d, base = 4096, 128, 10_000.0
    never = int((2 * math.pi / frequencies(d) > trained).sum())
    first = math.floor(d / 2 * math.log(trained / (2 * math.pi)) / math.log(base)) + 1
    assert never == d // 2 - first == 18
