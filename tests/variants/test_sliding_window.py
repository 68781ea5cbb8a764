import pytest
import torch

import attnref
from attnref import masks
from attnref.variants import _tiled, sliding_window
from attnref.variants.sliding_window import sliding_window_attention
from tests.variants.every import every

D_K, D_V = 5, 3
CASES = [(37, 7, True), (37, 7, False), (37, 41, True), (37, 73, False), (37, 99, False)]
CASES += [(16, 8, True), (1, 1, True), (5, 3, False), (37, 1, True)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for name in ("_ROWS", "_KERNEL_ROWS"):
        monkeypatch.setattr(sliding_window, name, 8)


def draw_inputs(randn, n, lead=(2, 3)):
    shapes = ((*lead, n, D_K), (*lead, n, D_K), (*lead, n, D_V))
    return [randn(*shape).requires_grad_() for shape in shapes]


@pytest.mark.claim("sliding-window-is-exact")
@every(("n", "window", "causal"), CASES)
def test_it_is_attention_under_the_mask(n, window, causal, device, randn, assert_same):
    inputs = draw_inputs(randn, n)
    mask = masks.sliding_window(n, window=window, is_causal=causal).dense(device)
    ours = sliding_window_attention(*inputs, window=window, is_causal=causal)
    assert_same(ours, attnref.scaled_dot_product_attention(*inputs, mask), inputs)


@every(("n", "window", "causal"), CASES)
def test_for_derivatives_forwards_all_blocks_are_one_batch(
    n, window, causal, randn, monkeypatch, assert_same
):
    inputs = draw_inputs(randn, n, lead=(3,))
    options = {"window": window, "is_causal": causal, "scale": 0.7}
    expected = sliding_window_attention(*inputs, **options)
    with monkeypatch.context() as patched:
        patched.setattr(_tiled, "_forwards_twice", lambda: True)
        assert_same(sliding_window_attention(*inputs, **options), expected, inputs)


def test_what_does_not_fit_is_named(randn):
    x, others = randn(7, 3), randn(11, 3)
    text = r"^key: expected as many keys as queries, 7, got 11\..* use blockwise_attention"
    with pytest.raises(ValueError, match=text):
        sliding_window_attention(x, others, others, window=3, is_causal=True)
    with pytest.raises(ValueError, match=r"^window: expected an odd number for a two-sided window"):
        sliding_window_attention(x, x, x, window=4)


@pytest.mark.claim("outside-the-window-counts-nothing")
def test_what_leaves_the_window_is_without_influence(randn):
    query, key, value = (x.detach() for x in draw_inputs(randn, 37))
    before = sliding_window_attention(query, key, value, window=7, is_causal=True)
    key[..., 0, :], value[..., 0, :] = 100.0, 100.0
    after = sliding_window_attention(query, key, value, window=7, is_causal=True)
    assert torch.equal(after[..., 7:, :], before[..., 7:, :])
    assert not torch.equal(after[..., :7, :], before[..., :7, :])


@pytest.mark.claim("sliding-window-is-linear")
def test_operations_grow_linearly(randn, count):
    """Multiplications of all products: each block of 8 rows meets its own keys and 8 before."""

    def products(n):
        inputs = draw_inputs(randn, n, lead=())
        return count(
            lambda: sliding_window_attention(*inputs, window=9, is_causal=True).sum().backward()
        ).products

    for n in (128, 256, 512):
        pairs = 8 * 8 + (n - 8) * 16  # the first block has none before it
        assert products(n) == pairs * 7 * D_K  # to which the values are filled up
