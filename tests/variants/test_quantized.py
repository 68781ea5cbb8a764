"""Quantised attention: its rounding, the bound on the error, outliers, and the memory."""

import math

import pytest
import torch

import attnref
from attnref import masks, softmax
from attnref.variants.quantized import QuantizedTokens, quantize, quantized_attention
from tests.variants.every import every


def error(ours, exact):
    return ((ours - exact).norm() / exact.norm()).item()


@pytest.mark.claim("rounding-within-half-a-step")
def test_rounding_is_within_half_a_step(randn):
    tokens = randn(3, 7, 5, dtype=torch.float32)
    quantized = quantize(tokens)
    assert isinstance(quantized, QuantizedTokens)
    assert quantized.values.dtype == torch.int8
    assert quantized.step.shape == (3, 7, 1)
    assert quantized.values.abs().amax(-1).eq(127).all()
    torch.testing.assert_close(quantized.step * 127, tokens.abs().amax(-1, keepdim=True))
    off = (quantized.dequantize() - tokens).abs()
    assert (off <= quantized.step * (0.5 + 128 * torch.finfo(torch.float32).eps)).all()


def test_zeros_and_signs_and_wide_dtypes_survive(device, randn):
    assert (quantize(torch.zeros(2, 3, device=device)).dequantize() == 0).all()
    tokens = randn(5, 3)
    assert torch.equal(quantize(-tokens).values, -quantize(tokens).values)
    assert quantize(tokens).step.dtype == torch.float64
    assert quantize(tokens.half()).step.dtype == torch.float32


@pytest.mark.claim("quantised-memory")
def test_the_memory_is_a_byte_a_component_and_a_step_a_token(device, randn):
    n, d = 101, 64
    for dtype, share in ((torch.float32, 0.266), (torch.float16, 0.531)):
        tokens = randn(n, d, dtype=dtype)
        taken = sum(part.nbytes for part in quantize(tokens))
        assert taken == n * (d + 4)
        assert taken / tokens.nbytes == pytest.approx(share, abs=5e-4)


@every("smooth", [False, True])
@every("masked", [None, "causal", "bool", "float"])
def test_values_are_those_of_the_rounded_tokens(smooth, masked, device, randn):
    query, key, value = randn(2, 3, 7, 5), randn(2, 3, 11, 5) + 3, randn(2, 3, 11, 2)
    options = {"is_causal": masked == "causal", "scale": 0.7}
    if masked == "bool":
        options["attn_mask"] = masks.causal(7, 11, alignment="top-left").dense(device=device)
    elif masked == "float":
        options["attn_mask"] = randn(7, 11)
    ours = quantized_attention(query, key, value, smooth=smooth, **options)
    centred = key - key.mean(-2, keepdim=True) if smooth else key
    rounded = quantize(query).dequantize(), quantize(centred).dequantize()
    expected = attnref.scaled_dot_product_attention(*rounded, value, **options)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.claim("gradients-pass-the-rounding")
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_pass_the_rounding(is_causal, randn):
    """They are those of exact attention, taken at the rounded tokens."""
    inputs = [t.requires_grad_() for t in (randn(3, 7, 5), randn(3, 11, 5), randn(3, 11, 2))]
    ours = quantized_attention(*inputs, is_causal=is_causal, smooth=False)
    rounded = [quantize(inputs[0]).dequantize(), quantize(inputs[1]).dequantize(), inputs[2]]
    rounded = [tokens.detach().requires_grad_() for tokens in rounded]
    expected = attnref.scaled_dot_product_attention(*rounded, is_causal=is_causal)
    found, right = (
        torch.autograd.grad(output.sin().sum(), given)
        for output, given in ((ours, inputs), (expected, rounded))
    )
    torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-12)


@pytest.mark.claim("score-error-bound")
def test_the_error_keeps_its_bound(randn):
    """Score errors up to ε move an output by at most tanh(ε/2) times the values' diameter."""
    d = 61
    query, key, value = randn(4, 53, d), randn(4, 67, d), randn(4, 67, 7)
    centred = key - key.mean(-2, keepdim=True)
    q_step, k_step = quantize(query).step, quantize(centred).step.mT
    off = (q_step / 2) * centred.abs().sum(-1)[:, None] + query.abs().sum(-1, keepdim=True) * (
        k_step / 2
    )
    off = (off + d / 4 * q_step * k_step) / d**0.5  # (4, 53, 67)
    rounded = quantize(query).dequantize() @ quantize(centred).dequantize().mT / d**0.5
    assert ((rounded - query @ centred.mT / d**0.5).abs() <= off).all()
    exact = attnref.scaled_dot_product_attention(query, key, value)
    moved = (quantized_attention(query, key, value) - exact).norm(dim=-1)  # (4, 53)
    diameter = torch.cdist(value, value).amax((-2, -1))[:, None]
    assert (moved <= torch.tanh(off.amax(-1) / 2) * diameter).all()


@pytest.mark.claim("score-error-bound")
def test_the_worst_case_of_a_score_needs_all_three_terms(device):
    """All components are rounded up by nearly half a step, but the one that sets the step."""
    d = 1001
    token = torch.full((1, d), 2.501, device=device, dtype=torch.float64)
    token[0, 0] = 127.0
    tokens = quantize(token)
    assert tokens.step.item() == 1.0
    rounded = tokens.dequantize()
    off = (rounded @ rounded.mT - token @ token.mT).item()
    two = 0.5 * token.abs().sum().item() * 2
    assert two < off <= two + d / 4
    assert off > 0.95 * (two + d / 4)


@pytest.mark.claim("score-error-bound")
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_two_keys_reach_the_bound(size, device):
    """Their scores, -ε and ε without the common part, are exchanged or made equal by rounding.

    A component of 100 makes the steps coarse; the one that decides lies just below a half of one,
    and is rounded away: then ε is all that there was.
    """
    key = torch.tensor([[100.0, 0.0, 0.0], [100.0, 0.0, 0.0]], device=device, dtype=torch.float64)
    key[:, 1] = torch.tensor([-1.0, 1.0]) * 0.49 * 100 / 127
    query = torch.tensor([[0.0, 1.0, 0.0]], device=device, dtype=torch.float64) * size
    value = torch.tensor([[-1.0], [1.0]], device=device, dtype=torch.float64)
    exact = attnref.scaled_dot_product_attention(query, key, value, scale=1.0)
    ours = quantized_attention(query, key, value, scale=1.0, smooth=False)
    rounded = quantize(query).dequantize() @ quantize(key).dequantize().mT
    epsilon = (rounded - query @ key.mT).abs().max()
    moved = (ours - exact).abs().item()
    assert moved <= 2 * torch.tanh(epsilon / 2)
    # Rounded to equal scores, p goes from σ(2ε) to a half: tanh(ε)/2 of the diameter.
    assert moved == pytest.approx(torch.tanh(epsilon).item(), rel=1e-12)
    # Exchanged, it goes from σ(ε) to σ(-ε), which is the bound.
    pair = torch.stack([-epsilon, epsilon]) / 2
    shift = softmax.stable(pair) - softmax.stable(-pair)
    torch.testing.assert_close(shift.abs().sum() / 2, torch.tanh(epsilon / 2))
    far = (softmax.stable(1.1 * pair) - softmax.stable(-1.1 * pair)).abs().sum() / 2
    assert far > torch.tanh(epsilon / 2)


@pytest.mark.claim("quantised-below-one-per-cent")
def test_the_error_grows_slowly_with_the_width(randn):
    """A step is set by the largest of d components, about sqrt(2 ln d): beyond 1 % from 512 on."""
    errors = []
    for d in (16, 64, 512):
        query, key, value = (randn(1024, d) for _ in range(3))
        exact = attnref.scaled_dot_product_attention(query, key, value)
        errors.append(error(quantized_attention(query, key, value), exact))
    assert errors == sorted(errors)
    assert errors[1] < 1e-2 < errors[2] < 1.2e-2


@pytest.mark.claim("quantised-below-one-per-cent")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("outlier", [0.0, 30.0])
def test_gaussian_data_err_below_one_per_cent_with_an_outlier_channel_too(outlier, dtype, randn):
    """One large channel coarsens every token's steps, unless the mean key is taken away."""
    query, key, value = (randn(4, 512, 64, dtype=dtype) for _ in range(3))
    key[..., 3] += outlier
    exact = attnref.scaled_dot_product_attention(query.double(), key.double(), value.double())
    assert 2e-3 < error(quantized_attention(query, key, value), exact) <= 1e-2
    if outlier:
        assert error(quantized_attention(query, key, value, smooth=False), exact) > 3e-2


@pytest.mark.claim("common-key-changes-nothing")
def test_a_common_vector_of_all_keys_changes_nothing(randn):
    query, key, value = randn(3, 7, 5), randn(3, 11, 5), randn(3, 11, 2)
    moved = quantized_attention(query, key + 1024.0, value)
    # Adding and taking away 1024 rounds to steps of 1024 ε, far from a step of 1/127; a component
    # that is on the edge between two steps would still move, and none of these is.
    torch.testing.assert_close(moved, quantized_attention(query, key, value), rtol=0, atol=1e-10)


@pytest.mark.claim("smoothing-sees-the-mean")
def test_the_future_moves_the_rounding_of_the_past_only_through_the_mean(randn):
    query, key, value = randn(11, 5), randn(11, 5), randn(11, 3)
    other_key, other_value = key.clone(), value.clone()
    other_key[-1] += 1.0
    other_value[-1] += 1e3

    def change(smooth):
        before, after = (
            quantized_attention(query, k, v, is_causal=True, smooth=smooth)
            for k, v in ((key, value), (other_key, other_value))
        )
        return (before - after)[:-1].abs().max()

    assert change(smooth=False) == 0
    assert 0 < change(smooth=True) < 0.05  # of values of size 1, moved by 1000


def test_what_has_no_step_is_named_and_shown(device):
    with pytest.raises(ValueError, match=r"^tokens: expected shape .* at least 1, got \(3, 0\)"):
        quantize(torch.zeros(3, 0, device=device))
    with pytest.raises(TypeError, match=r"^tokens: expected a torch\.Tensor, got list"):
        quantize([1.0])
    tokens = torch.tensor([[math.nan, 2.0], [1.0, -math.inf], [3.0, 4.0]], device=device)
    assert quantize(tokens).dequantize().isnan().all(-1).tolist() == [True, True, False]


@every("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_mask_may_be_of_any_dtype_and_stand_beside_is_causal(dtype, randn):
    query, key, value = (randn(2, 7, 5, dtype=dtype) for _ in range(3))
    bias = randn(7, 7, dtype=dtype).masked_fill(randn(7, 7) > 1.0, -math.inf)
    ours = quantized_attention(query, key, value, bias, is_causal=True)
    wide = [x.double() for x in (query, key, value, bias)]
    exact = attnref.scaled_dot_product_attention(*wide, is_causal=True)
    assert error(ours.double(), exact) < 3e-2
