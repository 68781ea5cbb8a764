import pytest
import torch

import attnref
from attnref import masks
from attnref.variants import blockwise
from attnref.variants.blockwise import blockwise_attention
from tests.variants.every import every

N, M, D_K, D_V = 37, 53, 5, 3


@pytest.fixture
def small_blocks(monkeypatch):
    """Tiles so small that a short sequence has several."""
    monkeypatch.setattr(blockwise, "ROWS", 8)
    monkeypatch.setattr(blockwise, "CHUNK", 4)


def draw_inputs(randn, *, lead=(2, 3), n=N, m=M, dtype=torch.float64):
    shapes = ((*lead, n, D_K), (*lead, m, D_K), (*lead, m, D_V))
    return [randn(*shape).to(dtype).requires_grad_() for shape in shapes]


# Whose last dimension has a stride other than 1: turned, every other number, one number repeated.
APART = {
    "turned": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: torch.stack([x, x + 9.0], -1)[..., 0],
    "repeated": lambda x: x[..., :1].expand(x.shape),
}


@every("layout", APART)
@every("sink", [None, 0.5])
@every("d_v", [D_K, D_V])
def test_components_may_lie_apart(layout, sink, d_v, randn):
    """The kernel takes them for neighbours, and reads whatever is beside the first."""
    place = APART[layout]
    query, key, value = (place(randn(2, size, d)) for size, d in ((N, D_K), (M, D_K), (M, d_v)))
    expected = attnref.scaled_dot_product_attention(query, key, value, sink=sink)
    torch.testing.assert_close(blockwise_attention(query, key, value, sink=sink), expected)
    inputs = [x.detach().requires_grad_() for x in (query, key, value)]
    cotangent = place(randn(*expected.shape))
    ours, theirs = (
        torch.autograd.grad(function(*inputs, sink=sink), inputs, cotangent)
        for function in (blockwise_attention, attnref.scaled_dot_product_attention)
    )
    torch.testing.assert_close(ours, theirs)


MASKS = {
    "none": None,
    "causal": masks.causal(N, M, alignment="bottom-right"),
    "window": masks.sliding_window(N, M, window=3, alignment="top-left", is_causal=True),
    "dyadic": masks.dyadic(N, M, alignment="top-left"),
    "padding": masks.padding([M, 11], M),
    "padding of everything": masks.padding([0, 11], M),
    "causal and padding": masks.causal(N, M, alignment="top-left") & masks.padding([7, M], M),
    "not causal": ~masks.causal(N, M, alignment="top-left"),
    "one key": masks.Mask((1, M), lambda i, j: j == 17),
    "some queries": masks.Mask((N, 1), lambda i, j: i % 3 == 0),
}


@pytest.mark.claim("blockwise-is-exact")
@pytest.mark.parametrize("name", MASKS)
@every("is_causal", [False, True])
def test_any_mask_of_the_algebra(name, is_causal, device, randn, small_blocks, assert_same):
    inputs, mask = draw_inputs(randn), MASKS[name]
    dense = None if mask is None else mask.dense(device)
    expected = attnref.scaled_dot_product_attention(*inputs, dense, is_causal=is_causal)
    for given in (mask, dense):
        ours = blockwise_attention(*inputs, given, is_causal=is_causal)
        assert_same(ours, expected, inputs)


@every("shape", [(M,), (N, 1), (2, 1, N, M), (3, 1, M)])
def test_a_float_mask_is_added(shape, randn, small_blocks, assert_same):
    inputs, bias = draw_inputs(randn), randn(*shape)
    bias = bias.masked_fill(bias > 1, -torch.inf)
    for is_causal in (False, True):
        ours = blockwise_attention(*inputs, bias, is_causal=is_causal)
        expected = attnref.scaled_dot_product_attention(*inputs, bias, is_causal=is_causal)
        assert_same(ours, expected, inputs)


def test_scores_too_large_for_their_powers(randn, small_blocks, assert_same):
    """Without the shift by the largest score, 2 to the power of some thousands is inf."""
    query, key, value = (x.detach() for x in draw_inputs(randn))
    inputs = [x.requires_grad_() for x in (300 * query, 10 * key, value)]
    ours = blockwise_attention(*inputs)
    assert (300 * 10 * query @ key.mT).amax() > 5000
    # The scores, not their weights, are rounded: some thousands times the precision.
    assert_same(ours, attnref.scaled_dot_product_attention(*inputs), inputs, tolerance=1e-8)


@pytest.mark.claim("blockwise-skips-empty-blocks")
def test_empty_blocks_are_skipped(randn, small_blocks, count):
    query, key, value = (randn(1, 64, D_K) for _ in range(3))
    every = count(lambda: blockwise_attention(query, key, value, sink=0.0)).products
    assert every == 64 * 64 * 2 * D_K
    half = count(lambda: blockwise_attention(query, key, value, masks.causal(64))).products
    assert half / every == 0.5 + 8 / (2 * 64)  # blocks of 8 rows: the diagonal counts whole
    packed = masks.packed([32, 32])
    assert count(lambda: blockwise_attention(query, key, value, packed)).products == every / 2
    nothing = masks.Mask((64, 64), lambda i, j: j < 0)
    assert count(lambda: blockwise_attention(query, key, value, nothing)).products == 0


@pytest.mark.claim("blockwise-memory-is-linear")
@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_linearly(is_causal, device, generator, monkeypatch, count):
    """Beside inputs and gradients; all n × n weights would multiply it by 16 where n grows by 4."""
    monkeypatch.setattr(blockwise, "ROWS", 32)
    monkeypatch.setattr(blockwise, "CHUNK", 32)

    def peak(n):
        inputs = [
            torch.randn(n, width, device=device, generator=generator).requires_grad_()
            for width in (8, 8, 4)
        ]

        def run():
            blockwise_attention(*inputs, is_causal=is_causal).sum().backward()

        output = blockwise_attention(*inputs, is_causal=is_causal)
        expected = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=is_causal)
        torch.testing.assert_close(output, expected)  # little memory for a wrong answer is none
        return count(run).peak

    small, middle, large = peak(128), peak(256), peak(512)
    assert large - middle == 2 * (middle - small)
    assert large <= 4.0 * small
    assert large < 512 * 512 * 4  # less than one matrix of all weights


def test_half_precision_errs_no_more_than_the_fused_kernel(device, generator):
    """Gaussian inputs; the rounding of the output is all that is left to ours."""
    inputs = [
        torch.randn(1, 2, 1031, 64, device=device, generator=generator).bfloat16() for _ in range(3)
    ]
    exact = attnref.scaled_dot_product_attention(*(x.double() for x in inputs))
    mask = torch.ones(1, 1031, dtype=torch.bool, device=device)
    kernel = torch.nn.functional.scaled_dot_product_attention(*inputs)
    ours = blockwise_attention(*inputs, mask)
    assert ours.dtype == torch.bfloat16
    assert (ours - exact).norm() <= (kernel - exact).norm()


def test_dropout_is_refused(randn):
    text = r"^dropout_p: expected 0\.0, got 0\.1\..* use attnref\.scaled_dot_product_attention"
    with pytest.raises(ValueError, match=text):
        blockwise_attention(*draw_inputs(randn), dropout_p=0.1)


def test_values_of_any_size(device, randn, small_blocks):
    """Times the powers of scores that alone would be small enough, they would overflow float32."""
    query, key, value = (x.detach() for x in draw_inputs(randn))
    # All scores are 17 sqrt(5) = 38, whose powers are some 2^55.
    inputs = [17 * torch.ones_like(query), torch.ones_like(key), 1e24 * value]
    expected = attnref.scaled_dot_product_attention(*inputs)
    single = blockwise_attention(
        *(x.float() for x in inputs), torch.ones(N, M, dtype=torch.bool, device=device)
    )
    assert single.isfinite().all()
    assert (single - expected).norm() <= 1e-3 * expected.norm()
