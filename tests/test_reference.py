"""What the docstring of the definition promises, each promise beside the listing that breaks it."""

import inspect
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnref import attend, attention_weights, masks, oracle, scaled_dot_product_attention
from attnref.bench.memory import peak_bytes
from tests.variants.every import every

INF, NAN = math.inf, math.nan
HALF = [torch.float16, torch.bfloat16]
# Two right float64 programs differ by some 1e-15 here, a wrong one by thousandths.
close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-13)


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
    expected = oracle.attend(*arrays, **options)
    for found, right in zip((output, weights, lse), expected, strict=True):
        close(found.cpu(), torch.from_numpy(right))
    close(attention_weights(query, key, mask, **options), weights)


@pytest.mark.claim("same-as-the-oracle")
@every("lead", [(), (3,), (2, 3), (2, 1, 3)])
@every(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -1}, {"scale": 0}, {"softcap": 1.5}],
)
def test_the_formula(lead, options, randn):
    against_oracle(randn(*lead, 5, 2), randn(*lead, 7, 2), randn(*lead, 7, 11), **options)


MASK_SHAPES = [(), (7,), (5, 1), (5, 7), (1, 7), (3, 1, 1), (3, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7)]


@pytest.mark.claim("same-as-the-oracle")
@every("kind", ["bool", "float"])
@every("shape", MASK_SHAPES)
@every("is_causal", [False, True])
def test_masks_of_every_shape(shape, kind, is_causal, randn):
    mask = randn(shape) > -0.5
    if kind == "float":
        mask = randn(shape).masked_fill(~mask, -INF)
    tensors = randn(2, 3, 5, 2), randn(2, 3, 7, 2), randn(2, 3, 7, 11)
    against_oracle(*tensors, mask, is_causal=is_causal)


def test_leading_dimensions_broadcast(randn):
    against_oracle(randn(2, 1, 5, 3), randn(7, 11, 3), randn(7, 11, 2))


@pytest.mark.claim("neighbouring-heads-share-keys")
def test_consecutive_query_heads_share_a_key_head(randn):
    """Heads 0 and 1 share key head 0: repeated side by side, not one set after the other."""
    query, key, value = randn(2, 6, 5, 2), randn(2, 3, 7, 2), randn(2, 3, 7, 11)
    mask = randn(6, 5, 7)
    found = scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    side_by_side = [x.repeat_interleave(2, dim=1) for x in (key, value)]
    in_turn = [x.repeat(1, 2, 1, 1) for x in (key, value)]
    close(found, scaled_dot_product_attention(query, *side_by_side, mask))
    wrong = scaled_dot_product_attention(query, *in_turn, mask)
    assert (found - wrong).abs().max() > 0.1


@every(("n", "m"), [(0, 3), (3, 0), (0, 0)])
def test_no_tokens_under_a_mask_and_dropout(n, m, device):
    """No key: zeros, as for a row that may attend to nothing. No query: nothing."""
    query, key = (torch.ones(2, x, 3, device=device, requires_grad=True) for x in (n, m))
    for mask in (torch.zeros(n, m, device=device), torch.ones(n, m, device=device).bool()):
        output, weights, lse = attend(query, key, key, mask, 0.5, True)
        assert [x.shape for x in (output, weights, lse)] == [(2, n, 3), (2, n, m), (2, n)]
        assert (lse == -INF).all()
        assert not any(gradient.any() for gradient in gradients(output, query, key))


def test_values_may_have_no_width(randn):
    assert scaled_dot_product_attention(randn(5, 3), randn(7, 3), randn(7, 0)).shape == (5, 0)


def test_what_is_returned(randn):
    query, key, value = randn(5, 2), randn(7, 2), randn(7, 3)
    found = attend(query, key, value)
    assert torch.equal(scaled_dot_product_attention(query, key, value), found.output)
    close(found.weights.sum(-1), torch.ones_like(found.lse))
    close(found.weights @ value, found.output)


def test_the_signature_is_that_of_pytorch_and_keywords():
    kind = inspect.Parameter
    parameters = inspect.signature(scaled_dot_product_attention).parameters
    torchs = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(parameters) == [*torchs, "softcap", "sink"]
    assert [p.kind for p in parameters.values()] == [kind.POSITIONAL_OR_KEYWORD] * 8 + [
        kind.KEYWORD_ONLY
    ] * 2
    assert inspect.signature(attend).parameters == parameters


# A query that may attend to no key --------------------------------------------------------------


@every("kind", ["bool", "float", "bool and causal"])
@every("dtype", [torch.float64, torch.float32, *HALF])
def test_a_row_without_keys_gives_zeros_and_finite_gradients(kind, dtype, device, randn):
    query, key, value = (randn(2, n, d).to(dtype) for n, d in [(5, 2), (7, 2), (7, 3)])
    mask = bottomless((5, 7), device)
    if kind == "bool and causal":  # what row 1 may see by one, it may not by the other
        mask[1, 2:] = True
    mask = additive(mask, dtype) if kind == "float" else mask
    inputs = [query, key, value, *([mask] if kind == "float" else [])]
    inputs = [x.requires_grad_() for x in inputs]
    output, weights, lse = attend(*(query, key, value, mask), is_causal="causal" in kind)
    assert not output[:, 1].any()
    assert not weights[:, 1].any()
    assert (lse[:, 1] == -INF).all()
    results = [output, weights, lse]
    upstream = [randn(x.shape).to(x.dtype) for x in results]  # to the empty row as well
    found = torch.autograd.grad(results, inputs, upstream)
    for gradient in found:
        assert gradient.isfinite().all()
        assert gradient.any()
    assert not found[0][:, 1].any()


@pytest.mark.claim("minus-billion-averages-the-forbidden")
def test_minus_a_billion_averages_what_it_forbids(randn, device):
    """The listing gives a forbidden row the mean of the values: a leak without a sign of it."""
    query, key, value = randn(5, 2), randn(5, 2), randn(5, 3)
    mask = bottomless((5, 5), device)
    output, weights = listing(query, key, value, mask)
    close(weights[1], torch.full_like(weights[1], 0.2))
    close(output[1], value.mean(0))
    assert not scaled_dot_product_attention(query, key, value, mask)[1].any()


@pytest.mark.claim("minus-infinity-spreads-nan")
def test_minus_infinity_alone_spreads_nan(randn, device):
    """With -inf the listing's forbidden row is NaN; one layer on all rows are; so is dV."""
    query, key, value = (randn(5, 3).requires_grad_() for _ in range(3))
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
def test_what_a_row_may_not_see_stays_out_of_it(kind, place, bad, softcap, device, randn):
    """One entry of token 4 is NaN or inf, and rows 0 … 3 may not see it.

    They must come out as if it were 0: their outputs, and the gradients of a loss of theirs.
    """
    tensors = [randn(2, 5, 3), randn(2, 5, 3), randn(2, 5, 2)]
    options: dict = {"softcap": softcap}
    if kind == "causal":
        options["is_causal"] = True  # row 4 sees token 4
    else:
        mask = randn(5, 5) > -0.5
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
def test_what_a_row_may_see_reaches_it(place, bad, randn):
    """Each row gets what the sum over its allowed keys gives in IEEE arithmetic."""
    tensors = [randn(3, 5, 2), randn(3, 7, 2), randn(3, 7, 11)]
    tensors[PLACES[place]][1, 3, 0] = bad
    mask = randn(5, 7) > 0
    mask[0, 3] = mask[3, 0] = True
    mask[1, 3] = False
    output, weights, _ = attend(*tensors, mask)
    with np.errstate(invalid="ignore"):  # inf - inf, where it is seen
        expected = oracle.attend(*(x.cpu().numpy() for x in tensors), mask.cpu().numpy())
    assert not np.isfinite(expected.output).all()
    for found, right in ((output, expected.output), (weights, expected.weights)):
        torch.testing.assert_close(
            found.cpu(), torch.from_numpy(right), rtol=0.0, atol=1e-13, equal_nan=True
        )
    # It is a constant there: all other gradients stay numbers, whatever arrives at it.
    inputs = [x.requires_grad_() for x in tensors]
    for gradient in gradients(scaled_dot_product_attention(*inputs, mask), *inputs):
        assert gradient.isfinite().all()


def test_infinities_of_both_signs_cancel_to_nan(randn):
    query, key, value = randn(5, 2), randn(7, 2), randn(7, 3)
    value[0, 0], value[1, 0], value[1, 1] = INF, -INF, -INF
    output = scaled_dot_product_attention(query, key, value)
    assert output[:, 0].isnan().all()
    assert (output[:, 1] == -INF).all()
    assert output[:, 2].isfinite().all()


def test_a_float_mask_with_nan_or_inf_spoils_its_own_row(randn):
    tensors = [x.requires_grad_() for x in (randn(5, 2), randn(7, 2), randn(7, 3))]
    mask = randn(5, 7)
    clean = scaled_dot_product_attention(*tensors, mask)
    mask[0, 3], mask[2, 4] = NAN, INF
    output = scaled_dot_product_attention(*tensors, mask.requires_grad_())
    assert output[[0, 2]].isnan().all()
    assert torch.equal(output[[1, 3, 4]], clean[[1, 3, 4]])
    for gradient in gradients(output[1], *tensors, mask):
        assert gradient.isfinite().all()


@pytest.mark.claim("zero-times-infinity")
def test_a_zero_weight_times_infinity_is_nan(device, randn):
    """The listing lets an inf or NaN value through the mask; NaN in a key it stops, inf too."""
    query, key, value = randn(5, 2), randn(7, 2), randn(7, 3)
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


@pytest.mark.parametrize(
    ("dtype", "wide", "entry"),
    [(torch.float16, torch.float32, 30.0), (torch.bfloat16, torch.float64, 1e20)],
    ids=str,
)
def test_scores_may_pass_the_range_of_their_dtype(dtype, wide, entry, device):
    """128 products of 30 · 30 pass float16's 65 504, those of 1e20 · 1e20 float32's 3.4e38."""
    query = torch.full((2, 128), entry, device=device, dtype=dtype).requires_grad_()
    value = torch.tensor([[1.0], [3.0]], device=device, dtype=dtype)
    assert (query @ query.mT == INF).all()
    output, weights, lse = attend(query, query, value)
    assert output.tolist() == [[2.0], [2.0]]
    assert gradients(output, query)[0].isfinite().all()
    score = query[0, 0].item() ** 2 * math.sqrt(128)
    assert lse.tolist() == pytest.approx([score + math.log(2)] * 2, rel=1e-6)
    dtypes = [x.dtype for x in (output, weights, attention_weights(query, query), lse)]
    assert dtypes == [dtype, dtype, dtype, wide]


@pytest.mark.claim("minus-billion-in-half-precision")
def test_minus_a_billion_does_not_fit_float16(device, randn):
    """The listing's fill value raises in float16, added it is -inf; bfloat16 rounds it."""
    tensors = [randn(n, 3) for n in (5, 7, 7)]
    mask = bottomless((5, 7), device)
    with pytest.raises(RuntimeError, match="without overflow"):
        listing(*(x.half() for x in tensors), mask)
    scores = randn(5, 7).half()
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
def test_a_float_mask_is_not_turned_inside_out(device, randn):
    """``mask == 0`` reads 0, "keep" in a float mask, as "drop": row 0 sees only its future."""
    tensors = randn(5, 2), randn(5, 2), randn(5, 3)
    past = masks.causal(5).dense(device)
    _, weights = listing(*tensors, additive(past))
    assert weights[0, 0] == 0
    close(weights[0, 1:].sum(), torch.ones_like(weights[0, 0]))
    _, ours, _ = attend(*tensors, additive(past))
    assert torch.equal(ours, attention_weights(*tensors[:2], past))
    assert ours[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


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


@pytest.mark.claim("fused-kernel-holds-no-weights")
def test_whoever_returns_the_weights_holds_them(device):
    """The definition, like the listing, allocates h n m entries; a fused kernel does not."""
    tensors = [torch.zeros(1, 2, 512, 64, device=device) for _ in range(3)]
    for run in (
        listing,
        scaled_dot_product_attention,
        torch.nn.functional.scaled_dot_product_attention,
    ):
        held = peak_bytes(partial(run, *tensors), device)
        assert (held >= 2 * 512 * 512 * 4) == (run in (listing, scaled_dot_product_attention))


def test_the_cost_in_the_docstring(randn):
    """2 n m (2 d_k + 4 d_v) operations in products."""
    n, m, d_k, d_v = 5, 7, 3, 11
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(randn(n, d_k), randn(m, d_k), randn(m, d_v))
    assert counter.get_total_flops() == 2 * n * m * (2 * d_k + 4 * d_v)


# Dropout ----------------------------------------------------------------------------------------


@pytest.mark.claim("dropout-drops-its-share")
def test_dropout_drops_its_share_and_rescales_the_rest(device, randn):
    """Share, factor and expectation; the seed is set because the global generator is used.

    Over N weights the share has the s.d. sqrt(p (1 - p) / N): five of them are exceeded once in
    two million runs. Of 50 draws the mean error is zero within five of its own s.d.
    """
    torch.manual_seed(0)
    query, key, value = randn(53, 59, 2), randn(53, 61, 2), randn(53, 61, 3)
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


def test_dropout_leaves_masked_rows_and_gradients_sound(device, randn):
    torch.manual_seed(0)
    tensors = [x.requires_grad_() for x in (randn(5, 2), randn(7, 2), randn(7, 3))]
    output = scaled_dot_product_attention(*tensors, bottomless((5, 7), device), dropout_p=0.9)
    assert not output[1].any()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *tensors))


# Nothing but the arguments matters --------------------------------------------------------------


@pytest.mark.claim("batch-is-a-loop")
def test_neighbours_in_the_batch_do_not_matter(randn):
    """Not their numbers, not their NaN, and not their gradients."""
    tensors = [randn(3, 5, 2), randn(3, 7, 2), randn(3, 7, 11)]
    mask = randn(3, 5, 7)
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


# Errors -----------------------------------------------------------------------------------------

LONG, BYTES = torch.ones(7, 3, dtype=torch.int64), torch.ones(7, 2).to(torch.float8_e4m3fn)
ELSEWHERE = torch.ones(7, 3, device="meta")


@every(
    ("kind", "changed", "text"),
    [
        (TypeError, {"query": [[1.0]]}, r"query: expected .* got list.* torch\.as_tensor\(query"),
        (TypeError, {"key": np.ones(7)}, r"key: expected .* got ndarray.* torch\.as_tensor\(key"),
        (TypeError, {"value": LONG}, r"value: expected .* 16 bits .*\.int64.* value\.float\(\)"),
        (TypeError, {"key": BYTES}, r"key: expected .* 16 bits .*float8_e4m3fn.* key\.float\(\)"),
        (TypeError, {"key": LONG.double()}, r"key: expected torch\.float32.* query, .*\.float64"),
        (ValueError, {"value": ELSEWHERE}, r"value: .* cpu, .* meta.* value\.to\(query\.device"),
        (TypeError, {"attn_mask": [[True]]}, r"attn_mask: .* list.* torch\.as_tensor\(attn_mask"),
        (TypeError, {"attn_mask": LONG}, r"attn_mask: .* bool .*\.int64.* attn_mask\.bool\(\)"),
        (ValueError, {"attn_mask": ELSEWHERE}, r"attn_mask: .* cpu, .* meta.* attn_mask\.to\("),
        # Shapes and numbers are checked by attnref.checks, and the rest of their texts with it.
        (ValueError, {"attn_mask": LONG > 0}, r"attn_mask: .* \(5, 7\), .* got \(7, 3\)"),
        (ValueError, {"key": torch.ones(7, 3)}, "key: expected last dimension 2, as query has"),
        (ValueError, {"value": torch.ones(5, 3)}, r"value: expected shape \(7, 'd_v'\)"),
        (ValueError, {"enable_gqa": True}, "query: expected at least 3 dimensions"),
        (ValueError, {"scale": NAN}, "scale: expected a finite number, got nan"),
        (ValueError, {"softcap": 0.0}, r"softcap: expected a positive finite number, got 0\.0"),
        (
            ValueError,
            {"dropout_p": 1.0},
            r"dropout_p: expected a probability in \[0, 1\), got "
            r"1\.0",
        ),
    ],
)
def test_errors_say_what_came_and_how_to_mend_it(kind, changed, text):
    arguments = {"query": torch.ones(5, 2), "key": torch.ones(7, 2), "value": torch.ones(7, 3)}
    with pytest.raises(kind, match=f"^{text}"):
        scaled_dot_product_attention(**(arguments | changed))
    if not {"value", "dropout_p"} & set(changed):
        del arguments["value"]
        with pytest.raises(kind, match=f"^{text}"):
            attention_weights(**(arguments | changed))
