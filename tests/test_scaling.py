import inspect
import math

import numpy as np
import pytest
import torch

import attnref
from attnref import masks, scaling
from tests.variants.every import every


@pytest.mark.claim("root-in-float32")
def test_a_root_in_float32_is_off_unless_the_width_is_a_square(device):
    """By 2**-24 of it, or 2**-23 where a kernel is off by a digit: in float64 all the error."""

    def off(head_dim):
        root = torch.sqrt(torch.tensor(head_dim, device=device).float()).double().item()
        return abs(root * head_dim**-0.5 - 1)

    errors = {head_dim: off(head_dim) for head_dim in range(1, 1025)}
    assert 5e-8 < max(errors.values()) <= 2**-23
    for head_dim, error in errors.items():
        assert (error < 1e-15) == (math.isqrt(head_dim) ** 2 == head_dim)
    query = torch.full((1, 80), 0.5, dtype=torch.float64, device=device)
    key = query.sign()
    scores = query @ key.mT / torch.sqrt(torch.tensor(80, device=device).float())
    exact = 40 * 80**-0.5
    assert abs(scores.item() / exact - 1) == pytest.approx(errors[80], rel=1e-6)
    assert errors[80] > 1e-8


@pytest.mark.claim("score-variance-by-factor")
@every("head_dim", [16, 64, 256])
def test_score_variance_follows_the_factor(head_dim, device, generator):
    """Var(c q·k) = c² d_k for independent components of mean 0 and variance 1."""
    pairs = 20_000
    q, k = torch.randn(2, pairs, head_dim, device=device, generator=generator, dtype=torch.float64)
    products = (q * k).sum(-1)
    for factor, expected in ((1.0, head_dim), (head_dim**-0.5, 1), (1 / head_dim, 1 / head_dim)):
        assert factor**2 * head_dim == pytest.approx(expected, rel=1e-14)
        measured = (factor * products).var().item()
        # Relative s.d. of a sample variance is sqrt((kurtosis - 1) / N), with kurtosis
        # 3 + 6/d_k here; five of them fail by chance about once in two million runs.
        bound = 5 * math.sqrt((2 + 6 / head_dim) / pairs)
        assert measured == pytest.approx(expected, rel=bound)


@pytest.mark.claim("same-function-another-path")
def test_a_factor_is_a_reparametrisation_with_another_path(randn):
    """The scale put into the query projection: the same function, but not after one step.

    So "without a scale training is unstable" is no law; the learning rate has changed instead.
    """
    x, y, key_projection, target = randn(7, 5), randn(11, 5), randn(5, 3), randn(7, 11)
    scale = 3**-0.5
    outside = randn(5, 3).requires_grad_()
    inside = (outside.detach() * scale).requires_grad_()

    def weights(projection, factor):
        return attnref.attention_weights(x @ projection, y @ key_projection, scale=factor)

    before, folded = weights(outside, scale), weights(inside, 1.0)
    torch.testing.assert_close(before, folded, rtol=0, atol=1e-14)
    for result in (before, folded):
        (result * target).sum().backward()
    stepped = [p - 0.05 * p.grad for p in (outside, inside)]
    after = weights(stepped[0], scale), weights(stepped[1], 1.0)
    assert (after[0] - after[1]).abs().max() > 1e-3


@pytest.mark.claim("yarn-factor")
def test_yarn_gives_the_factor_of_deepseek_v3():
    """Read in its program: ``mscale = 0.1 * log(factor) + 1``, and its square before the root."""
    mscale = 0.1 * math.log(40) + 1
    assert round(192**-0.5 * mscale * mscale, 4) == 0.1352
    assert scaling.yarn(192, stretch=40) == pytest.approx(192**-0.5 * mscale * mscale, rel=1e-15)
    # In the products it is no factor of the length but of the model: 1.87 times the usual one.
    assert scaling.yarn(192, stretch=40) / 192**-0.5 > 1.8
    assert scaling.yarn(64, stretch=1) == 64**-0.5


def test_log_length_follows_the_formula(device):
    visible = torch.tensor([1, 2, 97], device=device)
    ours = scaling.log_length(5, visible.double())
    assert ours.shape == (3, 1)
    assert ours.dtype == torch.float64
    expected = np.log([1.0, 2.0, 97.0]) / np.sqrt(5.0)
    np.testing.assert_allclose(ours[:, 0].cpu().numpy(), expected, rtol=1e-15)
    assert scaling.log_length(5, visible).dtype == torch.get_default_dtype()


@pytest.mark.claim("log-length-decodes-as-it-trains")
def test_log_length_is_the_same_when_decoding_and_the_tensor_length_is_not(device, randn):
    """One row of a longer training sequence, computed later from a cache of its own keys."""
    n, at, d_k = 11, 6, 5
    query, key, value = randn(n, d_k), randn(n, d_k), randn(n, 3)

    def attention(rows, keys, visible, mask):
        scaled = scaling.scale_query(query[rows], scaling.log_length(d_k, visible))
        return attnref.scaled_dot_product_attention(
            scaled, key[:keys], value[:keys], attn_mask=mask, scale=1.0
        )

    causal = masks.causal(n).dense(device=device)
    training = attention(slice(n), n, causal.sum(-1).double(), causal)[at]
    cached = torch.tensor([at + 1.0], device=device, dtype=torch.float64)
    decoding = attention(slice(at, at + 1), at + 1, cached, None)[0]
    torch.testing.assert_close(training, decoding, rtol=1e-12, atol=1e-13)
    # Counting the keys of the tensor instead makes the row depend on what follows it.
    whole = torch.full((n,), float(n), device=device, dtype=torch.float64)
    assert (attention(slice(n), n, whole, causal)[at] - decoding).abs().max() > 1e-3


def test_log_length_leaves_a_row_without_keys_at_zero(device, randn):
    query = randn(2, 5).requires_grad_()
    key, value = randn(3, 5), randn(3, 3)
    mask = torch.tensor([[False, False, False], [True, False, True]], device=device)
    factor = scaling.log_length(5, mask.sum(-1).double())
    ours = attnref.scaled_dot_product_attention(
        scaling.scale_query(query, factor), key, value, attn_mask=mask, scale=1.0
    )
    ours.sum().backward()
    assert (ours[0] == 0).all()
    assert query.grad.isfinite().all()
    # The logarithm of the bare count is -inf, and NaN once it meets a component of 0.
    bare = mask.sum(-1, keepdim=True).double().log()
    assert (torch.zeros(2, 5, device=device) * bare)[0].isnan().all()


@pytest.mark.claim("lead-lost-and-kept")
@every(("n", "expected"), [(10**3, 0.957), (10**4, 0.688), (10**6, 0.0216)])
def test_a_lead_is_lost_in_a_long_row_but_not_with_log_length(n, expected, device):
    """One key leads the n - 1 others by 10: its weight under a constant factor, and under ln n.

    With ln n times κ what decides is κΔ, here ``lead``: 1/(1 + (n - 1) n^-κΔ) goes to 1 above 1, to
    a half at 1, and to 0 below.
    """
    query = torch.ones(1, 1, device=device, dtype=torch.float64)
    key = torch.zeros(n, 1, device=device, dtype=torch.float64)
    key[0] = 10.0
    constant = attnref.attention_weights(query, key).max().item()
    assert constant == pytest.approx(expected, abs=5e-4)
    visible = torch.tensor([n], device=device).double()
    for lead, least, most in ((1.5, 0.96, 1.0), (1.0, 0.5, 0.501), (0.5, 0.0, 0.031)):
        scaled = scaling.scale_query(query, scaling.log_length(1, visible) * lead / 10)
        kept = attnref.attention_weights(scaled, key, scale=1.0)[0, 0].item()
        assert least <= kept <= most
        # The further beyond 1 000 keys, the nearer to that limit.
        limit = 0.5 + 0.5 * (lead > 1) - 0.5 * (lead < 1)
        assert abs(kept - limit) <= abs(least + most - 2 * limit) / 2 + n**-0.5


@pytest.mark.claim("factor-per-head-is-absorbed")
def test_a_factor_per_head_is_absorbed_by_the_query_projection(device, randn):
    """It adds no function: the projection of the head, times the factor, does the same."""
    factors = torch.tensor([0.1, 2.0], device=device, dtype=torch.float64)
    x, projection, key = randn(5, 7), randn(2, 7, 3), randn(2, 11, 3)
    outside = scaling.scale_query(x @ projection, factors[:, None, None])
    inside = x @ (projection * factors[:, None, None])
    torch.testing.assert_close(
        attnref.attention_weights(outside, key, scale=1.0),
        attnref.attention_weights(inside, key, scale=1.0),
        rtol=0,
        atol=1e-14,
    )


def test_the_temperature_starts_where_it_is_told_and_steps_by_a_factor(device):
    module = scaling.LearnedTemperature(3, init=5.0).to(device, torch.float64)
    factors = module()
    assert factors.shape == (3, 1, 1)
    # ln 5 was rounded to float32, by half a unit in 1.6 at most; relative to 5 that is as much.
    torch.testing.assert_close(factors, torch.full_like(factors, 5.0), rtol=1e-7, atol=0)
    factors.sum().backward()
    torch.testing.assert_close(module.log_temperature.grad, factors.detach().flatten())
    with torch.no_grad():
        module.log_temperature += math.log(2)
    torch.testing.assert_close(module(), 2 * factors, rtol=1e-14, atol=0)


def test_the_temperature_stops_at_100_and_learns_nothing_above(device):
    module = scaling.LearnedTemperature(2, init=100.0).to(device, torch.float64)
    with torch.no_grad():
        module.log_temperature[0] = math.log(90.0)
        module.log_temperature[1] = math.log(900.0)
    factors = module()
    factors.sum().backward()
    expected = torch.tensor([90.0, 100.0], device=device, dtype=torch.float64)
    torch.testing.assert_close(factors.detach().flatten(), expected, rtol=1e-14, atol=0)
    assert module.log_temperature.grad[1] == 0
    assert module.log_temperature.grad[0] > 0


@every("factor", [1.0, 7**-0.5, 1 / 7])
def test_scaling_the_query_is_passing_the_scale(factor, randn):
    query, key, value = randn(2, 5, 7), randn(2, 11, 7), randn(2, 11, 3)
    kept = query.clone()
    scaled = scaling.scale_query(query, factor)
    assert torch.equal(query, kept)
    ours = attnref.scaled_dot_product_attention(scaled, key, value, scale=1.0)
    assert torch.equal(ours, attnref.scaled_dot_product_attention(query, key, value, scale=factor))


@every("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_query_keeps_its_dtype(dtype, device, randn):
    query, key, value = (randn(2, 5, 3, dtype=dtype) for _ in range(3))
    factor = torch.tensor([0.3, 0.7], device=device)[:, None, None]
    scaled = scaling.scale_query(query, factor)
    assert scaled.dtype == dtype
    expected = (query.double() * factor.double()).to(dtype)
    torch.testing.assert_close(scaled, expected, rtol=torch.finfo(dtype).eps, atol=0)
    ours = attnref.scaled_dot_product_attention(scaled, key, value, scale=1.0)
    assert ours.dtype == dtype
    if dtype != torch.float32:
        # The bare product has another dtype than the keys, which attention refuses.
        with pytest.raises(TypeError, match=r"^key: expected torch\.float32, the dtype of query"):
            attnref.scaled_dot_product_attention(query * factor, key, value, scale=1.0)


QUERY, WHOLE = torch.ones(2, 5, 7), "expected an integer of 1 or more, got"
COUNTS, ROWS = "visible: expected a torch.Tensor of counts", r"factor: expected .* \(2, 5, 1\), one"


@every(
    ("function", "arguments", "message"),
    [
        (scaling.yarn, {"head_dim": 0}, rf"head_dim: {WHOLE} 0\. .* query"),
        (scaling.yarn, {"head_dim": True}, f"head_dim: {WHOLE} True"),
        (scaling.log_length, {"head_dim": 0}, rf"head_dim: {WHOLE} 0\. .* query"),
        (scaling.yarn, {"stretch": 0.5}, r"stretch: .* at least 1, got 0\.5.* stretching it is 1"),
        (scaling.yarn, {"stretch": math.nan}, "stretch: expected .* got nan"),
        (scaling.log_length, {"visible": 7}, rf"{COUNTS}, got int\. .* mask\.sum\(-1\)"),
        (scaling.log_length, {"visible": QUERY > 0}, rf"{COUNTS}, got torch\.bool"),
        (scaling.LearnedTemperature, {"num_heads": 0}, f"num_heads: {WHOLE} 0"),
        (scaling.LearnedTemperature, {"init": 0.0}, r"init: .* above 0 .* got 0\.0.* starts at 10"),
        (scaling.LearnedTemperature, {"init": 101.0}, "init: .* at most 100, got 101"),
        (scaling.scale_query, {"factor": torch.ones(2)}, rf"{ROWS} .* got \(2,\)\. .* factors\[:"),
        (scaling.scale_query, {"factor": QUERY}, rf"{ROWS} .* got \(2, 5, 7\)"),
        (scaling.scale_query, {"factor": torch.ones(2, 2, 1, 1)}, rf"{ROWS} .* got \(2, 2, 1, 1\)"),
    ],
)
def test_a_wrong_argument_is_named(function, arguments, message):
    given = {"head_dim": 64, "stretch": 2.0, "visible": torch.tensor([3])}
    given |= {"num_heads": 2, "query": QUERY} | arguments
    taken = inspect.signature(function).parameters
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        function(**{name: one for name, one in given.items() if name in taken})


def test_factors_vmap_and_compile(device, randn):
    query, factors = randn(3, 2, 5, 7), randn(3, 2)

    def scaled(query, factors):
        visible = torch.arange(1, 6, device=device)
        factor = factors[:, None, None] * scaling.log_length(7, visible)
        return scaling.scale_query(query, factor * scaling.yarn(7, stretch=2.0))

    one_by_one = torch.stack([scaled(q, f) for q, f in zip(query, factors, strict=True)])
    assert torch.equal(torch.vmap(scaled)(query, factors), one_by_one)
    compiled = torch.compile(scaled, backend="eager", fullgraph=True)
    assert torch.equal(compiled(query[0], factors[0]), one_by_one[0])
