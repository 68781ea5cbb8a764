"""The cache that keeps the first tokens and a window, against the mask that says the same."""

import pytest
import torch

import attnref
from attnref import StreamingCache, masks
from attnref.positions import rotary
from tests.variants.every import every

H, N, D_K, D_V = 3, 23, 4, 5
CUTS = {
    "token by token": [1] * N,
    "chunks": [2, 5, 1, 7, 1, 1, 6],
    "a prompt, then tokens": [17, 1, 1, 1, 3],
    "nothing among them": [1, 0, 12, 0, 10],
}


def mask_of(first, window):
    seen = masks.sliding_window(N, window=window, is_causal=True)
    return masks.causal(N) & (seen | masks.padding([first], N))


@pytest.mark.claim("streaming-is-a-mask")
@every("cut", CUTS)
@every(("first", "window"), [(0, 5), (1, 1), (2, 5), (4, 3), (5, 30)])
def test_steps_are_the_rows_of_one_pass_under_the_mask(first, window, cut, randn, device):
    inputs = [randn(2, H, N, d).requires_grad_() for d in (D_K, D_K, D_V)]
    query, key, value = inputs
    cache, outputs, begin = StreamingCache(first=first, window=window), [], 0
    for n in CUTS[cut]:
        now = slice(begin, begin + n)
        keys, values = cache.append(key[..., now, :], value[..., now, :])
        mask = cache.mask(n).dense(device)
        outputs.append(attnref.scaled_dot_product_attention(query[..., now, :], keys, values, mask))
        if n == 1:
            assert mask.all()
        begin += n
        assert cache.length == begin
        held = min(begin, first + window)
        assert cache.nbytes <= 2 * H * held * (D_K + D_V) * 8
        assert not n or cache.nbytes == 2 * H * held * (D_K + D_V) * 8
    allowed = mask_of(first, window).dense(device)[0, 0]
    expected = attnref.scaled_dot_product_attention(query, key, value, allowed)
    ours = torch.cat(outputs, -2)
    # Some hundred roundings of float64.
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)
    weight = randn(*ours.shape)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, weight),
        torch.autograd.grad(expected, inputs, weight),
        rtol=1e-12,
        atol=1e-13,
    )


@pytest.mark.claim("streaming-forgets")
def test_two_texts_that_differ_where_it_forgets_end_alike(randn):
    """With positions by the place in the cache; by those of the text, they end differently."""
    first, window = 2, 5
    start, middle, end = randn(first, D_K), randn(31, D_K), randn(window, D_K)
    other = randn(11, D_K)

    def last(between, in_cache):
        tokens = torch.cat([start, between, end])
        cache = StreamingCache(first=first, window=window)
        for place, token in enumerate(tokens.split(1)):
            turned = token if in_cache else rotary(token, offset=place)
            keys, values = cache.append(turned, token)
        if in_cache:
            keys, place = rotary(keys), len(keys) - 1
        query = rotary(tokens[-1:], offset=place)
        return attnref.scaled_dot_product_attention(query, keys, values)

    torch.testing.assert_close(last(middle, True), last(other, True), rtol=0, atol=0)
    assert (last(middle, False) - last(other, False)).abs().max() > 1e-3


@pytest.mark.claim("first-tokens-hold-mass")
def test_a_window_that_leaves_the_first_key_gives_its_weight_to_the_others(randn, device):
    """To each in proportion; a window that keeps it, or a learned sink, leaves them quiet."""
    window = 5
    query, key = randn(N, D_K), randn(N, D_K)
    query[:, 0], key[:, 0] = 4.0, 0.0
    key[0, 0] = 6.0  # takes most of each row
    plain = masks.sliding_window(N, window=window, is_causal=True).dense(device)
    kept = mask_of(1, window).dense(device)[0, 0]
    before, after = (attnref.attention_weights(query, key, mask) for mask in (kept, plain))
    torch.testing.assert_close(after[:window], before[:window])  # it is in the window
    before, after = before[window:], after[window:]
    assert (before[:, 0] > 0.9).all()
    others = before[:, 1:]
    torch.testing.assert_close(after[:, 1:], others / others.sum(-1, keepdim=True))
    assert (after[:, 1:] >= 10 * others).all()
    assert (after[:, 0] == 0).all()
    beside = attnref.attention_weights(query, key, plain, sink=12.0)[window:]
    assert (beside.sum(-1) < 0.1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": -1, "window": 3}, r"^first: expected an integer of 0 or more, got -1\. It is"),
        ({"first": 4, "window": 0}, r"^window: expected an integer of 1 or more, got 0\. It is"),
    ],
)
def test_what_it_is_made_with(options, message):
    with pytest.raises(ValueError, match=message):
        StreamingCache(**options)


def test_what_it_refuses_leaves_it_as_it_was(randn):
    cache = StreamingCache(first=1, window=2)
    cache.append(randn(3, D_K), randn(3, D_V))
    with pytest.raises(ValueError, match=r"^key: expected \(, n, 4\)|^key: expected .* as the"):
        cache.append(randn(1, D_K + 1), randn(1, D_V))
    with pytest.raises(ValueError, match=r"^n: expected an integer between 0 and 3, got 4"):
        cache.mask(4)
    assert cache.length == 3
