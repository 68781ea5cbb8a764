"""Linear attention: by chunks, step by step and as a square, and what goes wrong elsewhere."""

import math

import pytest
import torch
from every import every

import attnref
from attnref.variants.linear import (
    LinearState,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    linear_state,
)

EPS = torch.finfo(torch.float64).eps
# Sums of positive products: each of the up to 200 terms is off by a few roundings at most.
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def quadratic(query, key, value, *, is_causal, feature_map=elu_plus_one):
    """The definition with all n × m weights, formed and normalised one query at a time."""
    rows = []
    for i in range(query.shape[-2]):
        seen = min(i + 1, key.shape[-2]) if is_causal else key.shape[-2]
        similarity = (feature_map(query[..., i : i + 1, :]) * feature_map(key[..., :seen, :])).sum(
            -1
        )
        weights = similarity / similarity.sum(-1, keepdim=True)
        rows.append((weights[..., None] * value[..., :seen, :]).sum(-2))
    return torch.stack(rows, -2)


def listing(query, key, value):
    """Linear attention as it is often printed: the feature map as a sum, no denominator."""
    features = [torch.nn.functional.elu(tokens) + 1 for tokens in (query, key)]
    return features[0] @ (features[1].mT @ value)


def squared(tokens):
    return torch.cat([tokens.square(), torch.ones_like(tokens[..., :1])], -1)


@pytest.mark.claim("linear-equals-its-square")
@pytest.mark.parametrize("feature_map", [elu_plus_one, squared])
@every(("n", "m"), [(13, 13), (13, 7), (7, 13), (1, 11), (11, 1)])
@every("is_causal", [False, True])
def test_values_and_gradients_are_those_of_the_square(n, m, is_causal, feature_map, randn):
    query, key, value = randn(2, 3, n, 5), randn(2, 3, m, 5), randn(2, 3, m, 7)
    kept = [tokens.clone() for tokens in (query, key, value)]
    inputs = [tokens.requires_grad_() for tokens in (query, key, value)]
    options = {"is_causal": is_causal, "feature_map": feature_map}
    ours = linear_attention(*inputs, **options, chunk_size=3)
    expected = quadratic(*inputs, **options)
    torch.testing.assert_close(ours, expected, **CLOSE)
    cotangent = randn(2, 3, n, 7)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, cotangent),
        torch.autograd.grad(expected, inputs, cotangent),
        rtol=1e-11,
        atol=1e-12,
    )
    assert all(torch.equal(a, b) for a, b in zip(kept, inputs, strict=True))


@pytest.mark.parametrize("chunk_size", [1, 2, 17, 64, 97, 500])
def test_the_size_of_the_chunks_does_not_matter(chunk_size, randn):
    query, key, value = randn(2, 97, 5), randn(2, 97, 5), randn(2, 97, 3)
    torch.testing.assert_close(
        linear_attention(query, key, value, is_causal=True, chunk_size=chunk_size),
        quadratic(query, key, value, is_causal=True),
        **CLOSE,
    )


@pytest.mark.claim("linear-steps-equal-the-whole")
@pytest.mark.parametrize("prompt", [0, 1, 5])
def test_step_by_step_is_the_same(prompt, randn):
    n = 17
    query, key, value = randn(2, 3, n, 5), randn(2, 3, n, 5), randn(2, 3, n, 7)
    whole = linear_attention(query, key, value, is_causal=True, chunk_size=4)
    state = linear_state(key[..., :prompt, :], value[..., :prompt, :]) if prompt else None
    for i in range(prompt, n):
        token = slice(i, i + 1)
        output, state = linear_attention_step(
            query[..., token, :], key[..., token, :], value[..., token, :], state
        )
        torch.testing.assert_close(output, whole[..., token, :], **CLOSE)
        assert state.key_value.shape == (2, 3, 5, 7)  # whatever the length so far
        assert state.normaliser.shape == (2, 3, 5)
    torch.testing.assert_close(state, linear_state(key, value), **CLOSE)
    assert isinstance(state, LinearState)


def test_gradients_flow_through_the_steps(randn):
    query, key, value = randn(3, 2), randn(3, 2), randn(3, 2)

    def by_steps(query, key, value):
        state, outputs = None, []
        for token in zip(query.split(1), key.split(1), value.split(1), strict=True):
            output, state = linear_attention_step(*token, state)
            outputs.append(output)
        return torch.cat(outputs)

    inputs = [tokens.cpu().requires_grad_() for tokens in (query, key, value)]
    assert torch.autograd.gradcheck(by_steps, inputs)


@pytest.mark.claim("linear-needs-its-denominator")
@every("n", [16, 64, 256])
def test_ones_average_to_one_and_without_the_denominator_they_grow(n, device, randn):
    """Without it the result is n d_k E[phi]², 86.2 n at d_k = 64, instead of 1."""
    d_k = 64
    query, key = randn(n, d_k), randn(n, d_k)
    ones = torch.ones(n, 3, device=device, dtype=torch.float64)
    for is_causal in (False, True):
        ours = linear_attention(query, key, ones, is_causal=is_causal, chunk_size=32)
        torch.testing.assert_close(ours, ones, rtol=0, atol=1e-14)
    mean = 1 / math.sqrt(2 * math.pi) + 0.5 + math.exp(0.5) * 0.5 * math.erfc(1 / math.sqrt(2))
    # One sum over 64 features of spread below their mean; query and key errors add.
    spread = 4 * math.sqrt(2 / d_k) / math.sqrt(n)
    wrong = listing(query, key, ones).mean().item()
    assert wrong == pytest.approx(n * d_k * mean**2, rel=spread)


def test_without_the_denominator_half_precision_overflows(device):
    """86.2 × 4096 is beyond the 65504 of float16; an average of ones is not."""
    n, d_k = 4096, 64
    numbers = torch.Generator(device).manual_seed(1)
    query, key = (
        torch.randn(n, d_k, device=device, generator=numbers).to(torch.float16) for _ in range(2)
    )
    ones = torch.ones(n, 1, device=device, dtype=torch.float16)
    assert listing(query, key, ones).isinf().any()
    assert (linear_attention(query, key, ones) == 1).all()


@pytest.mark.claim("linear-reads-no-future")
@every("changed", [18, 12])
def test_the_causal_form_does_not_read_the_future(changed, randn):
    """Exactly: nothing of a later token is added first and subtracted later."""
    n = 19
    query, key, value = randn(2, n, 5), randn(2, n, 5), randn(2, n, 3)
    other_key, other_value = key.clone(), value.clone()
    other_key[:, changed] += 1e3
    other_value[:, changed] -= 1e6
    for chunk_size in (4, 64):
        before, after = (
            linear_attention(query, k, v, is_causal=True, chunk_size=chunk_size)
            for k, v in ((key, value), (other_key, other_value))
        )
        assert torch.equal(before[:, :changed], after[:, :changed])
        assert (before[:, changed:] != after[:, changed:]).all()
    # What is printed as causal without running sums lets the last value into the first output.
    assert (listing(query, key, value) - listing(query, key, other_value))[:, 0].abs().min() > 1


def test_the_future_sends_no_gradient(randn):
    query, key, value = randn(11, 5), randn(11, 5).requires_grad_(), randn(11, 3).requires_grad_()
    ours = linear_attention(query, key, value, is_causal=True, chunk_size=4)
    for gradient in torch.autograd.grad(ours[6].sum(), (key, value)):
        assert (gradient[7:] == 0).all()
        assert (gradient[:7] != 0).all()


@pytest.mark.claim("elu-plus-one-loses-its-digits")
def test_elu_plus_one_keeps_its_digits_where_the_sum_is_zero(device):
    """elu(x) + 1 is 0 in float32 where e^x is below 2^-25, and such a row has no normaliser."""
    x = torch.linspace(-80, 3, 84, device=device)
    exact = torch.where(x > 0, x.double() + 1, x.double().exp())
    torch.testing.assert_close(elu_plus_one(x).double(), exact, rtol=4e-7, atol=0)
    border = -25 * math.log(2)  # -17.33
    near = torch.tensor([border - 0.01, border + 0.01], device=device)
    assert (torch.nn.functional.elu(near) + 1).tolist() == [0.0, 2.0**-24]
    low = torch.full((5, 7), -20.0, device=device)
    assert (torch.nn.functional.elu(low) + 1 == 0).all()
    value = torch.arange(5.0, device=device)[:, None]
    naive = linear_attention(low, low, value, feature_map=lambda x: torch.nn.functional.elu(x) + 1)
    assert (naive == 0).all()  # no average at all, and 0/0 in the listing with a denominator
    torch.testing.assert_close(linear_attention(low, low, value), torch.full_like(value, 2.0))


def test_the_slope_of_elu_plus_one_is_one_at_zero(device):
    x = torch.tensor([-1.0, 0.0, 2.0], device=device, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(elu_plus_one(x).sum(), x)
    expected = torch.tensor([math.exp(-1), 1, 1], device=device, dtype=torch.float64)
    torch.testing.assert_close(slope, expected, rtol=2 * EPS, atol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_vanished_normaliser_gives_zeros_and_finite_gradients(is_causal, device):
    far = torch.full((3, 2), -200.0, device=device, requires_grad=True)
    value = torch.ones(3, 2, device=device, requires_grad=True)
    output = linear_attention(far, far, value, is_causal=is_causal, chunk_size=2)
    assert (output == 0).all()
    for gradient in torch.autograd.grad(output.sum(), (far, value)):
        assert gradient.isfinite().all()


@pytest.mark.claim("linear-is-another-model")
@pytest.mark.parametrize("smooth", [False, True], ids=["random", "smooth"])
@every("n", [64, 256])
def test_it_is_another_model_than_softmax(n, smooth, randn, device, generator):
    """D = 64, on both kinds of tokens: nearly as far from it as the mean of the values."""

    def waves():
        place = torch.arange(n, device=device)[:, None] / n
        phase, speed = torch.rand(2, 8, 1, 64, device=device, generator=generator).double()
        return 2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))  # (8, n, 64)

    query, key, value = (waves() if smooth else randn(8, n, 64) for _ in range(3))
    exact = attnref.scaled_dot_product_attention(query, key, value)

    def error(output):
        return ((output - exact).norm() / exact.norm()).item()

    linear, mean = error(linear_attention(query, key, value)), error(value.mean(-2, keepdim=True))
    assert 0.9 * mean < linear < mean
    # One fifth of attention mixed in would be seen.
    assert error(0.8 * linear_attention(query, key, value) + 0.2 * exact) < 0.9 * mean


@pytest.mark.parametrize("wrong", [0, True, 2.0])
def test_a_wrong_chunk_size_is_named(wrong, randn):
    tokens = randn(5, 3)
    with pytest.raises(ValueError, match=r"^chunk_size: expected an integer of 1 or more") as error:
        linear_attention(tokens, tokens, tokens, is_causal=True, chunk_size=wrong)
    assert f"got {wrong!r}. It is the number of tokens taken at a time" in str(error.value)


def test_what_does_not_fit_is_named(randn):
    tokens = randn(5, 3)
    with pytest.raises(ValueError, match=r"^key: expected last dimension 3, as query has"):
        linear_attention(tokens, randn(5, 7), tokens)
    with pytest.raises(ValueError, match=r"^value: expected shape \(5, 'd_v'\)"):
        linear_attention(tokens, tokens, randn(7, 3))
    with pytest.raises(ValueError, match=r"^value: expected shape \(5, 'd_v'\)"):
        linear_state(tokens, randn(7, 3))
    with pytest.raises(TypeError, match=r"^key: expected torch\.float64, the dtype of query"):
        linear_attention_step(tokens[:1], tokens[:1].float(), tokens[:1])
    with pytest.raises(ValueError, match=r"^query: expected one token, shape") as error:
        linear_attention_step(tokens, tokens, tokens)
    assert "got (5, 3) with key (5, 3). For a whole prompt call" in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_takes_nothing_from_the_state(dtype, device, randn):
    query, key, value = (randn(2, 1, 8, dtype=torch.float32) for _ in range(3))
    state = linear_state(key, value)
    expected = linear_attention_step(query, key, value, state)
    with torch.autocast(device.type, dtype=dtype):
        assert linear_state(key, value).key_value.equal(state.key_value)
        output, new = linear_attention_step(query, key, value, state)
    assert output.equal(expected[0])
    assert new.key_value.equal(expected[1].key_value)
    assert new.key_value.dtype == torch.float32
