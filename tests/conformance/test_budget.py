"""The allowance: what an honest program needs, and not much more."""

import math

import pytest
import torch

import attnref
from attnref.conformance import budget
from attnref.conformance.budget import Question, Setting
from attnref.conformance.settings import DTYPES

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def remembered():
    """Nothing is: here it is the allowance that is asked, of one PyTorch or another."""


def question(dtype, generator, **setting):
    shapes = ((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13))
    tensors = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes
    )
    return Question(*tensors, Setting(**setting), CPU)


def stepwise(asked):
    """Each intermediate result is stored once in the dtype, as the derivation supposes."""
    q, k, v = asked[:3]
    scores = q @ k.mT * asked.scale()
    if asked.setting.softcap is not None:
        cap = asked.setting.softcap
        scores = cap * torch.tanh(scores / cap)
    scores = scores + asked.added().to(q.dtype)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) @ v


SETTINGS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 1.5},
    "softcap": {"softcap": 3.0},
}


@pytest.mark.parametrize("name", DTYPES)
def test_rounding_each_step_once_stays_within_the_floor(name, generator, seeds):
    dtype = getattr(torch, name)
    for setting in SETTINGS:
        for _ in seeds(3, 10):
            asked = question(dtype, generator, **SETTINGS[setting])
            truth = budget.truth(asked)
            error = (stepwise(asked).double() - truth.output).abs()
            assert (error <= truth.allowance).all(), setting


@pytest.mark.parametrize("name", DTYPES)
def test_gradients_of_such_a_program_stay_within_the_floor(name, generator, seeds):
    dtype = getattr(torch, name)
    for _ in seeds(3, 10):
        asked = question(dtype, generator)
        leaves = [tensor.clone().requires_grad_() for tensor in asked[:3]]
        output = stepwise(asked._replace(query=leaves[0], key=leaves[1], value=leaves[2]))
        upstream = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(dtype)
        found = torch.autograd.grad(output, leaves, upstream)
        truth = budget.gradients(asked, upstream)
        for got, right in zip(found, truth.values(), strict=True):
            assert ((got.double() - right.expected).abs() <= right.allowance).all()


@pytest.mark.parametrize("name", DTYPES)
def test_it_is_no_more_than_some_units_of_rounding(name, generator):
    """Numbers of size 1, d_k = 7: a score may err by (3 + 7) u times 3, a weight likewise."""
    dtype = getattr(torch, name)
    truth = budget.truth(question(dtype, generator))
    assert truth.allowance.mean() < 20 * torch.finfo(dtype).eps


def test_it_is_one_and_a_half_times_pytorchs_error_if_that_is_more(generator, monkeypatch):
    asked = question(torch.float32, generator)
    right = budget.truth(asked)
    monkeypatch.setattr(
        budget,
        "scaled_dot_product_attention",
        lambda *tensors, **options: right.output + 0.5,
    )
    assert torch.allclose(budget.truth(asked).allowance, torch.full((), 0.75, dtype=torch.float64))


def test_nan_of_pytorch_excuses_nothing(generator, monkeypatch):
    asked = question(torch.float32, generator)
    monkeypatch.setattr(
        budget,
        "scaled_dot_product_attention",
        lambda *tensors, **options: torch.full((2, 3, 5, 13), math.nan),
    )
    assert budget.truth(asked).allowance.amax() < 1e-4


def test_a_query_without_keys_has_no_allowance(generator):
    mask = torch.ones(5, 11, dtype=torch.bool)
    mask[2] = False
    truth = budget.truth(question(torch.float32, generator, attn_mask=mask))
    assert not truth.output[..., 2, :].any()
    assert not truth.allowance[..., 2, :].any()
    assert (truth.allowance[..., 3, :] > 0).all()


def test_scores_that_the_dtype_holds_are_not_rounded(generator):
    asked = question(torch.bfloat16, generator)
    loose, tight = (budget.truth(asked, exact_scores=exact) for exact in (False, True))
    assert (tight.allowance <= loose.allowance).all()


def test_large_scores_never_allow_more_than_the_range_of_the_values(generator):
    asked = question(torch.bfloat16, generator, scale=1e4)
    spread = asked.value.double().amax() - asked.value.double().amin()
    assert budget.truth(asked).allowance.amax() < 1.2 * spread


def test_the_truth_is_the_references(generator):
    mask = torch.rand(2, 1, 5, 11, generator=generator) < 0.7
    bias = torch.randn(5, 11, generator=generator, dtype=torch.float64)
    for attn_mask in (mask, bias):
        asked = question(torch.float64, generator, attn_mask=attn_mask, is_causal=True, scale=0.7)
        expected = attnref.scaled_dot_product_attention(
            *asked[:3], *asked.setting[:1], 0.0, True, 0.7
        )
        torch.testing.assert_close(budget.truth(asked).output, expected)
