"""How strangers' functions are read: names, axes, meanings of masks, causality that stays."""

import math
import time

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused
from torch.utils.checkpoint import checkpoint

from attnref.conformance import Verdict, check
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.meanings import MEANINGS
from attnref.conformance.subject import CheckError
from attnref.text import LANGUAGES


def scores(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def heads_third(q, k, v, causal=False, softmax_scale=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return fused(q, k, v, is_causal=causal, scale=softmax_scale).transpose(1, 2), None


def heads_third_after(query, key, value, attn_mask=None):
    return fused(query, key, value, attn_mask).transpose(1, 2)


def heads_in_batch(query, key, value, attn_mask=None):
    batch, n, _ = query.shape
    weights = torch.softmax(scores(query, key).view(batch, n, -1) + _bias(attn_mask), -1)
    return torch.bmm(weights, value)


def _bias(mask):
    return 0.0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


def length_first(query, key, value):
    query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    batch, n, _ = query.shape
    return (torch.softmax(scores(query, key).view(batch, n, -1), -1) @ value).transpose(0, 1)


def matrices(q, k, v, attn_mask=None):
    _, d = q.shape
    return torch.softmax(q @ k.T / d**0.5 + _bias(attn_mask), -1) @ v


def annotated(query, key, value, mask=None, dropout=None):
    found = scores(query, key)
    if mask is not None:
        found = found.masked_fill(mask == 0, -1e9)
    weights = found.softmax(-1)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


def forbidding(q, k, v, mask=None):
    found = scores(q, k)
    return (found if mask is None else found.masked_fill(mask, -math.inf)).softmax(-1) @ v


def times_ones(q, k, v, mask=None):
    if mask is not None and mask.dtype == torch.bool:
        raise TypeError("mask: expected numbers")
    found = scores(q, k)
    return (found if mask is None else found.masked_fill(mask == 0, -math.inf)).softmax(-1) @ v


def adding(q, k, v, bias=None, scaling=None, dropout=0.0):
    found = q @ k.mT * (q.shape[-1] ** -0.5 if scaling is None else scaling)
    found = found if bias is None else found + bias[:, :, :, : k.shape[-2]]
    return torch.dropout(found.softmax(-1), dropout, dropout > 0) @ v


def of_keys(q, k, v, attention_mask=None):
    found = scores(q, k)
    if attention_mask is not None:
        found = found + (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
    return found.softmax(-1) @ v


def decoder(q, k, v, mask=None):
    n = q.shape[-2]
    future = torch.ones(1024, 1024, dtype=torch.bool).triu(1)[:n, :n]
    found = scores(q, k).masked_fill(future, -math.inf)
    return (found if mask is None else found.masked_fill(~mask, -math.inf)).softmax(-1) @ v


def unscaled_decoder(q, k, v):
    n = q.shape[-2]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    return (q @ k.mT).masked_fill(future, -math.inf).softmax(-1) @ v


def itself_alone(q, k, v):
    b, h, n, d = q.shape
    return (scores(q, k).view(b, h, n, n).softmax(-1) @ v).view(b, h, n, d)


def checkpointed(query, key, value):
    return checkpoint(fused, query, key, value, use_reentrant=True)


def of_a_model(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """As the models of Hugging Face want it."""
    key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
    found = query @ key.mT * scaling
    if attention_mask is not None:
        found = found + attention_mask
    weights = torch.nn.functional.dropout(found.softmax(-1), dropout, module.training)
    return (weights @ value).transpose(1, 2), weights


def with_sinks(module, query, key, value, attention_mask, scaling, **kwargs):
    """As gpt-oss has it: a score for each head beside those of the keys."""
    found = query @ key.mT * scaling
    if attention_mask is not None:
        found = found + attention_mask
    sinks = module.sinks.view(1, -1, 1, 1).expand(*found.shape[:-1], 1)
    weights = torch.cat([found, sinks], -1).softmax(-1)[..., :-1]
    return (weights @ value).transpose(1, 2), weights


def swallowing(q, k, v, **kwargs):
    return fused(q, k, v, scale=kwargs.get("scale"))


def in_numpy(query, key, value):
    q, k, v = (np.swapaxes(np.asarray(x), 1, 2) for x in (query, key, value))
    found = q @ np.swapaxes(k, -1, -2) / np.float32(math.sqrt(q.shape[-1]))
    weights = np.exp(found - found.max(-1, keepdims=True))
    output = (weights / weights.sum(-1, keepdims=True)) @ v
    return np.swapaxes(output, 1, 2).astype(np.float32), weights


def in_numpy_alone(query, key, value):
    return in_numpy(query, key, value)[0]


def kernel(q, k, v, causal=False, sm_scale=None):
    """As kernels of GPUs are: for a few widths, whole blocks and half precision."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("only fp16 and bf16")
    return of_blocks(q, k, v, causal, sm_scale)


def of_blocks(q, k, v, causal=False, sm_scale=None):
    assert q.shape[-1] in (32, 64)
    assert q.shape[-2] % 16 == k.shape[-2] % 16 == 0
    return fused(q, k, v, is_causal=causal, scale=sm_scale)


def odd_width(q, k, v):
    assert q.shape[-1] == 32
    assert q.shape[-2] % 16 == k.shape[-2] % 16 == 0
    return fused(q, k, v)


def causal_unless_told(q, k, v, is_causal=True):
    return fused(q, k, v, is_causal=is_causal)


def causal_by_another_name(q, k, v, causal=True):
    return fused(q, k, v, is_causal=causal)


def never_not_causal(q, k, v, is_causal=True):
    if not is_causal:
        raise ValueError("is_causal: expected True")
    return fused(q, k, v, is_causal=True)


def deaf(q, k, v, is_causal=True):
    return fused(q, k, v, is_causal=True)


def keys_alone(q, k, v, attn_mask=None):
    """Under PyTorch's name, and of another shape."""
    return of_keys(q, k, v, attn_mask)


def no_mask_at_all(q, k, v, attn_mask=None):
    if attn_mask is not None:
        raise NotImplementedError("attn_mask is not implemented")
    return fused(q, k, v)


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, scale):
        return fused(query, key, value, scale=scale)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("it does not support backward here")


def for_inference(query, key, value, scale=None):
    if scale is not None and scale < 0:
        raise RuntimeError("overflow")
    return Forward.apply(query, key, value, scale)


CASES = {
    causal_unless_told: "",
    causal_by_another_name: "causal is is_causal",
    never_not_causal: "always causal",
    deaf: "always causal",
    keys_alone: "attn_mask is attn_mask, True = may attend, (b, m)",
    no_mask_at_all: "",
    for_inference: "",
    kernel: "causal is is_causal; sm_scale is scale; lengths that are multiples of 16, vectors of "
    "64; bfloat16, because it takes no float32",
    of_blocks: "causal is is_causal; sm_scale is scale; lengths that are multiples of 16, vectors "
    "of 64",
    odd_width: "lengths that are multiples of 16, vectors of 32",
    heads_third_after: "axes (b, h, n, d) → (b, n, h, d)",
    heads_third: "axes (b, n, h, d); causal is is_causal; softmax_scale is scale",
    heads_in_batch: "axes (b·h, n, d)",
    length_first: "axes (n, b·h, d)",
    matrices: "axes (n, d)",
    annotated: "mask is attn_mask, True = may attend",
    forbidding: "mask is attn_mask, True = forbidden",
    times_ones: "mask is attn_mask, 1 = may attend, 0 = forbidden",
    adding: "bias is attn_mask, added to the scores, (b, h, n, m); scaling is scale; "
    "dropout is dropout_p",
    of_keys: "attention_mask is attn_mask, True = may attend, (b, m)",
    decoder: "mask is attn_mask, True = may attend; always causal",
    with_sinks: "axes (b, h, n, d) → (b, n, h, d); attention_mask is attn_mask, added to the "
    "scores; scaling is scale; module.sinks given the lowest number",
    of_a_model: "axes (b, h, n, d) → (b, n, h, d); attention_mask is attn_mask, added to the "
    "scores; scaling is scale; dropout is dropout_p",
    swallowing: "",
    checkpointed: "",
    in_numpy: "axes (b, n, h, d); arrays of NumPy",
    in_numpy_alone: "axes (b, n, h, d); arrays of NumPy",
    itself_alone: "",
    fused: "",
}


@pytest.mark.claim("checker-raises-no-false-alarm")
@pytest.mark.parametrize(
    "function",
    [
        # In float32 as in half precision, in which the kernel is read: for an audit.
        pytest.param(each, id=each.__name__, marks=[pytest.mark.audit] * (each is of_blocks))
        for each in CASES
    ],
)
def test_a_right_function_of_another_kind_is_read_as_that_and_nothing_is_wrong(function, seeds):
    for seed in seeds(1, 1 if "multiples" in CASES[function] else 3):  # whole blocks take longer
        report = check(function, limit=None, seed=seed)
        assert report.read_as("en") == CASES[function]
        assert report.passed(), f"seed {seed}\n{report.text()}"
        assert "{" not in report.read_as("pt")


@pytest.mark.parametrize("function", [times_ones, adding, of_a_model])
def test_a_mask_that_is_turned_into_numbers_has_the_dtype_of_the_query(function):
    report = check(function, limit=None, dtype="bfloat16", only=["mask_polarity", "float_mask"])
    assert report.read_as("en") == CASES[function]
    assert report.passed(), report.text()


def test_the_masks_that_are_recognised_are_asked():
    rules = ["mask_polarity", "mask_broadcast", "padding_amount", "fully_masked"]
    expected = dict.fromkeys(rules, Verdict.PASS) | {"fully_masked": Verdict.UNSAFE}
    for function in (annotated, forbidding, adding, decoder, of_keys):
        found = verdicts(check(function, limit=None, only=rules))
        assert found == expected, function.__name__


def verdicts(report):
    return {result.property: result.verdict for result in report.results}


def ignoring(q, k, v, mask=None, causal=False):
    return fused(q, k, v)


def mixing_heads(q, k, v):
    return torch.softmax(scores(q, k), dim=1) @ v


def first_of_all(q, k, v):
    return fused(q, k[:1].expand_as(k), v[:1].expand_as(v))


def strict_decoder(q, k, v):
    n = q.shape[-2]
    future = torch.ones(n, n, dtype=torch.bool).triu()
    return scores(q, k).masked_fill(future, -1e9).softmax(-1) @ v


def test_a_wrong_function_is_not_read_as_a_right_one_of_another_kind(subtests):
    for function, fault in {
        ignoring: "mask_polarity",
        mixing_heads: "row_sums",
        first_of_all: "oracle",
        strict_decoder: "oracle",
        unscaled_decoder: "scale",
    }.items():
        with subtests.test(function.__name__):
            assert check(function, limit=None, only=[fault]).failures


def test_what_is_said_is_not_recognised_again():
    settings = {"only": ["oracle", "mask_polarity"], "limit": None}
    names = {"attn_mask": "mask"}
    said = check(forbidding, names=names, mask_means="forbidden", **settings)
    assert (said.passed(), said.read_as("en")) == (True, CASES[forbidding])
    assert not check(forbidding, names=names, mask_means="allowed", **settings).passed()
    assert check(heads_third, layout="bnhd", always_causal=False, **settings).passed()
    assert not check(heads_third, layout="bhnd", always_causal=False, **settings).passed()
    assert not check(decoder, always_causal=False, **settings).passed()


def of_a_name_of_its_own(query, key, value, hidden=None):
    return forbidding(query, key, value, hidden)


def test_what_true_means_in_a_mask_that_is_named_is_recognised():
    names = {"attn_mask": "hidden"}
    asked = ["mask_polarity", "float_mask"]
    report = check(of_a_name_of_its_own, names=names, only=asked, limit=None)
    assert report.read_as() == "hidden is attn_mask, True = forbidden"
    polarity, floats = report.results
    assert polarity.verdict is Verdict.PASS
    assert floats.diagnosis() == "Its mask says yes or no, which is not enough here."
    assert floats.diagnosis("pt") == "Sua máscara diz sim ou não, o que não basta aqui."


def test_a_mask_that_is_named_and_obeys_nothing_is_asked_with_pytorchs():
    def attention(query, key, value, hidden=None):
        return forbidding(query, key, value)

    report = check(attention, names={"attn_mask": "hidden"}, only=["mask_polarity"], limit=None)
    assert report.read_as() == "hidden is attn_mask"
    assert not report.passed()


def test_what_is_swallowed_and_not_known_is_not_claimed():
    report = check(swallowing, limit=None, only=["causality", "scale", "silent_arguments"])
    assert verdicts(report) == {
        "causality": Verdict.NOT_CLAIMED,
        "scale": Verdict.PASS,
        "silent_arguments": Verdict.PASS,
    }


def test_shared_heads_and_dropout_of_a_model_are_asked():
    report = check(of_a_model, limit=None, only=["grouped_queries", "dropout_scale"])
    assert verdicts(report) == dict.fromkeys(["grouped_queries", "dropout_scale"], Verdict.PASS)


def test_an_array_that_is_narrower_than_what_was_given_is_refused():
    with pytest.raises(CheckError, match="the other library is set to answer in float32"):
        check(in_numpy, limit=None, dtype="float64")


def test_a_reading_that_there_is_not_is_refused():
    for setting in ("layout", "mask_means"):
        with pytest.raises(CheckError, match=f"{setting}: expected one of .*, got 'hbnd'"):
            check(fused, **{setting: "hbnd"})


def test_axes_and_meanings_have_words_in_each_language():
    axes = [each for layout in LAYOUTS.values() for each in layout.axes.split("→")]
    assert {each.count("n") for each in axes} == {1}
    for meaning in MEANINGS.values():
        assert len({meaning.said.say(lang) for lang in LANGUAGES}) == len(LANGUAGES)


def forgets_a_block(q, k, v, causal=False):
    """Right for the first 64 keys."""
    assert q.shape[-1] == 64
    assert q.shape[-2] % 16 == k.shape[-2] % 16 == 0
    return fused(q, k[..., :64, :], v[..., :64, :], is_causal=causal)


def test_a_kernel_of_fixed_sizes_is_asked_with_them_and_its_fault_is_told():
    report = check(forgets_a_block, limit=None, only=["oracle", "value_width", "single_token"])
    oracle, width, single = report.results
    assert oracle.verdict is Verdict.WRONG
    assert "n = 144" in oracle.diagnosis()
    assert (width.verdict, single.verdict) == (Verdict.NOT_CLAIMED, Verdict.NOT_CLAIMED)
    assert width.diagnosis() == (
        "It is tested only with lengths that are multiples of 16 and vectors of 64 numbers."
    )
    assert single.diagnosis().startswith("It is tested only with lengths that are multiples of 16")


def test_what_takes_no_size_is_refused_with_its_first_error():
    def attention(query, key, value):
        raise RuntimeError(f"no {tuple(query.shape)}")

    with pytest.raises(CheckError, match=r"RuntimeError: no \(2, 3, 7, 8\)"):
        check(attention, limit=None)


def averaging(q, k, v):
    """Linear attention, which promises no softmax."""
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def test_an_approximation_is_told_its_error():
    report = check(averaging, limit=None, approximate=True)
    assert report.passed(strict=True)
    assert report.read_as("en") == "approximate"
    found = {each.property: each for each in report.results}
    assert found["scale"].diagnosis().startswith("Not tested: it is approximate")
    said = found["oracle"].diagnosis("pt")
    assert said.startswith("Aproximada: o erro relativo é 0.7")
    assert not check(averaging, limit=None, only=["oracle"]).passed()


def test_an_approximation_that_mixes_samples_is_wrong():
    def mixing(q, k, v):
        return averaging(q, k.mean(0, keepdim=True), v)

    report = check(mixing, limit=None, approximate=True)
    assert [each.property for each in report.failures] == ["batch_independence"]


class Compiled:
    """Takes its time for each new shape, as a compiler does."""

    def __init__(self):
        self.known = set()

    def __call__(self, query, key, value):
        if query.shape not in self.known:
            time.sleep(0.25)
            self.known.add(query.shape)
        return fused(query, key, value)


def test_what_compiles_for_each_shape_is_given_time():
    report = check(Compiled(), limit=0.5, only=["shape", "oracle", "rectangular"])
    assert report.limit == 6.0
    assert report.read_as("en") == "compiled again for other shapes, and given 12 times the limit"
    assert [each.verdict for each in report.results] == [Verdict.PASS] * 3


def garbage_unless_causal(q, k, v, is_causal=True):
    return fused(q, k, v, is_causal=True) if is_causal else v


def test_what_it_does_without_causality_is_asked_where_causality_is_the_default():
    report = check(garbage_unless_causal, limit=None)
    assert {"oracle", "scale"} & {each.property for each in report.failures}


@pytest.mark.parametrize(
    ("function", "kind", "rows", "shown"),
    [
        (adding, "float", "(bias == -math.inf).all(-1, keepdim=True)", {"bias": [[[[-math.inf]]]]}),
        (forbidding, "bool", "mask.all(-1, keepdim=True)", {"mask": [[True]]}),
        (annotated, "bool", "~mask.any(-1, keepdim=True)", {"mask": [[False]]}),
    ],
)
def test_a_call_is_shown_as_the_function_gets_it(function, kind, rows, shown):
    (result,) = check(function, limit=None, only=["fully_masked"]).results
    said = result.diagnosis("en")
    assert f"({kind} mask)" in said
    if "NaN" in said:
        assert rows in said
    arguments = result.counterexample.arguments
    assert {name: arguments[name] for name in shown} == shown
    assert set(arguments) == {"query", "key", "value", *shown}


def keys_beside_causality(q, k, v, mask=None, causal=False):
    """A mask of keys for each sample, as padding is often said."""
    found = scores(q, k)
    if mask is not None:
        assert mask.shape == (q.shape[0], k.shape[-2])
        found = found.masked_fill(~mask[:, None, None], -torch.inf)
    if causal:
        seen = torch.ones(found.shape[-2:], dtype=torch.bool).tril()
        found = found.masked_fill(~seen, -torch.inf)
    return found.softmax(-1) @ v


def keys_or_causality(q, k, v, mask=None, causal=False):
    return keys_beside_causality(q, k, v, None if causal else mask, causal)


def keys_of_another_sample(q, k, v, mask=None, causal=False):
    return keys_beside_causality(q, k, v, None if mask is None else mask.flip(0), causal)


def one_for_all_heads(q, k, v, mask=None):
    found = scores(q, k)
    if mask is not None:
        assert mask.shape == (q.shape[0], q.shape[-2], k.shape[-2])
        found = found.masked_fill(~mask[:, None], -torch.inf)
    return found.softmax(-1) @ v


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (keys_beside_causality, None),
        (keys_or_causality, "mask_with_causal"),
        (keys_of_another_sample, "mask_broadcast"),
        (one_for_all_heads, None),
        (times_ones, None),
    ],
)
def test_masks_that_say_less_are_asked_for_what_they_say(function, fault):
    """What they cannot say is no refusal of theirs: nobody has called them with it."""
    report = check(function, limit=None)
    assert [each.property for each in report.failures if not each.follows] == [fault][: bool(fault)]
    found = {each.property: each for each in report.results}
    assert found["fully_masked"].verdict is Verdict.UNSAFE
    assert found["float_mask"].verdict is Verdict.NOT_CLAIMED


def linear_in_blocks(q, k, v):
    """Another attention, and for a few sizes alone."""
    assert q.shape[-1] == 64
    assert q.shape[-2] % 64 == k.shape[-2] % 64 == 0
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def test_another_attention_for_a_few_sizes_is_refused_or_asked_for_its_error():
    with pytest.raises(CheckError) as caught:
        check(linear_in_blocks, limit=None)
    assert " AssertionError" in str(caught.value)
    assert "multiples of 64 and vectors of 64 numbers, but not with" in str(caught.value)
    assert "--approximate" in str(caught.value)
    report = check(linear_in_blocks, limit=None, approximate=True, only=["oracle", "row_sums"])
    assert report.read_as("en") == "approximate; lengths that are multiples of 64, vectors of 64"
    assert "relative error is 0.7" in report.results[1].diagnosis("en")


def required_in_numpy(q, k, v, mask, sm_scale, kv_cache, *, is_causal):
    """What takes arrays alone, and has no default values."""
    assert kv_cache is None
    found = np.matmul(q, k.swapaxes(-1, -2).astype(q.dtype)) * sm_scale
    if is_causal:
        found = np.where(np.tri(*found.shape[-2:], dtype=bool), found, -np.inf)
    if mask is not None:
        found = np.where(mask.astype(bool), found, -np.inf)
    weights = np.exp(found - found.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(q.dtype)


def test_arrays_and_what_has_no_default_value_are_handed_over():
    report = check(required_in_numpy, limit=None)
    assert report.read_as("en") == (
        "mask is attn_mask, True = may attend; sm_scale is scale; arrays of NumPy; "
        "kv_cache given None"
    )
    assert report.read_as("pt").endswith("vetores de NumPy; kv_cache recebe None")
    assert report.passed(), report.text()
    found = {each.property: each.verdict for each in report.results}
    for name in ("mask_polarity", "scale", "causality", "mask_with_causal", "options_together"):
        assert found[name] in (Verdict.PASS, Verdict.UNSAFE), name
    assert found["gradients"] is Verdict.NOT_CLAIMED


def test_what_must_be_said_and_is_no_option_is_named():
    def attention(query, key, value, mask, block, sm_scale):
        return fused(query, key, value, scale=sm_scale * block.size)

    with pytest.raises(CheckError) as error:
        check(attention, limit=None)
    assert "AttributeError: 'NoneType' object has no attribute 'size'" in str(error.value)
    assert str(error.value).endswith("without a default value were given None: mask, block.")


def sharing(q, k, v):
    """Heads that share keys, as in a model that has fewer of them, and no flag for it."""
    group = q.shape[1] // k.shape[1]
    return fused(q, *(x.repeat_interleave(group, 1) for x in (k, v)))


def sharing_in_tiles(q, k, v):
    group = q.shape[1] // k.shape[1]
    return fused(q, *(x.repeat(1, group, 1, 1) for x in (k, v)))


def first_head_alone(q, k, v):
    return fused(q, *(x[:, :1].expand_as(q) if x.shape != q.shape else x for x in (k, v)))


def test_heads_that_share_keys_without_a_flag_are_asked():
    for function, verdict in {
        sharing: Verdict.PASS,
        sharing_in_tiles: Verdict.CONVENTION,
        first_head_alone: Verdict.NOT_CLAIMED,
        annotated: Verdict.NOT_CLAIMED,
    }.items():
        report = check(function, limit=None, only=["grouped_queries", "oracle", "silent_arguments"])
        assert verdicts(report)["grouped_queries"] is verdict, function.__name__
        assert report.passed()
        shared = "fewer key heads are shared without a flag" in report.read_as("en")
        assert shared is (verdict is not Verdict.NOT_CLAIMED)


def linear(q, k, v):
    """Another attention than softmax's, in axes (b, n, h, d)."""
    q, k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    state = torch.einsum("bmhd,bmhe->bhde", k, v)
    return torch.einsum("bnhd,bhde,bnh->bnhe", q, state, 1 / (q * k.sum(1, True)).sum(-1))


def test_the_axes_of_another_attention_are_those_in_which_keys_may_be_reordered():
    rules = ["oracle", "key_permutation", "head_independence", "batch_independence", "nan_seen"]
    report = check(linear, limit=None, only=rules)
    assert report.read_as("en") == "axes (b, n, h, d)"
    assert verdicts(report).pop("oracle") is Verdict.NOT_ASKED
    assert report.passed(strict=True)


def moving(q, k, v):
    """No order of its keys is as good as another, in whatever axes."""
    return sum(x.cumsum(axis) for x in (q, k, v) for axis in range(4))


def test_what_has_no_such_axes_is_asked_in_the_usual_ones():
    report = check(moving, limit=None, only=["key_permutation"])
    assert (report.read_as("en"), report.passed()) == ("", False)
