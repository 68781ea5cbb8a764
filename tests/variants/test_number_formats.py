"""Floats of eight and four bits: their numbers, steps of blocks, and attention on them.

The judge of the formats is ml_dtypes, in NumPy; that of the steps is a loop over blocks.
"""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import torch

import attnref
from attnref import KVCache, kv_cache_attention
from attnref.variants import _formats as formats
from attnref.variants.quantized import QuantizedTokens, quantize, quantized_attention
from tests.variants.every import every

E4M3, E5M2, E2M1 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2
E8M0 = torch.float8_e8m0fnu
JUDGES = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2, E2M1: ml_dtypes.float4_e2m1fn}
# The largest relative error, at the middle between 1 and the number after it, 1 + 2u: there it is
# u / (1 + u); and half the distance of the numbers next to 0.
UNITS = {E4M3: (1 / 17, 2**-10), E5M2: (1 / 9, 2**-17), E2M1: (1 / 5, 2**-2)}
FLOATS = list(UNITS)
EVERY = [torch.int8, *FLOATS]


def error(ours, exact):
    return ((ours - exact).norm() / exact.norm()).item()


def judged(numbers, dtype):
    """What ml_dtypes rounds float32 numbers to, none of which is beyond the largest."""
    if dtype == torch.int8:
        return np.rint(numbers).astype(np.float32)
    return numbers.astype(JUDGES[dtype]).astype(np.float32)


# The formats -----------------------------------------------------------------------------------


@pytest.mark.claim("nearest-number-of-the-format")
@pytest.mark.parametrize("dtype", FLOATS)
def test_each_number_becomes_the_nearest_and_the_even_one_of_two(dtype, device, generator):
    """All numbers of the format, all midpoints between two, their neighbours, and random ones."""
    codes = np.arange(16 if dtype == E2M1 else 256, dtype=np.uint8).view(JUDGES[dtype])
    exact = np.unique(codes.astype(np.float32)[np.isfinite(codes.astype(np.float32))])
    middle = (exact[1:] + exact[:-1]) / 2
    drawn = torch.randn(5000, generator=generator, device=device).cpu().numpy()
    found = [exact, middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf), drawn]
    numbers = np.concatenate(found).astype(np.float32)
    numbers = numbers[: numbers.size // 2 * 2]
    ours = formats.to_numbers(formats.round_to_format(torch.tensor(numbers, device=device), dtype))
    expected = judged(numbers, dtype)
    np.testing.assert_array_equal(ours.cpu().numpy(), expected)
    np.testing.assert_array_equal(np.signbit(ours.cpu().numpy()), np.signbit(expected))


def test_a_byte_holds_two_numbers_the_first_one_low(device):
    every = torch.arange(256, dtype=torch.uint8, device=device)
    ours = formats.unpack(every.view(E2M1)[:, None])
    codes = np.stack([np.arange(256) & 15, np.arange(256) >> 4], -1).astype(np.uint8)
    expected = codes.view(JUDGES[E2M1]).astype(np.float32)
    np.testing.assert_array_equal(ours.cpu().numpy(), expected)
    assert torch.equal(formats.pack(ours).view(torch.uint8)[:, 0], every)


@pytest.mark.parametrize("dtype", EVERY)
def test_what_is_beyond_the_largest_becomes_the_largest(dtype, device):
    largest = formats.LARGEST[dtype]
    beyond = torch.tensor([1.1, 1e9, math.inf, -1.1, -1e9, -math.inf], device=device) * largest
    ours = formats.to_numbers(formats.round_to_format(beyond, dtype))
    assert ours.tolist() == [largest] * 3 + [-largest] * 3


def test_a_power_of_two_is_not_below_and_less_than_twice(device, generator):
    powers = torch.exp2(torch.arange(-126.0, 127.0, device=device))
    drawn = torch.randn(1000, generator=generator, device=device).mul(20).exp()
    for steps in (powers, drawn, torch.nextafter(powers, powers * 2)):
        above = formats.power_of_two_above(steps).float()
        assert ((steps <= above) & (above < 2 * steps)).all()
        assert (above.log2() == above.log2().round()).all()


# Steps -----------------------------------------------------------------------------------------


def by_loops(tokens, dtype, block_size, group_size, step_dtype):
    """One matrix, block by block, in float32 and NumPy."""
    tokens = tokens.numpy()
    n, d = tokens.shape
    rows, columns = -(-n // block_size), -(-d // (group_size or d))
    height, width = -(-n // rows), -(-d // columns)
    places = [
        (slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width))
        for i, j in itertools.product(range(rows), range(columns))
    ]
    largest = np.float32(formats.LARGEST[dtype])
    steps = np.array([np.abs(tokens[place]).max() for place in places], np.float32) / largest
    if step_dtype != E4M3:
        steps[steps == 0] = 1
    if step_dtype == E8M0:
        steps = np.exp2(np.ceil(np.log2(steps.astype(np.float64)))).astype(np.float32)
    elif step_dtype == E4M3:
        outer = steps.max() / np.float32(448)
        scaled = np.clip(steps / outer, 2.0**-9, 448)
        steps = scaled.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * outer
    found = np.empty_like(tokens)
    for place, step in zip(places, steps, strict=True):
        scaled = np.clip(tokens[place] / step, -largest, largest)
        found[place] = judged(scaled, dtype) * step
    return torch.tensor(found)


@pytest.mark.claim("a-step-per-block")
@pytest.mark.parametrize("dtype", EVERY)
@every(("block_size", "group_size"), [(1, None), (1, 16), (5, None), (4, 3)])
@every("step_dtype", [None, E8M0, E4M3])
def test_steps_are_those_of_a_loop_over_blocks(dtype, block_size, group_size, step_dtype, randn):
    tokens = randn(3, 23, 38, dtype=torch.float32).cpu()
    tokens[:, 7] *= 100.0
    tokens[1, 12:18] = 0.0
    options = {"block_size": block_size, "group_size": group_size, "step_dtype": step_dtype}
    ours = quantize(tokens, dtype=dtype, **options).dequantize()
    assert ours.shape == tokens.shape
    expected = torch.stack([by_loops(one, dtype, **options) for one in tokens])
    torch.testing.assert_close(ours, expected, rtol=0, atol=0)


@pytest.mark.claim("blocks-of-one-size")
@every("block_size", range(1, 25))
def test_blocks_are_told_from_their_number(block_size, randn):
    """The least number of them, all of one size but the last; where it divides n, that size."""
    n = 24
    tokens = randn(n, 2, dtype=torch.float32)
    found = quantize(tokens, block_size=block_size)
    blocks = found.step.shape[0]
    assert blocks == math.ceil(n / block_size)
    size = math.ceil(n / blocks)
    assert size <= block_size
    assert n % block_size or size == block_size
    largest = torch.stack([part.abs().amax() for part in tokens.split(size)])
    torch.testing.assert_close(found.step[:, 0] * 127, largest)


@pytest.mark.claim("eight-bit-float-error")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_errs_by_a_share_of_itself(dtype, device, generator):
    unit, least = UNITS[dtype]
    tokens = torch.randn(101, 64, generator=generator, device=device).exp()  # over many sizes
    tokens[:, :8] *= 1e-4
    found = quantize(tokens, dtype=dtype)
    off = (found.dequantize() - tokens).abs()
    eps = torch.finfo(torch.float32).eps
    bound = torch.maximum(unit * tokens, least * found.step)
    # The quotient is rounded, and so is the product: one unit each, of a number that is not off
    # by more than its own size.
    assert (off <= bound * (1 + 4 * eps) + 4 * eps * tokens).all()
    assert (off / bound).max() > 0.99  # and the bound is nearly reached


@pytest.mark.claim("cut-off-by-a-seventeenth")
def test_a_step_of_eight_bits_cuts_off_at_most_a_seventeenth(randn):
    tokens = randn(53, 64, dtype=torch.float32)
    found = quantize(tokens, dtype=E2M1, group_size=16, step_dtype=E4M3)
    groups = tokens.abs().unflatten(-1, (4, 16))
    largest = groups.amax(-1)
    reach = 6 * found.step.dequantize()
    short = (1 - reach / largest).max().item()
    assert 0.04 < short <= 1 / 17 + 1e-6


@every("dtype", FLOATS)
@every("step_dtype", [None, E8M0, E4M3])
def test_a_power_of_two_as_a_factor_changes_nothing_else(dtype, step_dtype, randn):
    """Beside a group of zeros, too, which has no size to set a step by."""
    tokens = randn(7, 32, dtype=torch.float32)
    tokens[:, :16] = 0.0
    options = {"dtype": dtype, "group_size": 16, "step_dtype": step_dtype}
    small, plain = (quantize(x, **options).dequantize() for x in (2.0**-20 * tokens, tokens))
    assert torch.equal(2.0**20 * small, plain)
    assert error(plain, tokens) < 0.2


def test_a_group_far_below_the_largest_keeps_the_smallest_step(device):
    tokens = torch.tensor([[1.0, -0.5, 1e-6, -1e-6, 0.0, 0.0]], device=device)
    found = quantize(tokens, dtype=E2M1, group_size=2, step_dtype=E4M3)
    step = found.step.dequantize()[0]
    torch.testing.assert_close(step[1:] / step[0], torch.full((2,), 2**-9 / 448, device=device))
    kept = found.dequantize()[0]
    assert (kept[2:4].abs() > 5e-7).all()
    assert (kept[4:] == 0).all()


@pytest.mark.claim("four-bit-memory")
def test_the_memory_of_four_bits_is_counted(device, randn):
    n, d = 96, 64
    tokens = randn(n, d, dtype=torch.float16)
    mx = quantize(tokens, dtype=E2M1, group_size=32, step_dtype=E8M0)
    nv = quantize(tokens, dtype=E2M1, group_size=16, step_dtype=E4M3)
    eight = quantize(tokens, dtype=E4M3)
    assert mx.nbytes == n * d // 2 + n * d // 32
    assert nv.nbytes == n * d // 2 + n * d // 16 + 4
    assert eight.nbytes == n * (d + 4)
    assert isinstance(nv.step, QuantizedTokens)
    bits = [8 * found.nbytes / (n * d) for found in (mx, nv, eight)]
    assert bits == pytest.approx([4.25, 4.5, 8.5], abs=0.01)


@pytest.mark.claim("a-block-contains-its-outlier")
@pytest.mark.parametrize("dtype", EVERY)
def test_an_outlier_coarsens_its_own_block_alone(dtype, randn):
    tokens = randn(20, 6, dtype=torch.float32)
    wild = tokens.clone()
    wild[7, 2] = 1e3
    plain, other = (quantize(x, dtype=dtype, block_size=5).dequantize() for x in (tokens, wild))
    changed = (plain != other).any(-1)
    assert not changed[:5].any()
    assert not changed[10:].any()
    assert changed[5:10].any()


@every("dtype", EVERY)
@every("step_dtype", [None, E8M0, E4M3])
def test_zeros_nan_and_the_smallest_numbers(dtype, step_dtype, device):
    tokens = torch.zeros(3, 4, device=device)
    assert (quantize(tokens, dtype=dtype, step_dtype=step_dtype).dequantize() == 0).all()
    tokens[1, 2] = 1e-45
    assert quantize(tokens, dtype=dtype, step_dtype=step_dtype).dequantize().abs().max() < 1e-37
    for broken in (math.nan, math.inf):
        tokens = torch.ones(2, 3, 4, device=device)
        tokens[0, 1, 2] = broken
        found = quantize(tokens, dtype=dtype, step_dtype=step_dtype).dequantize()
        assert found[0, 1].isnan().all()
        assert found[1].isfinite().all()
        assert step_dtype == E4M3 or found[0, [0, 2]].isfinite().all()


@every("shape", [(0, 4), (3, 0, 4), (0, 3, 4), (4,)])
@every("step_dtype", [None, E8M0, E4M3])
def test_empty_sizes_and_a_single_token(shape, step_dtype, randn):
    tokens = randn(*shape, dtype=torch.float32)
    found = quantize(tokens, dtype=E2M1, group_size=2, step_dtype=step_dtype)
    assert found.dequantize().shape == shape
    if len(shape) > 1:
        found = quantize(tokens, dtype=E2M1, block_size=3, step_dtype=step_dtype)
        assert found.dequantize().shape == shape


# Attention -------------------------------------------------------------------------------------

OPTIONS = [
    {"dtype": E4M3},
    {"dtype": E4M3, "block_size": 4},
    {"dtype": E5M2, "group_size": 2},
    {"dtype": E2M1, "group_size": 3, "step_dtype": E8M0},
    {"dtype": E2M1, "group_size": 4, "step_dtype": E4M3, "block_size": 2},
    {"block_size": 3},
]


def round_it(tokens, block_size=1, **options):
    """With one component more where four bits need an even number."""
    width = tokens.shape[-1]
    if options.get("dtype") == E2M1 and width % 2:
        tokens = torch.cat([tokens, torch.zeros_like(tokens[..., :1])], -1)
    found = quantize(tokens, block_size=block_size, **options).dequantize()[..., :width]
    return found.to(tokens.dtype)


@pytest.mark.parametrize("options", OPTIONS)
@every("weights", [False, True])
@every("is_causal", [False, True])
def test_values_and_gradients_are_those_of_the_rounded_parts(weights, is_causal, options, randn):
    shapes = [(2, 3, 7, 5), (2, 3, 11, 5), (2, 3, 11, 2)]
    inputs = [randn(*shape).requires_grad_() for shape in shapes]
    ours = quantized_attention(
        *inputs, is_causal=is_causal, smooth=False, values=True, weights=weights, **options
    )
    along = {name: option for name, option in options.items() if name != "block_size"}
    query, key = (round_it(x.detach(), **options).requires_grad_() for x in inputs[:2])
    value = round_it(inputs[2].detach().mT, **along).mT.requires_grad_()
    found = attnref.attend(query, key, value, is_causal=is_causal)
    if weights:
        largest = found.weights.detach().amax(-1, keepdim=True)
        rounded = round_it(found.weights.detach() / largest, **along) * largest
        passed = found.weights + (rounded - found.weights).detach()
        expected = passed @ value
    else:
        expected = found.output
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-12)
    cotangent = randn(2, 3, 7, 2)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, cotangent, create_graph=weights),
        torch.autograd.grad(expected, [query, key, value], cotangent, create_graph=weights),
        rtol=1e-10,
        atol=1e-11,
    )


@every(("width", "group_size"), [(3, 3), (5, 3), (7, 7), (9, 3)])
def test_an_odd_width_is_cut_into_the_same_groups(width, group_size, randn):
    """Of four bits too, whose bytes hold two numbers; a table of the format gives the numbers."""
    tokens = randn(4, width, dtype=torch.float32)
    blocks = -(-width // group_size)
    each = -(-width // blocks)
    known = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=tokens.device)
    parts = []
    for part in tokens.split(each, -1):
        step = part.abs().amax(-1, keepdim=True) / 6
        nearest = known[(part.abs()[..., None] / step[..., None] - known).abs().argmin(-1)]
        parts.append(part.sign() * nearest * step)
    value, one = torch.eye(4, device=tokens.device), torch.ones(1, width, device=tokens.device)
    options = {"dtype": torch.float4_e2m1fn_x2, "group_size": group_size, "smooth": False}
    ours = attnref.quantized_attention(one, tokens, value, scale=1.0, **options)
    expected = torch.softmax(one @ torch.cat(parts, -1).mT, -1)
    torch.testing.assert_close(ours, expected)


@pytest.mark.claim("weights-times-448")
def test_weights_are_rounded_as_powers_times_448(randn):
    """exp(s - max) lies between 0 and 1, and what divides is the sum before the rounding."""
    query, key, value = (randn(*shape, dtype=torch.float32) for shape in ((7, 5), (11, 5), (11, 3)))
    ours = quantized_attention(query, key, value, dtype=E4M3, smooth=False, weights=True)
    scores = round_it(query, dtype=E4M3) @ round_it(key, dtype=E4M3).mT / 5**0.5
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    rounded = (448 * powers).to(E4M3).float() / 448
    expected = rounded @ value / powers.sum(-1, keepdim=True)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    plain = powers @ value / powers.sum(-1, keepdim=True)
    assert error(expected, plain) > 1e-3  # the rounding is seen


@pytest.mark.claim("eight-bit-score-bound")
def test_a_score_of_e4m3_errs_by_a_share_of_its_products(randn):
    d, (unit, least) = 61, UNITS[E4M3]
    query, key, value = randn(4, 53, d), randn(4, 67, d), randn(4, 67, 7)
    q, k = (quantize(x, dtype=E4M3) for x in (query, key))
    q_off = torch.maximum(unit * query.abs(), least * q.step)
    k_off = torch.maximum(unit * key.abs(), least * k.step)
    off = q_off @ key.abs().mT + query.abs() @ k_off.mT + q_off @ k_off.mT
    off = off * (1 + 1e-6) / d**0.5  # quotients pass through float32
    simple = (2 * unit + unit**2) * (query.abs() @ key.abs().mT) / d**0.5
    assert (off <= 1.02 * simple).all()  # numbers below 2^-6 of a step hardly count
    moved = (q.dequantize() @ k.dequantize().mT - query @ key.mT) / d**0.5
    assert (moved.abs() <= off).all()
    exact = attnref.scaled_dot_product_attention(query, key, value)
    ours = quantized_attention(query, key, value, dtype=E4M3, smooth=False)
    diameter = torch.cdist(value, value).amax((-2, -1))[:, None]
    assert ((ours - exact).norm(dim=-1) <= torch.tanh(off.amax(-1) / 2) * diameter).all()


@pytest.mark.claim("eight-bit-score-bound")
def test_a_score_can_err_by_nearly_its_share(device):
    """All products have one sign, and all components lie just above the middle of two numbers."""
    token = torch.full((1, 64), 8.5001, device=device, dtype=torch.float64)
    token[0, 0] = 448.0  # the step is 1
    found = quantize(token, dtype=E4M3)
    assert found.step.item() == 1.0
    rounded = found.dequantize()
    rest = slice(1, None)
    share = (rounded[:, rest].square().sum() / token[:, rest].square().sum() - 1).item()
    unit = UNITS[E4M3][0]
    assert 0.999 * (2 * unit + unit**2) < share <= 2 * unit + unit**2


@pytest.mark.claim("rounded-values-move-no-further")
@pytest.mark.parametrize("dtype", EVERY)
def test_rounded_values_move_the_output_no_further_than_the_worst_of_them(dtype, randn):
    query, key, value = randn(4, 13, 8), randn(4, 31, 8), randn(4, 31, 6)
    values, both = (
        quantized_attention(query, key, value, dtype=dtype, values=rounded)
        for rounded in (False, True)
    )
    worst = (round_it(value.mT, dtype=dtype).mT - value).norm(dim=-1).amax(-1)
    moved = (values - both).norm(dim=-1).amax(-1)
    assert (moved > 0).all()
    assert (moved <= worst).all()


@pytest.mark.claim("rounded-weights-move-a-share")
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_rounded_weights_move_the_output_by_their_share(dtype, randn):
    m, (unit, least) = 31, UNITS[dtype]
    query, key, value = 3 * randn(4, 13, 8), randn(4, m, 8), randn(4, m, 6)
    values, both = (
        quantized_attention(query, key, value, dtype=dtype, weights=rounded)
        for rounded in (False, True)
    )
    share = unit + m * least / formats.LARGEST[dtype]
    moved = (values - both).norm(dim=-1)
    assert (moved <= share * value.norm(dim=-1).amax(-1)[:, None]).all()
    assert moved.max() > 0


# Outliers --------------------------------------------------------------------------------------


def incoherent(width, generator):
    """A Hadamard matrix with random signs, orthogonal."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < width:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    signs = torch.randint(2, (width,), generator=generator, device=generator.device) * 2.0 - 1
    return signs[:, None] * matrix.to(signs.device) / width**0.5


@pytest.mark.claim("rotation-keeps-the-scores")
def test_a_rotation_keeps_the_scores_and_spreads_an_outlier(generator, randn):
    d = 64
    rotation = incoherent(d, generator)
    query, key, spike = randn(3, 7, d), randn(3, 11, d), torch.zeros(1, d).to(rotation)
    scores = (query @ rotation) @ (key @ rotation).mT
    torch.testing.assert_close(scores, query @ key.mT, rtol=0, atol=1e-12)
    spike[0, 3] = 30.0
    torch.testing.assert_close((spike @ rotation).abs(), torch.full_like(spike, 30 / d**0.5))


@pytest.mark.claim("rotation-helps-equal-steps")
def test_a_rotation_helps_tokens_with_large_components_of_their_own(generator, randn):
    """Large numbers in random places, so that the mean key takes none of them away."""
    n, d = 512, 64
    query, key, value = (randn(n, d) for _ in range(3))
    for tokens in (query, key):
        places = torch.rand(n, d, generator=generator, device=tokens.device) < 1e-2
        tokens[places] *= 10
    exact = attnref.scaled_dot_product_attention(query, key, value)
    rotation = incoherent(d, generator)

    def errors(**options):
        plain = quantized_attention(query, key, value, **options)
        turned = quantized_attention(query @ rotation, key @ rotation, value, **options)
        return error(plain, exact), error(turned, exact)

    for options in ({}, {"dtype": E2M1}):
        plain, turned = errors(**options)
        assert turned < 0.7 * plain
    plain, turned = errors(dtype=E4M3)
    assert abs(turned / plain - 1) < 0.25  # a float is coarse in proportion: nothing to gain


@pytest.mark.claim("floats-forgive-outliers")
def test_a_channel_of_large_keys_costs_floats_nothing(randn):
    """Integers lose digits of all others by it; floats do not, but are coarser without it."""
    query, key, value = (randn(4, 512, 64) for _ in range(3))
    large = key.clone()
    large[..., 3] += 30
    found = {}
    for dtype in (torch.int8, E4M3):
        for name, keys in (("plain", key), ("large", large)):
            exact = attnref.scaled_dot_product_attention(query, keys, value)
            ours = quantized_attention(query, keys, value, dtype=dtype, smooth=False)
            found[dtype, name] = error(ours, exact)
    assert found[torch.int8, "plain"] < 0.3 * found[E4M3, "plain"]
    assert found[torch.int8, "large"] > 5 * found[torch.int8, "plain"]
    assert found[E4M3, "large"] < 1.1 * found[E4M3, "plain"]


@pytest.mark.claim("later-tokens-share-steps")
@pytest.mark.parametrize("dtype", [torch.int8, E4M3])
def test_a_later_token_moves_the_earlier_ones_through_what_it_shares(dtype, randn):
    query, key, value = randn(12, 6), randn(12, 6), randn(12, 4)
    other_key, other_value = key.clone(), value.clone()
    other_key[-1] *= 7
    other_value[-1] *= 7

    def change(**options):
        before, after = (
            quantized_attention(query, k, v, is_causal=True, dtype=dtype, **options)
            for k, v in ((key, value), (other_key, other_value))
        )
        return (before - after)[:-1].abs().max()

    assert change(smooth=False, weights=True) == 0
    assert change(smooth=False, weights=True, group_size=2) == 0
    assert change() > 0
    assert change(smooth=False, values=True) > 0
    assert change(smooth=False, block_size=6) > 0
    assert change(smooth=False, step_dtype=E4M3) > 0


# Caches ----------------------------------------------------------------------------------------


@pytest.mark.claim("quantised-cache-appends")
@pytest.mark.parametrize("dtype", EVERY)
def test_a_cache_of_quantised_tokens_is_what_it_would_be_at_once(dtype, randn):
    """Each token has steps of its own: what comes later changes none of them."""
    n, d = 13, 64
    query, key, value = (randn(2, n, d, dtype=torch.float32) for _ in range(3))
    options = {"dtype": dtype, "group_size": 32, "step_dtype": E8M0}
    values, steps = KVCache(max_length=n), KVCache()
    for i in range(n):
        k, v = (quantize(x[:, i : i + 1], **options) for x in (key, value))
        pairs = zip(values.append(k.values, v.values), steps.append(k.step, v.step), strict=True)
        held = [QuantizedTokens(*pair).dequantize() for pair in pairs]
        output = kv_cache_attention(query[:, i : i + 1], *held)
    whole = [quantize(x, **options) for x in (key, value)]
    for ours, at_once in zip(held, whole, strict=True):
        assert torch.equal(ours, at_once.dequantize())
    assert values.nbytes + steps.nbytes == sum(x.nbytes for x in whole)
    expected = attnref.scaled_dot_product_attention(query[:, -1:], *(x.dequantize() for x in whole))
    torch.testing.assert_close(output, expected)


# The rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
def test_rows_without_keys_give_zeros_and_finite_gradients(weights, device, randn):
    inputs = [x.requires_grad_() for x in (randn(2, 7, 6), randn(2, 11, 6), randn(2, 11, 4))]
    mask = torch.ones(7, 11, dtype=torch.bool, device=device)
    mask[3] = False
    options = {"dtype": E4M3, "values": True, "weights": weights}
    output = quantized_attention(*inputs, mask, **options)
    assert (output[:, 3] == 0).all()
    assert all(x.isfinite().all() for x in torch.autograd.grad(output.square().sum(), inputs))
    query, key, value = (x.detach() for x in inputs)
    none = quantized_attention(query, key[:, :0], value[:, :0], **options)
    assert torch.equal(none, torch.zeros_like(none))
    assert quantized_attention(query[:, :0], key, value, **options).shape == (2, 0, 4)
    assert quantized_attention(query, key, value[..., :0], **options).shape == (2, 7, 0)


@pytest.mark.parametrize("weights", [False, True])
def test_heads_share_keys(weights, randn):
    query, key, value = randn(2, 6, 7, 8), randn(2, 2, 11, 8), randn(2, 2, 11, 5)
    options = {"dtype": E2M1, "group_size": 4, "values": True, "weights": weights}
    whole = [x.repeat_interleave(3, -3) for x in (key, value)]
    shared = quantized_attention(query, key, value, enable_gqa=True, **options)
    expected = quantized_attention(query, *whole, **options)
    torch.testing.assert_close(shared, expected, rtol=1e-12, atol=1e-13)


@every("dtype", [torch.float16, torch.bfloat16])
@every("weights", [False, True])
def test_half_precision_is_computed_in_float32(weights, dtype, randn):
    inputs = [randn(3, 13, 64, dtype=dtype) for _ in range(3)]
    options = {"dtype": E4M3, "values": True, "weights": weights}
    ours = quantized_attention(*inputs, **options)
    wide = quantized_attention(*(x.float() for x in inputs), **options)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, wide.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-6)


@every(
    ("options", "kind", "text"),
    [
        ({"dtype": torch.float16}, TypeError, r"^dtype: expected one of torch\.int8, .* got torch"),
        ({"step_dtype": E5M2}, TypeError, r"^step_dtype: expected None, torch\.float8_e8m0fnu or"),
        ({"block_size": 0}, ValueError, r"^block_size: expected .* got 0"),
        ({"group_size": 0}, ValueError, r"^group_size: expected .* got 0"),
        ({"dtype": E2M1}, ValueError, r"^tokens: expected an even number of components .* got 5"),
        (
            {"tokens": torch.ones(6), "block_size": 2},
            ValueError,
            r"^tokens: .* d\) for blocks of 2",
        ),
    ],
)
def test_formats_and_sizes_that_are_not_there_are_named(options, kind, text):
    with pytest.raises(kind, match=text):
        quantize(**{"tokens": torch.ones(3, 5)} | options)
    if kind is TypeError:
        with pytest.raises(kind, match=text):
            quantized_attention(*[torch.ones(3, 5)] * 3, **options)


@every("name", ["smooth", "values", "weights"])
@every("wrong", [E4M3, 1, torch.ones(2)])
def test_a_switch_is_true_or_false(name, wrong):
    """The name of a format would be taken for True, and int8 for the format."""
    text = rf"^{name}: expected True or False, got {type(wrong).__name__}\. What "
    with pytest.raises(TypeError, match=text):
        quantized_attention(*[torch.ones(3, 5)] * 3, **{name: wrong})
