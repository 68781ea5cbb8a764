import pytest
import torch
from every import every

import attnref
from attnref import masks
from attnref.variants import sliding_window
from attnref.variants.sliding_window import sliding_window_attention

D_K, D_V = 5, 3
CASES = [(37, 7, True), (37, 7, False), (37, 41, True), (37, 73, False), (37, 99, False)]
CASES += [(16, 8, True), (1, 1, True), (5, 3, False), (37, 1, True)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sliding_window, "_ROWS", 8)


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
def test_all_blocks_at_once_give_the_same(n, window, causal, randn, monkeypatch, assert_same):
    """The path of a GPU, on whatever device this runs."""
    inputs = draw_inputs(randn, n, lead=(3,))
    options = {"window": window, "is_causal": causal, "scale": 0.7}
    expected = sliding_window_attention(*inputs, **options)
    with monkeypatch.context() as patched:
        patched.setattr(sliding_window, "_in_turn", lambda device: False)
        assert_same(sliding_window_attention(*inputs, **options), expected, inputs)


def test_what_does_not_fit_is_named(randn):
    x, others = randn(7, 3), randn(11, 3)
    text = r"^key: expected as many keys as queries, 7, got 11\..* use blockwise_attention"
    with pytest.raises(ValueError, match=text):
        sliding_window_attention(x, others, others, window=3, is_causal=True)
    with pytest.raises(ValueError, match=r"^window: expected an odd number for a two-sided window"):
        sliding_window_attention(x, x, x, window=4)


@pytest.mark.claim("narrow-windows-by-the-kernel")
def test_a_window_of_256_leaves_its_products_to_the_kernel_in_blocks_of_32(
    randn, monkeypatch, count
):
    """And one of 400 keys makes its own. The ends of the sequence are calls of their own."""
    kernel, blocks = sliding_window.scaled_dot_product_attention, []

    def counted(query, *args, **kwargs):
        blocks.append(tuple(query.shape))
        return kernel(query, *args, **kwargs)

    monkeypatch.setattr(sliding_window, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(sliding_window, "_ROWS", 256)
    q, k, v = (randn(1, 1024, 16, dtype=torch.bfloat16) for _ in range(3))
    work = count(lambda: sliding_window_attention(q, k, v, window=256, is_causal=True))
    inner = [shape for shape in blocks if shape[0] > 1]
    assert [shape[1:] for shape in inner] == [(1, 32, 16)]
    assert sum(shape[0] for shape in inner) * 32 >= 1024 - 256 - 32
    assert work.products == 0
    blocks.clear()
    work = count(lambda: sliding_window_attention(q, k, v, window=400, is_causal=True))
    assert blocks == []
    assert work.products > 0


@pytest.mark.parametrize(
    ("n", "window", "causal"),
    [(257, 7, True), (257, 7, False), (64, 61, True), (97, 33, False), (33, 1, True), (1, 1, True)],
)
def test_narrow_windows_of_equal_widths_go_to_the_fused_kernel(
    n, window, causal, device, randn, assert_same
):
    """With blocks inside the sequence and without, and where the last one is cut short."""
    inputs = [randn(2, 3, n, D_K).requires_grad_() for _ in range(3)]
    mask = masks.sliding_window(n, window=window, is_causal=causal).dense(device)
    ours = sliding_window_attention(*inputs, window=window, is_causal=causal, scale=-0.7)
    expected = attnref.scaled_dot_product_attention(*inputs, mask, scale=-0.7)
    assert_same(ours, expected, inputs)


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
        assert products(n) == pairs * (4 * D_K + 3 * D_V)
