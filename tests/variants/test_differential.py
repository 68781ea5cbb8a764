"""Differential attention: the difference of two softmaxes, what cancels in it, its factor."""

import math
import re
from functools import partial

import pytest
import torch

import attnref
from attnref import MultiHeadAttention, masks
from attnref.variants.differential import METHOD, LearnedLambda, differential_attention
from tests.variants.every import every

HEADS, N, M, D_K, D_V = 3, 7, 13, 5, 2
CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # a few hundred roundings of float64


def drawn(randn, n=N, m=M, lead=(2, HEADS)):
    shapes = ((n, 2 * D_K), (m, 2 * D_K), (m, D_V))
    return [randn(*lead, *shape).requires_grad_() for shape in shapes]


def weights(query, key, lambd, mask=None, **options):
    """The weights of both maps, formed and subtracted."""
    first, second = (
        attnref.attention_weights(q, k, mask, **options)
        for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
    )
    return first - lambd * second


@pytest.mark.claim("differential-is-the-difference")
@pytest.mark.parametrize("shape", [None, (), (HEADS, 1, 1), (2, 1, N, 1)])
@every("masked", ["none", "bool", "float", "object"])
@every("is_causal", [False, True])
def test_it_is_the_definition_twice_in_values_and_gradients(
    shape, is_causal, masked, randn, assert_same
):
    inputs = drawn(randn)
    mask = {
        "none": None,
        "bool": randn(2, 1, N, M) > -0.5,
        "float": randn(N, M),
        "object": masks.padding([M, 5], M),
    }[masked]
    lambd = 0.6 if shape is None else randn(*(shape or (1,))).reshape(shape).requires_grad_()
    options = {"is_causal": is_causal, "scale": 0.7, "lambd": lambd}
    expected = METHOD.formula(*inputs, mask, **options)
    ours = differential_attention(*inputs, attn_mask=mask, **options)
    assert_same(ours, expected, inputs if shape is None else [*inputs, lambd])


@pytest.mark.claim("differential-rows-sum-to-one-minus-lambda")
@every("lambd", [0.0, 0.2, 0.8, 1.0, -0.5, 1.7])
def test_rows_sum_to_one_minus_lambda(lambd, randn):
    """Values that are all 1 show the sum of the weights."""
    query, key, _ = drawn(randn)
    ones = torch.ones(2, HEADS, M, 1, dtype=query.dtype, device=query.device)
    sums = differential_attention(query, key, ones, lambd=lambd)
    torch.testing.assert_close(sums, torch.full_like(sums, 1 - lambd), **CLOSE)


@pytest.mark.claim("differential-common-share-cancels")
def test_what_both_maps_weigh_in_one_ratio_cancels(randn):
    """On some keys the second map is r times the first: lambda r of their part is taken away.

    The scores of these keys differ between the maps by a number for each row only; those of the
    other keys are free. Values of the other keys are 0, so that what is left is theirs alone.
    """
    common = 9
    query, key, value = (x.detach() for x in drawn(randn, lead=()))
    query[:, D_K:] = query[:, :D_K]
    key[:common, D_K:] = key[:common, :D_K]
    value[common:] = 0.0
    first = weights(query, key, 0.0)
    second = first - weights(query, key, 1.0)
    ratio = second[:, :1] / first[:, :1]  # (n, 1), one for all of these keys
    torch.testing.assert_close(second[:, :common], ratio * first[:, :common], **CLOSE)
    assert (second[:, common:] - ratio * first[:, common:]).abs().max() > 0.01
    alone = differential_attention(query, key, value, lambd=0.0)
    for lambd in (0.3, 1.1):
        left = differential_attention(query, key, value, lambd=lambd)
        torch.testing.assert_close(left, (1 - lambd * ratio) * alone, **CLOSE)
    gone = differential_attention(query, key, value, lambd=1 / ratio)
    torch.testing.assert_close(gone, torch.zeros_like(gone), **CLOSE)
    key[:common, D_K:] = randn(common, D_K)  # what only one map weighs does not cancel
    assert differential_attention(query, key, value, lambd=1 / ratio).abs().max() > 0.1


@pytest.mark.claim("differential-leaves-the-hull")
def test_a_weight_may_be_negative_and_the_output_leaves_the_values(randn):
    """Without the second map the output lies among the values, in each component."""
    query, key, value = (3 * x.detach() for x in drawn(randn))
    least, most = value.amin(-2, keepdim=True), value.amax(-2, keepdim=True)
    inside = differential_attention(query, key, value, lambd=0.0)
    assert ((least <= inside) & (inside <= most)).all()
    assert weights(query, key, 0.5).min() < -0.1
    outside = differential_attention(query, key, value, lambd=0.5)
    assert ((outside < least - 0.1) | (outside > most + 0.1)).any()


@pytest.mark.claim("differential-holds-its-second-version")
def test_with_each_key_twice_it_is_the_second_version(randn):
    """Pairs of query heads of one key head, and a factor for each token and head."""
    query, key, value = randn(2, 2 * HEADS, N, D_K), randn(2, 1, N, D_K), randn(2, 1, N, D_V)
    lambd = randn(2, HEADS, N, 1).sigmoid()
    heads = attnref.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    expected = heads[:, 0::2] - lambd * heads[:, 1::2]
    pairs, twice = torch.cat([query[:, 0::2], query[:, 1::2]], -1), torch.cat([key, key], -1)
    ours = differential_attention(pairs, twice, value, lambd=lambd, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.claim("differential-is-two-heads")
def test_without_its_norm_a_layer_is_multi_head_attention_of_twice_as_many_heads(generator, randn):
    """Pairs of heads with the same values, and output weights of the second are -lambda times."""
    width, lambd = 11, 0.7
    options = {"generator": generator, "dtype": torch.float64, "device": generator.device}
    make = partial(MultiHeadAttention, width, bias=False, value_head_dim=D_V, **options)
    attend = partial(differential_attention, lambd=lambd)
    layer = make(HEADS, head_dim=2 * D_K, attention=attend)
    twice = make(2 * HEADS, head_dim=D_K)
    with torch.no_grad():
        for name in ("query_proj", "key_proj"):  # heads 2 i and 2 i + 1 are the halves of head i
            getattr(twice, name).weight.copy_(getattr(layer, name).weight)
        values = layer.value_proj.weight.unflatten(0, (HEADS, D_V))
        twice.value_proj.weight.copy_(values.repeat_interleave(2, 0).flatten(0, 1))
        out = layer.out_proj.weight.unflatten(1, (HEADS, D_V))  # (D, h, d_v)
        twice.out_proj.weight.copy_(torch.stack([out, -lambd * out], 2).flatten(1))
    x = randn(2, N, width)
    torch.testing.assert_close(layer(x, is_causal=True), twice(x, is_causal=True), **CLOSE)


def test_long_sequences_go_by_blocks(randn, count):
    """Of which the largest takes less than an eighth of the weights of one map."""
    n = 3001
    query, key, value = randn(n, 2 * D_K), randn(n, 2 * D_K), randn(n, D_V)
    counter = count(lambda: differential_attention(query, key, value, lambd=0.5, is_causal=True))
    assert counter.peak < n * n * 8 / 8
    ours = differential_attention(query, key, value, lambd=0.5, is_causal=True)
    expected = weights(query, key, 0.5, is_causal=True) @ value
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-12)


@every("lambd", [0.5, 0.98])
@every("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(lambd, dtype, device, generator):
    """The error is that of the output's own rounding, also where much cancels in it."""

    def normal(*shape):
        return torch.randn(*shape, device=device, generator=generator).to(dtype)

    query, key, value = normal(2, 101, 12), normal(2, 101, 12), normal(2, 101, 5)
    doubles = [x.double() for x in (query, key, value)]
    exact = differential_attention(*doubles, lambd=lambd, scale=0.02)  # two nearly equal maps
    ours = differential_attention(query, key, value, lambd=lambd, scale=0.02)
    assert (ours - exact).norm() <= 1.1 * (exact.to(dtype) - exact).norm()


# Its factor


@pytest.mark.claim("lambda-starts-at-its-initial-value")
def test_the_initial_values_of_the_paper():
    layers = [LearnedLambda(D_K, layer=layer, std=0.0)().item() for layer in range(1, 40)]
    expected = 0.2, 0.8 - 0.6 * math.exp(-0.3), 0.8 - 0.6 * math.exp(-1.8)
    assert [layers[at] for at in (0, 1, 6)] == pytest.approx(expected)
    assert layers == sorted(layers)
    assert layers[-1] == pytest.approx(0.8, abs=1e-4)


def test_the_learned_factor_is_its_formula(generator):
    learned = LearnedLambda(
        D_K, layer=2, std=0.5, generator=generator, dtype=torch.float64, device=generator.device
    )
    (q1, k1), (q2, k2) = learned.vectors.detach()
    expected = math.exp(float(q1 @ k1)) - math.exp(float(q2 @ k2)) + learned.initial
    assert learned().item() == pytest.approx(expected, rel=1e-14)
    assert learned().shape == ()
    assert abs(expected - learned.initial) > 0.05
    learned().backward()
    torch.testing.assert_close(learned.vectors.grad[0, 0], math.exp(float(q1 @ k1)) * k1)
    torch.testing.assert_close(learned.vectors.grad[1, 1], -math.exp(float(q2 @ k2)) * q2)
    assert LearnedLambda(D_K, layer=1, dtype=torch.bfloat16)().dtype == torch.float32


# What is refused


@every(
    ("lambd", "error", "message"),
    [
        (torch.ones(3).long(), TypeError, "lambd: expected a floating dtype, got torch.int64."),
        (torch.ones(3), ValueError, "lambd: expected a shape that broadcasts to (2, 3, 7, 1), one"),
        (torch.ones(7, 2), ValueError, "lambd: expected a shape that broadcasts to (2, 3, 7, 1)"),
        (torch.ones(1, device="meta"), ValueError, "lambd: expected device cpu, where query is,"),
    ],
)
def test_a_wrong_factor_is_named(lambd, error, message):
    tensors = [torch.zeros(2, 3, *shape) for shape in ((7, 4), (5, 4), (5, 3))]
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        differential_attention(*tensors, lambd=lambd)


def test_halves_are_of_one_width(randn):
    """The scale is checked with it."""
    with pytest.raises(ValueError, match=r"^query: expected an even width, that of two .* got 5\."):
        differential_attention(randn(3, 5), randn(3, 5), randn(3, 2), lambd=0.5)
    with pytest.raises(ValueError, match=r"^scale: expected .* 1/sqrt\(5\)"):
        differential_attention(*drawn(randn), lambd=0.5, scale=float("inf"))


@every(
    ("make", "error", "message"),
    [
        (lambda: LearnedLambda(3, layer=0), ValueError, "layer: expected an integer of 1 or more,"),
        (lambda: LearnedLambda(0, layer=1), ValueError, "head_dim: expected an integer of 1"),
        (lambda: LearnedLambda(3, layer="a"), TypeError, "layer: expected an integer of 1 or more"),
    ],
)
def test_the_numbers_of_the_factor_are_checked(make, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        make()
