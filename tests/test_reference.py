"""What the docstring of the definition promises, each promise beside the listing that breaks it."""

import inspect
import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from every import every
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attnref import attend, attention_weights, masks, oracle, scaled_dot_product_attention
from attnref.bench.memory import peak_bytes

INF, NAN = math.inf, math.nan
HALF = [torch.float16, torch.bfloat16]
# Two right float64 programs differ by some 1e-15 here, a wrong one by thousandths.
close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-13)


@pytest.fixture
def normal(device, generator):
    return partial(torch.randn, device=device, generator=generator, dtype=torch.float64)


@pytest.fixture
def words(device) -> Tensor:
    """Six words in three dimensions, the example of the textbook: Your journey starts with …"""
    return torch.tensor(
        [
            [0.43, 0.15, 0.89],
            [0.55, 0.87, 0.66],
            [0.57, 0.85, 0.64],
            [0.22, 0.58, 0.33],
            [0.77, 0.25, 0.10],
            [0.05, 0.80, 0.55],
        ],
        device=device,
    )


def listing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, fill=-1e9):
    """The usual listing: a root of a tensor, a mask of zeros and ones, a large negative number."""
    scores = query @ key.transpose(-2, -1) / torch.sqrt(torch.tensor(query.size(-1)).float())
    if mask is not None:
        scores = scores.masked_fill(mask == 0, fill)
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output.square().sum(), inputs)


def bottomless(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """A bool mask whose row 1 allows nothing."""
    mask = torch.ones(shape, dtype=torch.bool, device=device)
    mask[..., 1, :] = False
    return mask


def additive(mask: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -INF)


# Values ---------------------------------------------------------------------------------------


def against_oracle(query: Tensor, key: Tensor, value: Tensor, mask=None, **options) -> None:
    output, weights, lse = attend(query, key, value, mask, **options)
    arrays = [x.cpu().numpy() for x in (query, key, value)]
    arrays.append(None if mask is None else mask.cpu().numpy())
    expected = oracle.scaled_dot_product_attention(*arrays, **options)
    close(output.cpu(), torch.from_numpy(expected[0]))
    close(weights.cpu(), torch.from_numpy(expected[1]))
    close(
        lse.cpu(), torch.from_numpy(oracle.log_sum_exp(arrays[0], arrays[1], arrays[3], **options))
    )
    close(attention_weights(query, key, mask, **options), weights)


@pytest.mark.claim("same-as-the-oracle")
@every("lead", [(), (3,), (2, 3), (2, 1, 3)])
@every(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -1}, {"scale": 0}, {"softcap": 1.5}],
)
def test_the_formula(lead, options, normal):
    against_oracle(normal(*lead, 5, 2), normal(*lead, 7, 2), normal(*lead, 7, 11), **options)


MASK_SHAPES = [(), (7,), (5, 1), (5, 7), (1, 7), (3, 1, 1), (3, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7)]


@pytest.mark.claim("same-as-the-oracle")
@every("kind", ["bool", "float"])
@every("shape", MASK_SHAPES)
@every("is_causal", [False, True])
def test_masks_of_every_shape(shape, kind, is_causal, normal):
    """One that broadcasts is worth one of full size, and with ``is_causal`` both hold."""
    tensors = normal(2, 3, 5, 2), normal(2, 3, 7, 2), normal(2, 3, 7, 11)
    mask = normal(shape) > -0.5
    if kind == "float":
        mask = normal(shape).masked_fill(~mask, -INF)
    against_oracle(*tensors, mask, is_causal=is_causal)
    full = mask.expand(2, 3, 5, 7)
    past = torch.ones(5, 7, dtype=torch.bool, device=mask.device).tril()
    if is_causal:
        full = full & past if kind == "bool" else full.masked_fill(~past, -INF)
    output = scaled_dot_product_attention(*tensors, mask, is_causal=is_causal)
    close(output, scaled_dot_product_attention(*tensors, full))


def test_leading_dimensions_broadcast(normal):
    against_oracle(normal(2, 1, 5, 3), normal(7, 11, 3), normal(7, 11, 2))


@pytest.mark.parametrize(("n", "m"), [(3, 7), (7, 3)])
def test_causal_is_aligned_top_left(n, m, normal):
    tensors = normal(n, 2), normal(m, 2), normal(m, 5)
    mask = masks.causal(n, m, alignment="top-left").dense(tensors[0].device)
    found = scaled_dot_product_attention(*tensors, is_causal=True)
    assert torch.equal(found, scaled_dot_product_attention(*tensors, mask))
    assert torch.equal(found[0], tensors[2][0])


@pytest.mark.claim("neighbouring-heads-share-keys")
def test_consecutive_query_heads_share_a_key_head(normal):
    """Heads 0 and 1 share key head 0: repeated side by side, not one set after the other."""
    query, key, value = normal(2, 6, 5, 2), normal(2, 3, 7, 2), normal(2, 3, 7, 11)
    mask = normal(6, 5, 7)
    found = scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    side_by_side = [x.repeat_interleave(2, dim=1) for x in (key, value)]
    in_turn = [x.repeat(1, 2, 1, 1) for x in (key, value)]
    close(found, scaled_dot_product_attention(query, *side_by_side, mask))
    wrong = scaled_dot_product_attention(query, *in_turn, mask)
    assert (found - wrong).abs().max() > 0.1
    against_oracle(query, key, value, mask, enable_gqa=True, softcap=2.0)


@every(("b", "n", "m"), [(2, 0, 3), (2, 3, 0), (0, 3, 5), (2, 0, 0)])
@every(
    "options",
    [{}, {"is_causal": True}, {"attn_mask": "bool"}, {"attn_mask": "float"}, {"dropout_p": 0.5}],
)
def test_empty_sequences(b, n, m, options, device):
    """No key: zeros, as for a row that may attend to nothing. No query: nothing."""
    query = torch.ones(b, 4, n, 2, device=device, requires_grad=True)
    key = torch.ones(b, 2, m, 2, device=device, requires_grad=True)
    value = torch.ones(b, 2, m, 3, device=device, requires_grad=True)
    options = dict(options)
    if "attn_mask" in options:
        mask = torch.ones(b, 1, n, m, dtype=torch.bool, device=device)
        options["attn_mask"] = mask if options["attn_mask"] == "bool" else mask.float()
    output, weights, lse = attend(query, key, value, **options, enable_gqa=True)
    assert output.shape == (b, 4, n, 3)
    assert weights.shape == (b, 4, n, m)
    assert lse.shape == (b, 4, n)
    assert m or not output.any()
    assert m or (lse == -INF).all()
    for gradient in gradients(output, query, key, value):
        assert not gradient.any()


def test_values_may_have_no_width(normal):
    assert scaled_dot_product_attention(normal(5, 3), normal(7, 3), normal(7, 0)).shape == (5, 0)


def test_what_is_returned(normal):
    """The output alone, or by name with all that it went through."""
    tensors = normal(5, 2), normal(7, 2), normal(7, 3)
    found = attend(*tensors)
    assert torch.equal(scaled_dot_product_attention(*tensors), found.output)
    close(found.weights.sum(-1), torch.ones_like(found.lse))
    close(found.weights @ tensors[2], found.output)


def test_options_behind_the_signature_of_pytorch_are_keywords():
    kinds = inspect.Parameter
    parameters = inspect.signature(scaled_dot_product_attention).parameters
    assert list(parameters)[:8] == [
        *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    ]
    assert inspect.signature(attend).parameters == parameters
    for function in (scaled_dot_product_attention, attention_weights):
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    keywords = [name for name, p in parameters.items() if p.kind == kinds.KEYWORD_ONLY]
    assert keywords == ["softcap", "sink"]


def test_softcap_acts_before_the_mask(normal):
    """Behind the mask it would lift -inf to -softcap, and the forbidden key would get weight."""
    query, key = normal(5, 2), normal(7, 2)
    mask = masks.causal(5, 7, alignment="top-left").dense(query.device)
    softcap = 2.0
    weights = attention_weights(query, key, mask, softcap=softcap)
    assert not weights[~mask].any()
    scores = (query @ key.mT / math.sqrt(2)).masked_fill(~mask, -INF)
    leaky = torch.softmax(softcap * torch.tanh(scores / softcap), dim=-1)
    assert leaky[0, 6] > 0.01
    # Scores within ±softcap: two weights of a row differ by a factor of e^(2 softcap) at most.
    steep = attention_weights(query * 1e3, key, softcap=softcap)
    assert (steep.amax(-1) / steep.amin(-1)).max() <= math.exp(2 * softcap) * (1 + 1e-12)


def test_a_wide_softcap_changes_nothing(normal):
    """softcap·tanh(s/softcap) = s - s³/(3 softcap²): with 1e6 and |s| < 10 less than 1e-9."""
    tensors = normal(5, 2), normal(7, 2), normal(7, 3)
    plain = scaled_dot_product_attention(*tensors)
    found = scaled_dot_product_attention(*tensors, softcap=1e6)
    torch.testing.assert_close(found, plain, rtol=0.0, atol=1e-8)


def test_log_sum_exp_merges_partial_results(normal):
    """Attention over two parts of the keys, each weighted by its share e^(lse_k - lse)."""
    query, key, value = normal(3, 5, 2), normal(3, 7, 2), normal(3, 7, 11)
    mask = normal(3, 5, 7)
    mask[:, 1, :4] = -INF  # this query finds nothing in the first part
    mask[:, 2] = -INF  # and this one nothing at all
    whole, _, lse = attend(query, key, value, mask)
    parts = [
        attend(query, key[:, part], value[:, part], mask[..., part])[::2]
        for part in (slice(0, 4), slice(4, 7))
    ]
    together = torch.logaddexp(parts[0][1], parts[1][1])
    close(together, lse)
    shares = [(part_lse - lse).exp().nan_to_num(0.0)[..., None] for _, part_lse in parts]
    close(shares[0] * parts[0][0] + shares[1] * parts[1][0], whole)
    assert (lse[:, 2] == -INF).all()


# A query that may attend to no key --------------------------------------------------------------


@every("kind", ["bool", "float", "bool and causal"])
@every("dtype", [torch.float64, torch.float32, *HALF])
def test_a_row_without_keys_gives_zeros_and_finite_gradients(kind, dtype, device, normal):
    query, key, value = (normal(2, n, d).to(dtype) for n, d in [(5, 2), (7, 2), (7, 3)])
    mask = bottomless((5, 7), device)
    if kind == "bool and causal":  # what row 1 may see by one, it may not by the other
        mask[1, 2:] = True
    mask = additive(mask, dtype) if kind == "float" else mask
    inputs = [query, key, value, *([mask] if kind == "float" else [])]
    inputs = [x.requires_grad_() for x in inputs]
    output, weights, lse = attend(
        *(query, key, value, mask),
        is_causal="causal" in kind,
    )
    assert not output[:, 1].any()
    assert not weights[:, 1].any()
    assert (lse[:, 1] == -INF).all()
    results = [output, weights, lse]
    upstream = [normal(x.shape).to(x.dtype) for x in results]  # to the empty row as well
    found = torch.autograd.grad(results, inputs, upstream)
    for gradient in found:
        assert gradient.isfinite().all()
        assert gradient.any()
    assert not found[0][:, 1].any()


@pytest.mark.claim("minus-billion-averages-the-forbidden")
def test_minus_a_billion_averages_what_it_forbids(normal, device):
    """The listing gives a forbidden row the mean of the values: a leak without a sign of it."""
    query, key, value = normal(5, 2), normal(5, 2), normal(5, 3)
    mask = bottomless((5, 5), device)
    output, weights = listing(query, key, value, mask)
    close(weights[1], torch.full_like(weights[1], 0.2))
    close(output[1], value.mean(0))
    assert not scaled_dot_product_attention(query, key, value, mask)[1].any()


@pytest.mark.claim("minus-infinity-spreads-nan")
def test_minus_infinity_alone_spreads_nan(normal, device):
    """With -inf the listing's forbidden row is NaN; one layer on all rows are; so is dV."""
    query, key, value = (normal(5, 3).requires_grad_() for _ in range(3))
    mask = bottomless((5, 5), device)
    output, _ = listing(query, key, value, mask, fill=-INF)
    assert output[1].isnan().all()
    assert output[[0, 2, 3, 4]].isfinite().all()
    assert listing(output, output, output)[0].isnan().all()
    spoilt = gradients(output[0], query, key, value)
    assert [gradient.isnan().any().item() for gradient in spoilt] == [False, False, True]

    ours = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(ours[[0, 2, 3, 4]], output[[0, 2, 3, 4]])
    twice = scaled_dot_product_attention(ours, ours, ours, mask)
    assert twice.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(twice, query, key, value))


@pytest.mark.claim("finite-penalty-forbids-nothing")
def test_a_finite_penalty_forbids_nothing_when_all_pay_it(device):
    """Adding -10000 to a whole row leaves its softmax as it was; -1e9 in float32 flattens it.

    Next to 1e9 the neighbours of a float32 number are 64 away.
    """
    scores = torch.tensor([3.0, -2.0, 1.0, 0.0], device=device)
    query, key = torch.ones(1, 1, device=device), scores[:, None]
    plain = torch.tensor([0.8390, 0.0057, 0.1135, 0.0418], device=device)
    rounded = partial(torch.testing.assert_close, rtol=0.0, atol=5e-5)  # four printed digits
    rounded(torch.softmax(scores, -1), plain)
    rounded(torch.softmax(scores - 10_000, -1), plain)
    assert torch.softmax(scores - 1e9, -1).tolist() == [0.25] * 4
    rounded(attention_weights(query, key)[0], plain)
    forbidden = torch.full((1, 4), -INF, device=device)
    assert attention_weights(query, key, forbidden).tolist() == [[0.0] * 4]


# NaN and inf ------------------------------------------------------------------------------------

PLACES = {"query": 0, "key": 1, "value": 2}


@every("softcap", [None, 2.0])
@every("bad", [NAN, INF, -INF, torch.finfo(torch.float64).max])
@every("place", PLACES)
@every("kind", ["bool", "float", "causal"])
def test_what_a_row_may_not_see_stays_out_of_it(kind, place, bad, softcap, device, normal):
    """One entry of token 4 is NaN or inf, and rows 0 … 3 may not see it.

    They must come out as if it were 0: their outputs, and the gradients of a loss of theirs.
    """
    tensors = [normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 2)]
    options: dict = {"softcap": softcap}
    if kind == "causal":
        options["is_causal"] = True  # row 4 sees token 4
    else:
        mask = normal(5, 5) > -0.5
        mask[:, 4] = False
        mask[4] = place != "query"  # a query is forbidden by forbidding it all keys
        mask[:4, 0] = True
        options["attn_mask"] = mask if kind == "bool" else additive(mask)

    def others(entry: float) -> tuple[Tensor, ...]:
        filled = [x.clone() for x in tensors]
        filled[PLACES[place]][..., 4, 1] = entry
        filled = [x.requires_grad_() for x in filled]
        output, weights, lse = attend(*filled, **options)
        rows = output[:, :4]
        loss = rows.square().sum() + (weights[:, :4] ** 3).sum() + lse[:, :4].sum()
        return rows, weights[:, :4], lse[:, :4], *torch.autograd.grad(loss, filled)

    for with_bad, with_zero in zip(others(bad), others(0.0), strict=True):
        assert with_bad.isfinite().all()
        close(with_bad, with_zero)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_row_may_see_reaches_it(place, bad, normal):
    """Each row gets what the sum over its allowed keys gives in IEEE arithmetic."""
    tensors = [normal(3, 5, 2), normal(3, 7, 2), normal(3, 7, 11)]
    tensors[PLACES[place]][1, 3, 0] = bad
    mask = normal(5, 7) > 0
    mask[0, 3] = mask[3, 0] = True
    mask[1, 3] = False
    output, weights, _ = attend(*tensors, mask)
    with np.errstate(invalid="ignore"):  # inf - inf, where it is seen
        expected = oracle.scaled_dot_product_attention(
            *(x.cpu().numpy() for x in tensors), mask.cpu().numpy()
        )
    assert not np.isfinite(expected[0]).all()
    for found, right in zip((output, weights), expected, strict=True):
        torch.testing.assert_close(
            found.cpu(), torch.from_numpy(right), rtol=0.0, atol=1e-13, equal_nan=True
        )
    # It is a constant there: all other gradients stay numbers, whatever arrives at it.
    inputs = [x.requires_grad_() for x in tensors]
    for gradient in gradients(scaled_dot_product_attention(*inputs, mask), *inputs):
        assert gradient.isfinite().all()


def test_infinities_of_both_signs_cancel_to_nan(normal):
    query, key, value = normal(5, 2), normal(7, 2), normal(7, 3)
    value[0, 0], value[1, 0], value[1, 1] = INF, -INF, -INF
    output = scaled_dot_product_attention(query, key, value)
    assert output[:, 0].isnan().all()
    assert (output[:, 1] == -INF).all()
    assert output[:, 2].isfinite().all()


def test_a_float_mask_with_nan_or_inf_spoils_its_own_row(normal):
    tensors = [x.requires_grad_() for x in (normal(5, 2), normal(7, 2), normal(7, 3))]
    mask = normal(5, 7)
    clean = scaled_dot_product_attention(*tensors, mask)
    mask[0, 3], mask[2, 4] = NAN, INF
    output = scaled_dot_product_attention(*tensors, mask.requires_grad_())
    assert output[[0, 2]].isnan().all()
    assert torch.equal(output[[1, 3, 4]], clean[[1, 3, 4]])
    for gradient in gradients(output[1], *tensors, mask):
        assert gradient.isfinite().all()


@pytest.mark.claim("zero-times-infinity")
def test_a_zero_weight_times_infinity_is_nan(device, normal):
    """The listing lets an inf or NaN value through the mask; NaN in a key it stops, inf too."""
    query, key, value = normal(5, 2), normal(7, 2), normal(7, 3)
    mask = torch.ones(5, 7, dtype=torch.bool, device=device)
    mask[:, 6] = False
    plain = scaled_dot_product_attention(query, key[:6], value[:6])
    for bad in (NAN, INF):
        value[6] = bad
        for fill in (-1e9, -INF):
            assert listing(query, key, value, mask, fill)[0].isnan().all()
        key[6] = bad
        close(scaled_dot_product_attention(query, key, value, mask), plain)
        assert listing(query, key, value.nan_to_num(0.0), mask)[0].isfinite().all()


# Half precision ---------------------------------------------------------------------------------


def test_float16_scores_may_pass_its_range(device):
    """128 products of 30 · 30 add up to 115 200, and float16 ends at 65 504."""
    query = torch.full((2, 128), 30.0, device=device, dtype=torch.float16)
    value = torch.tensor([[1.0], [3.0]], device=device, dtype=torch.float16)
    assert (query @ query.mT == INF).all()
    output, _, lse = attend(query, query, value)
    assert output.tolist() == [[2.0], [2.0]]
    assert lse.tolist() == pytest.approx([115_200 / math.sqrt(128) + math.log(2)] * 2, rel=1e-6)


def test_bfloat16_scores_may_pass_the_range_of_float32(device):
    """Entries of 1e20 have products of 1e40, and float32 ends at 3.4e38."""
    query = torch.full((2, 3), 1e20, device=device, dtype=torch.bfloat16).requires_grad_()
    value = torch.tensor([[1.0], [3.0]], device=device, dtype=torch.bfloat16)
    assert (query.float() @ query.float().mT == INF).all()
    output = scaled_dot_product_attention(query, query, value)
    assert output.tolist() == [[2.0], [2.0]]
    assert gradients(output, query)[0].isfinite().all()


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_rounded_once(dtype, normal):
    """The output is the nearest number to the exact result, but for ties that are almost hit.

    What is computed in the wider type errs by far less than the distance eps of two neighbours:
    half of it, and a thousandth for the wider type's own rounding.
    """
    tensors = [normal(2, n, d).to(dtype) for n, d in [(5, 3), (7, 3), (7, 11)]]
    results = attend(*tensors)
    exact = attend(*(x.double() for x in tensors))
    assert [x.dtype for x in results[:2]] == [dtype, dtype]
    assert attention_weights(*tensors[:2]).dtype == dtype
    for found, right in zip(results[:2], exact[:2], strict=True):
        step = torch.finfo(dtype).eps * torch.exp2(right.abs().log2().floor())
        assert ((found.double() - right).abs() <= 0.501 * step).all()
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float64}[dtype]
    assert results[2].dtype == wide
    # Some roundings in float32, of numbers below 8.
    torch.testing.assert_close(results[2].double(), exact[2], rtol=0.0, atol=1e-5)


@pytest.mark.claim("minus-billion-in-half-precision")
def test_minus_a_billion_does_not_fit_float16(device, normal):
    """The listing's fill value raises in float16, added it is -inf; bfloat16 rounds it."""
    tensors = [normal(n, 3) for n in (5, 7, 7)]
    mask = bottomless((5, 7), device)
    with pytest.raises(RuntimeError, match="without overflow"):
        listing(*(x.half() for x in tensors), mask)
    scores = normal(5, 7).half()
    empty = scores + -1e9  # added, it is no error but minus infinity
    assert (empty == -INF).all()
    assert torch.softmax(empty, -1).isnan().all()
    assert torch.tensor(-1e9, dtype=torch.bfloat16).item() == -998_244_352
    for dtype in HALF:
        output = scaled_dot_product_attention(*(x.to(dtype) for x in tensors), mask)
        assert not output[1].any()
        assert output.isfinite().all()


# What the listing gets wrong with masks, scale and memory ---------------------------------------


@pytest.mark.claim("float-mask-inside-out")
def test_a_float_mask_is_not_turned_inside_out(device, normal):
    """``mask == 0`` reads 0, "keep" in a float mask, as "drop": row 0 sees only its future."""
    tensors = normal(5, 2), normal(5, 2), normal(5, 3)
    past = masks.causal(5).dense(device)
    _, weights = listing(*tensors, additive(past))
    assert weights[0, 0] == 0
    close(weights[0, 1:].sum(), torch.ones_like(weights[0, 0]))
    _, ours, _ = attend(*tensors, additive(past))
    assert torch.equal(ours, attention_weights(*tensors[:2], past))
    assert ours[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_mask_of_samples_is_not_one_of_queries(device, normal):
    """(b, m) with b = n masks queries, and (b, n, m) with b = h masks heads, without a word.

    Where the sizes tell, ours raises and says what to write; what it says is right for all sizes.
    """
    query, key, value = normal(5, 3, 5, 2), normal(5, 3, 7, 2), normal(5, 3, 7, 2)
    padding = masks.padding([7, 6, 5, 4, 3], 7)
    keys = padding.dense(device)[:, 0, 0]  # (b, m)
    _, leaking = listing(query, key, value, keys)  # b = n = 5
    assert leaking[4, :, :, 3:].sum(-1).max() > 0.2  # sample 4 has three keys
    right = attention_weights(query, key, keys[:, None, None, :])
    assert not right[4, :, :, 3:].any()
    with pytest.raises(ValueError, match=re.escape("attn_mask[:, None, None, :]")):
        attention_weights(query[..., :2, :], key, keys)

    square = [x[:3] for x in (query, key, value)]  # b = h = 3
    samples = normal(3, 5, 7) > 0
    samples[:, :, 0] = True
    _, swapped = listing(*square, samples)
    right = attention_weights(*square[:2], samples[:, None])
    assert not torch.equal(swapped, right)
    assert not right[1, 2][~samples[1]].any()
    assert swapped[1, 2][~samples[1]].any()
    with pytest.raises(ValueError, match=re.escape("write attn_mask[:, None].")):
        attention_weights(query, key, samples[[0, 0, 1, 1, 2]])


@pytest.mark.claim("zeros-take-their-share")
def test_padding_is_not_a_token(words):
    """Four zero vectors behind the six words, unmasked, take 17.6 % of the weight of "journey"."""
    padded = torch.cat([words, torch.zeros(4, 3, device=words.device)])
    unmasked, weights, _ = attend(padded, padded, padded, scale=1.0)
    assert weights[1, 6:].sum().item() == pytest.approx(0.176, abs=5e-4)
    rounded = [0.3642, 0.5369, 0.4684]
    assert unmasked[1].tolist() == pytest.approx(rounded, abs=5e-5)
    mask = masks.padding([6], 10).dense(words.device)[0, 0]
    ours = scaled_dot_product_attention(padded, padded, padded, mask, scale=1.0)
    assert ours[1].tolist() == pytest.approx([0.4419, 0.6515, 0.5683], abs=5e-5)
    alone = scaled_dot_product_attention(words, words, words, scale=1.0)
    torch.testing.assert_close(ours[:6], alone)


def test_without_softmax_it_is_another_function(words):
    """Scores times values, the normalisation forgotten, against weights times values."""
    scores = words @ words.mT
    assert (scores @ words)[1].tolist() == pytest.approx([2.8579, 4.2330, 3.7270], abs=5e-5)
    ours = scaled_dot_product_attention(words, words, words, scale=1.0)
    assert ours[1].tolist() == pytest.approx([0.4419, 0.6515, 0.5683], abs=5e-5)


def test_the_scale_is_not_rounded_to_float32(device, normal):
    """The listing's divisor is a float32 root: wrong by 4e-8 at d_k = 96, right at powers of 4.

    A float64 result should err by some 1e-16. On another default device the root is not even
    where the scores are.
    """
    for d_k, exact in [(96, False), (64, True)]:
        tensors = [normal(n, d_k) for n in (5, 7, 7)]
        arrays = [x.cpu().numpy() for x in tensors]
        expected = torch.from_numpy(oracle.scaled_dot_product_attention(*arrays)[0])
        error = (listing(*tensors)[0].cpu() - expected).abs().max().item()
        assert (error < 1e-13) == exact
        assert (error > 1e-9) == (not exact)
        close(scaled_dot_product_attention(*tensors).cpu(), expected)
    with torch.device("meta"):
        with pytest.raises((RuntimeError, NotImplementedError)):
            listing(*tensors)
        close(scaled_dot_product_attention(*tensors, is_causal=True)[0], tensors[2][0])


class Largest(TorchDispatchMode):
    """Counts the elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


@pytest.mark.claim("fused-kernel-holds-no-weights")
def test_whoever_returns_the_weights_holds_them(device):
    """The definition, like the listing, makes tensors of h n m entries; a fused kernel does not.

    Nor does it hold them inside, where no tensor is seen: the profiler counts what it allocates.
    """
    tensors = [torch.zeros(1, 2, 512, 64, device=device) for _ in range(3)]
    found = []
    for run in (
        listing,
        scaled_dot_product_attention,
        torch.nn.functional.scaled_dot_product_attention,
    ):
        held = peak_bytes(partial(run, *tensors), device)
        assert (held >= 2 * 512 * 512 * 4) == (run in (listing, scaled_dot_product_attention))
        with Largest() as largest:
            run(*tensors)
        found.append(largest.elements)
    assert found == [2 * 512 * 512, 2 * 512 * 512, 2 * 512 * 64]


def test_the_cost_in_the_docstring(normal):
    """2 n m (2 d_k + 4 d_v) operations in products."""
    n, m, d_k, d_v = 5, 7, 3, 11
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(normal(n, d_k), normal(m, d_k), normal(m, d_v))
    assert counter.get_total_flops() == 2 * n * m * (2 * d_k + 4 * d_v)


# Dropout ----------------------------------------------------------------------------------------


@pytest.mark.claim("dropout-drops-its-share")
def test_dropout_drops_its_share_and_rescales_the_rest(device, normal):
    """Share, factor and expectation; the seed is set because the global generator is used.

    Over N weights the share has the s.d. sqrt(p (1 - p) / N): five of them are exceeded once in
    two million runs. Of 50 draws the mean error is zero within five of its own s.d.
    """
    torch.manual_seed(0)
    query, key, value = normal(53, 59, 2), normal(53, 61, 2), normal(53, 61, 3)
    p = 0.3
    plain, before, _ = attend(query, key, value)
    output, weights, lse = attend(query, key, value, dropout_p=p)
    dropped = weights == 0
    bound = 5 * math.sqrt(p * (1 - p) / weights.numel())
    assert dropped.double().mean().item() == pytest.approx(p, abs=bound)
    close(weights[~dropped], before[~dropped] / (1 - p))
    close(output, weights @ value)  # the weights that multiplied the values
    close(lse, attend(query, key, value).lse)

    call = partial(scaled_dot_product_attention, query, key, value, dropout_p=p)
    means = torch.stack([(call() - plain).mean() for _ in range(50)])
    assert abs(means.mean()) < 5 * means.std() / math.sqrt(50)


def test_no_dropout_no_draw(device, normal):
    tensors = normal(5, 2), normal(7, 2), normal(7, 3)
    torch.manual_seed(0)
    first = scaled_dot_product_attention(*tensors, dropout_p=0.0)
    drawn = torch.rand(1, device=device)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1, device=device))
    assert torch.equal(first, scaled_dot_product_attention(*tensors))


def test_dropout_leaves_masked_rows_and_gradients_sound(device, normal):
    torch.manual_seed(0)
    tensors = [x.requires_grad_() for x in (normal(5, 2), normal(7, 2), normal(7, 3))]
    output = scaled_dot_product_attention(*tensors, bottomless((5, 7), device), dropout_p=0.9)
    assert not output[1].any()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *tensors))


# Nothing but the arguments matters --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_inputs_are_left_as_they_were(kind, device, normal):
    torch.manual_seed(0)
    tensors = [normal(2, 3, 5, 2), normal(2, 1, 7, 2), normal(2, 1, 7, 3)]
    mask = bottomless((5, 7), device)
    tensors.append(mask if kind == "bool" else additive(mask))
    tensors[1][..., 0, 0] = NAN
    copies = [x.clone() for x in tensors]
    attend(*tensors, 0.5, True, enable_gqa=True, softcap=2.0)
    for tensor, copy in zip(tensors, copies, strict=True):
        torch.testing.assert_close(tensor, copy, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.claim("batch-is-a-loop")
def test_neighbours_in_the_batch_do_not_matter(normal):
    """Not their numbers, not their NaN, and not their gradients."""
    tensors = [normal(3, 5, 2), normal(3, 7, 2), normal(3, 7, 11)]
    mask = normal(3, 5, 7)
    for x in (*tensors, mask):
        x[0] = NAN
        x[2] *= 1e3
    inputs = [x.requires_grad_() for x in (*tensors, mask)]
    output = scaled_dot_product_attention(*inputs)
    alone = [x[1].detach().requires_grad_() for x in inputs]
    q, k, v, bias = alone
    single = torch.softmax(q @ k.mT / math.sqrt(2) + bias, -1) @ v
    close(output[1], single)
    found = gradients(output[1], *inputs)
    for gradient, own in zip(found, gradients(single, *alone), strict=True):
        close(gradient[1], own)
        assert not gradient[[0, 2]].any()


LAYOUTS = {
    "columns first": lambda x: x.mT.contiguous().mT,
    "lengths first": lambda x: x.transpose(0, -2).contiguous().transpose(0, -2),
    "every second": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "one for all heads": lambda x: x[:, :1].expand(x.shape),
    "one row for all": lambda x: x[..., :1, :].expand(x.shape),
}


@every("layout", LAYOUTS)
def test_the_layout_in_memory_does_not_matter(layout, normal):
    arranged = [
        LAYOUTS[layout](x)
        for x in (normal(2, 3, n, d) for n, d in [(5, 7), (11, 7), (11, 13), (5, 11)])
    ]
    plain = [x.contiguous() for x in arranged]
    assert any(x.stride() != y.stride() for x, y in zip(arranged, plain, strict=True))
    results = []
    for tensors in (arranged, plain):
        inputs = [x.detach().requires_grad_() for x in tensors]
        output = scaled_dot_product_attention(*inputs)
        results.append([output, *gradients(output, *inputs)])
    for found, expected in zip(*results, strict=True):
        close(found, expected)


# Errors -----------------------------------------------------------------------------------------

WRONG = {
    "query is a list": (
        {"query": [[1.0]]},
        TypeError,
        "query: expected a torch.Tensor, got list. Convert it with torch.as_tensor(query).",
    ),
    "key is an array": (
        {"key": np.ones((7, 2))},
        TypeError,
        "key: expected a torch.Tensor, got ndarray. Convert it with torch.as_tensor(key).",
    ),
    "value counts": (
        {"value": torch.ones(7, 3, dtype=torch.int64)},
        TypeError,
        "value: expected a floating dtype of 16 bits or more, got torch.int64. Convert it with "
        "value.float().",
    ),
    "key has eight bits": (
        {"key": torch.ones(7, 2).to(torch.float8_e4m3fn)},
        TypeError,
        "key: expected a floating dtype of 16 bits or more, got torch.float8_e4m3fn. Convert it "
        "with key.float().",
    ),
    "dtypes differ": (
        {"key": torch.ones(7, 2, dtype=torch.float64)},
        TypeError,
        "key: expected torch.float32, the dtype of query, got torch.float64. Convert one of them, "
        "for example key.to(query.dtype).",
    ),
    "devices differ": (
        {"value": torch.ones(7, 3, device="meta")},
        ValueError,
        "value: expected device cpu, where query is, got meta. Move it with "
        "value.to(query.device).",
    ),
    "mask is a list": (
        {"attn_mask": [[True]]},
        TypeError,
        "attn_mask: expected a torch.Tensor or a mask of attnref.masks, got list. Convert it with "
        "torch.as_tensor(attn_mask).",
    ),
    "mask counts": (
        {"attn_mask": torch.ones(5, 7, dtype=torch.int64)},
        TypeError,
        "attn_mask: expected bool (True = may attend) or a floating dtype (added to the scores), "
        "got torch.int64. If 1 means may attend, pass attn_mask.bool().",
    ),
    "mask is elsewhere": (
        {"attn_mask": torch.ones(5, 7, dtype=torch.bool, device="meta")},
        ValueError,
        "attn_mask: expected device cpu, where query is, got meta. Move it with "
        "attn_mask.to(query.device).",
    ),
    # Shapes and numbers are checked by attnref.checks, and the rest of their texts with it.
    "mask does not fit": (
        {"attn_mask": torch.ones(7, 5, dtype=torch.bool)},
        ValueError,
        "attn_mask: expected a shape that broadcasts to the scores (5, 7), (..., queries, keys), "
        "got (7, 5).",
    ),
    "widths differ": (
        {"key": torch.ones(7, 3)},
        ValueError,
        "key: expected last dimension 2, as query has, got shape (7, 3) beside query (5, 2).",
    ),
    "a value is missing": (
        {"value": torch.ones(5, 3)},
        ValueError,
        "value: expected shape (7, 'd_v'), one row for each key, got (5, 3).",
    ),
    "no heads to share": (
        {"enable_gqa": True},
        ValueError,
        "query: expected at least 3 dimensions, (..., heads, length, d_k), got shape (5, 2).",
    ),
    "scale": ({"scale": NAN}, ValueError, "scale: expected a finite number, got nan."),
    "softcap": (
        {"softcap": 0.0},
        ValueError,
        "softcap: expected a positive finite number, got 0.0.",
    ),
    "dropout": (
        {"dropout_p": 1.0},
        ValueError,
        "dropout_p: expected a probability in [0, 1), got 1.0.",
    ),
}


@every("case", WRONG)
def test_errors_say_what_came_and_how_to_mend_it(case):
    changed, kind, text = WRONG[case]
    arguments = {"query": torch.ones(5, 2), "key": torch.ones(7, 2), "value": torch.ones(7, 3)}
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        scaled_dot_product_attention(**(arguments | changed))
    if not {"value", "dropout_p"} & set(changed):
        with pytest.raises(kind, match=f"^{re.escape(text)}"):
            attention_weights(**({"query": arguments["query"], "key": arguments["key"]} | changed))
