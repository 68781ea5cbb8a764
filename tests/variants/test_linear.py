"""Linear attention: by chunks, step by step and as a square, and what goes wrong elsewhere."""

import math
import re
from functools import partial

import pytest
import torch

import attnref
from attnref.variants.linear import (
    METHOD,
    LinearState,
    _elu_plus_one,
    linear_attention,
    linear_attention_step,
    linear_state,
)
from tests.variants.every import every

EPS = torch.finfo(torch.float64).eps
# Sums of positive products: each of the up to 200 terms is off by a few roundings at most.
TOKENS, OTHERS = torch.ones(5, 3), torch.ones(7, 3)
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def listing(query, key, value):
    """Linear attention as it is often printed: the feature map as a sum, no denominator."""
    features = [torch.nn.functional.elu(tokens) + 1 for tokens in (query, key)]
    return features[0] @ (features[1].mT @ value)


def squared(tokens):
    return torch.cat([tokens.square(), torch.ones_like(tokens[..., :1])], -1)


@pytest.mark.claim("linear-equals-its-square")
@pytest.mark.parametrize("feature_map", [None, squared])
@every(("n", "m"), [(13, 13), (13, 7), (7, 13), (1, 11), (11, 1)])
@every("is_causal", [False, True])
def test_values_and_gradients_are_those_of_the_square(
    n, m, is_causal, feature_map, randn, assert_same
):
    inputs = [randn(2, 3, *size).requires_grad_() for size in ((n, 5), (m, 5), (m, 7))]
    options = {"is_causal": is_causal, "feature_map": feature_map}
    ours = linear_attention(*inputs, **options, block_size=3)
    assert_same(ours, METHOD.formula(*inputs, **options), inputs)


@pytest.mark.claim("linear-steps-equal-the-whole")
@pytest.mark.parametrize("prompt", [0, 1, 5])
def test_step_by_step_is_the_same(prompt, randn):
    n = 17
    query, key, value = randn(2, 3, n, 5), randn(2, 3, n, 5), randn(2, 3, n, 7)
    whole = linear_attention(query, key, value, is_causal=True, block_size=4)
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
        ours = linear_attention(query, key, ones, is_causal=is_causal, block_size=32)
        torch.testing.assert_close(ours, ones, rtol=0, atol=1e-14)
    mean = 1 / math.sqrt(2 * math.pi) + 0.5 + math.exp(0.5) * 0.5 * math.erfc(1 / math.sqrt(2))
    # One sum over 64 features of spread below their mean; query and key errors add.
    spread = 4 * math.sqrt(2 / d_k) / math.sqrt(n)
    wrong = listing(query, key, ones).mean().item()
    assert wrong == pytest.approx(n * d_k * mean**2, rel=spread)


@pytest.mark.claim("elu-plus-one-loses-its-digits")
def test_elu_plus_one_keeps_its_digits_where_the_sum_is_zero(device):
    """elu(x) + 1 is 0 in float32 where e^x is below 2^-25, and such a row has no normaliser."""
    x = torch.linspace(-80, 3, 84, device=device)
    exact = torch.where(x > 0, x.double() + 1, x.double().exp())
    torch.testing.assert_close(_elu_plus_one(x).double(), exact, rtol=4e-7, atol=0)
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
    (slope,) = torch.autograd.grad(_elu_plus_one(x).sum(), x)
    expected = torch.tensor([math.exp(-1), 1, 1], device=device, dtype=torch.float64)
    torch.testing.assert_close(slope, expected, rtol=2 * EPS, atol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_vanished_normaliser_gives_zeros_and_finite_gradients(is_causal, device):
    far = torch.full((3, 2), -200.0, device=device, requires_grad=True)
    value = torch.ones(3, 2, device=device, requires_grad=True)
    output = linear_attention(far, far, value, is_causal=is_causal, block_size=2)
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


@every(
    ("call", "message"),
    [
        (
            partial(linear_attention, TOKENS, TOKENS, TOKENS, block_size=0),
            "block_size: expected an",
        ),
        (partial(linear_state, TOKENS, OTHERS), "value: expected shape (5, 'd_v')"),
        (
            partial(linear_attention_step, TOKENS, TOKENS, TOKENS),
            "query: expected one token, shape",
        ),
        (
            partial(linear_attention_step, TOKENS[:1], TOKENS[:1].double(), TOKENS[:1]),
            "key: expected torch.float32, the dtype of query",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
        call()


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
