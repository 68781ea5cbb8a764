"""What strangers' functions are given so that they answer, and what is read off operators."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref.conformance import Verdict, check
from attnref.conformance.signatures import signature_of
from attnref.conformance.subject import CheckError, subject


def scores(query, key):
    return query @ key.mT / math.sqrt(query.shape[-1])


def without_defaults(q, k, v, mask, scale=None):
    """A mask that must be one, and a factor that must be a number."""
    return (q @ k.mT * scale).masked_fill(mask, -math.inf).softmax(-1) @ v


def with_a_bias(q, k, v, attn_mask=None):
    return (scores(q, k) + attn_mask.to(q.dtype)).softmax(-1) @ v


def with_a_factor(q, k, v, softmax_scale=None):
    return (q @ k.mT * softmax_scale).softmax(-1) @ v


def keys_that_count(q, k, v, key_mask):
    """Of arrays, and of keys: numbers in it are a yes, or a no."""
    seen = np.asarray(key_mask, dtype=bool)[:, None, None]
    found = np.where(seen, q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, -1e9)
    weights = np.exp(found - found.max(-1, keepdims=True)) * seen
    return (weights / (weights.sum(-1, keepdims=True) + 1e-30) @ v).astype(q.dtype)


@pytest.mark.parametrize(
    ("function", "read", "not_right"),
    [
        (
            without_defaults,
            "mask is attn_mask, True = forbidden; scale is given 1/sqrt(d_k) if none is requested; "
            "mask is given a mask that allows all if none is requested",
            {"fully_masked", "fully_masked_gradient", "nan_behind_mask", "half_precision"},
        ),
        (
            with_a_bias,
            "attn_mask is attn_mask, added to the scores; attn_mask is given a mask that allows "
            "all if none is requested",
            {"fully_masked", "fully_masked_gradient", "nan_behind_mask", "half_precision"},
        ),
        (
            with_a_factor,
            "softmax_scale is scale; softmax_scale is given 1/sqrt(d_k) if none is requested",
            {"half_precision"},
        ),
        (
            keys_that_count,
            "key_mask is attn_mask, True = may attend, (b, m); key_mask is given a mask that "
            "allows all if none is requested; arrays of NumPy",
            {"nan_behind_mask", "half_precision"},
        ),
    ],
)
def test_what_it_does_not_do_without_it_is_given(function, read, not_right):
    report = check(function, limit=None)
    assert report.read_as("en") == read
    assert report.passed(), report.text()
    unsafe = {each.property for each in report.results if each.verdict is Verdict.UNSAFE}
    assert unsafe == not_right
    assert "{" not in report.read_as("pt")


def ignoring_what_it_needs(q, k, v, mask):
    return fused(q, k + 0 * mask.sum(), v)


def test_a_mask_that_must_be_one_and_is_ignored_is_wrong():
    report = check(ignoring_what_it_needs, limit=None)
    assert "mask_polarity" in {each.property for each in report.failures}


def matrices_of_arrays(query, key, value):
    """One matrix each, and no tensors."""
    _, d = query.shape
    found = query @ key.swapaxes(-1, -2).astype(query.dtype) / d**0.5
    weights = np.exp(found - found.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)


def test_arrays_are_handed_over_in_all_axes():
    report = check(matrices_of_arrays, limit=None, only=["oracle", "scale", "gradients"])
    assert report.read_as("en") == "axes (n, d); arrays of NumPy"
    assert report.passed(), report.text()


def test_the_error_that_is_told_is_about_the_arrays_that_it_takes():
    def attention(query, key, value):
        if isinstance(query, torch.Tensor):
            raise TypeError("expected an array, got torch.Tensor")
        return np.linalg.solve(query, "no device")

    with pytest.raises(CheckError) as error:
        check(attention, limit=None)
    assert "torch.Tensor" not in str(error.value)


def decayed_in_chunks(q, k, v):
    """Linear, and one that forgets, in axes (b, n, h, d) and for whole chunks alone."""
    b, n, h, d = q.shape
    q, k, v = (x.reshape(b, n // 64, 64, h, d) for x in (q, k, v))
    state = torch.einsum("bcihd,bcihe,i->bchde", k, v, torch.arange(64.0).to(q.dtype))
    return torch.einsum("bcihd,bchde->bcihe", q, state).reshape(b, n, h, d)


def test_what_answers_in_other_axes_and_sizes_is_refused_by_what_it_is():
    with pytest.raises(CheckError, match="It does answer lengths that are multiples of 64"):
        check(decayed_in_chunks, limit=None)


def test_the_options_of_an_operator_are_those_of_its_schema():
    operator = torch.ops.aten.scaled_dot_product_attention
    options = ("attn_mask", "is_causal", "scale", "enable_gqa", "dropout_p")
    assert subject(operator).supports == subject(operator.default).supports == options
    assert subject(operator).swallowed == ()

    @torch.library.custom_op("attnref_tests::attention", mutates_args=())
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
        return fused(q, k, v, scale=scale)

    report = check(attention, limit=None, only=["scale", "oracle"])
    assert [each.verdict for each in report.results] == [Verdict.PASS] * 2


def test_the_text_that_nanobind_keeps_is_a_signature():
    class Bound:
        __nb_signature__ = (("def attend(q: array, k: array, v: array = 0, *, scale) -> array",),)

        def __call__(self, *arguments, **options): ...

    assert str(signature_of(Bound())) == "(q, k, v=None, *, scale)"


def of_two_masks(q, k, v, mask=None, bias=None, key_padding_mask=None):
    found = scores(q, k) if bias is None else scores(q, k) + bias.expand(*q.shape[:-1], -1)
    assert mask is None or mask.dtype == torch.bool
    return (found if mask is None else found.masked_fill(~mask, -math.inf)).softmax(-1) @ v


def of_a_mask_and_garbage(q, k, v, mask=None, bias=None):
    return of_two_masks(q, k, v, mask) if bias is None else v


def of_a_bias_twice(q, k, v, mask=None, bias=None):
    return of_two_masks(q, k, v, mask, bias if bias is None else 2 * bias)


def test_a_second_mask_is_asked_with_the_numbers_that_it_adds():
    report = check(of_two_masks, limit=None)
    assert report.read_as("en") == (
        "mask is attn_mask, True = may attend; bias is attn_mask, added to the scores; "
        "key_padding_mask not tested"
    )
    assert report.passed(), report.text()
    found = {each.property: each.verdict for each in report.results}
    for name in ("mask_polarity", "float_mask", "mask_gradient", "scaling_order"):
        assert found[name] is Verdict.PASS, name

    def zeros_for_bools(q, k, v, mask=None, bias=None):
        output = of_two_masks(q, k, v, mask, bias)
        blind = torch.tensor(False) if mask is None else ~mask.any(-1, keepdim=True)
        return output.masked_fill(blind, 0.0)

    (result,) = check(zeros_for_bools, limit=None, only=["fully_masked"]).results
    assert "gets NaN (float mask)" in result.diagnosis()
    assert "(bias == -math.inf).all(-1, keepdim=True)" in result.diagnosis()
    assert result.counterexample.arguments["bias"] == [[-math.inf]]


@pytest.mark.parametrize("function", [of_a_mask_and_garbage, of_a_bias_twice])
def test_a_second_mask_that_is_none_is_named(function):
    report = check(function, limit=None, only=["mask_polarity", "float_mask"])
    assert report.read_as("en") == "mask is attn_mask, True = may attend; bias not tested"
    assert report.read_as("pt").endswith("; bias não testado")


def heads_behind(q, k, v):
    return fused(q, k, v).transpose(1, 2)


def test_heads_behind_positions_are_a_convention_unless_somebody_says_other_axes():
    (found,) = check(heads_behind, limit=None, only=["shape"]).results
    (said,) = check(heads_behind, limit=None, only=["shape"], layout="bhnd").results
    assert (found.verdict, said.verdict) == (Verdict.CONVENTION, Verdict.WRONG)
    assert found.diagnosis().startswith("It returned shape (2, 7, 3, 8), expected (2, 3, 7, 8)")
    assert said.diagnosis().startswith("It returned shape (1, 2, 1, 1), expected (1, 1, 2, 1)")


def test_what_raises_for_keys_in_another_order_has_no_axes_of_its_own():
    first = []

    def copying(query, key, value):
        first.append(float(key.flatten()[0]))
        if first[-1] != first[0]:
            raise ValueError("the order of the keys")
        return value[..., :1, :].expand(*query.shape[:-1], -1)

    report = check(copying, limit=None, only=["shape", "oracle"])
    assert report.read_as() == ""
    assert [each.property for each in report.failures] == ["oracle"]


def seen_through(query, key, value, seen, **options):
    return fused(query, key, value, seen, **options)


def places(query, key):
    return torch.arange(query.shape[-2])[:, None], torch.arange(key.shape[-2])


def window_by_default(query, key, value, window=128):
    i, j = places(query, key)
    return seen_through(query, key, value, (j <= i) & (i - j < window))


def around_by_default(query, key, value, sliding_window=4, is_causal=False):
    i, j = places(query, key)
    seen = (i - j).abs() < sliding_window
    return seen_through(query, key, value, seen & (j <= i) if is_causal else seen)


def window_of_short_texts(query, key, value, window=4):
    if query.shape[-2] > 64:
        raise ValueError("expected at most 64 tokens")
    return window_by_default(query, key, value, window)


def absorbed(query, key, value, scale=14**-0.5, is_causal=False):
    """The heads had 14 components before they were absorbed into the latent."""
    return fused(query, key, value, is_causal=is_causal, scale=scale)


def absorbed_without_a_word(query, key, value):
    return fused(query, key, value, scale=14**-0.5)


def yarn(query, key, value, stretch=40.0):
    size = 0.1 * math.log(stretch) + 1
    return fused(size * query, size * key, value)


def with_a_sink(query, key, value):
    sink = torch.linspace(-1.0, 1.0, query.shape[1]).reshape(-1, 1, 1)
    found = torch.cat([scores(query, key), sink.expand(*query.shape[:-1], 1)], -1)
    return found.softmax(-1)[..., :-1] @ value


def gated_delta(query, key, value, beta=0.5):
    state, outputs = query.new_zeros(*query.shape[:2], key.shape[-1], value.shape[-1]), []
    unit = torch.nn.functional.normalize(key, dim=-1)
    for t in range(query.shape[-2]):
        q, k, v = (x[..., t : t + 1, :] for x in (query, unit, value))
        state = 0.9 * state
        state = state + beta * k.mT @ (v - k @ state)
        outputs.append(q @ state)
    return torch.cat(outputs, -2)


def gated_delta_heads_third(query, key, value):
    return gated_delta(*(x.transpose(1, 2) for x in (query, key, value))).transpose(1, 2)


OF_THEIR_OWN = {
    "window": (window_by_default, "its own window: query i sees the keys from i - 127 to i"),
    "window, short": (window_of_short_texts, "from i - 3 to i"),
    "window around": (around_by_default, "from i - 3 to i + 3"),
    "absorbed": (absorbed, "one factor for all widths, 0.267"),
    "absorbed, unsaid": (absorbed_without_a_word, "one factor for all widths, 0.267"),
    "YaRN": (yarn, "its own factor, 1.87/sqrt(d_k)"),
    "sink": (with_a_sink, "its own sink"),
    "delta": (gated_delta, "a recurrence: the delta rule, with decay, keys of length 1"),
    "delta, heads third": (gated_delta_heads_third, "axes (b, n, h, d); always causal; a re"),
}


@pytest.mark.parametrize(
    ("function", "read"),
    [
        # In other axes it takes as long again.
        pytest.param(*case, id=name, marks=[pytest.mark.audit] * (name == "delta, heads third"))
        for name, case in OF_THEIR_OWN.items()
    ],
)
def test_what_a_right_function_has_of_its_own_is_part_of_what_it_is_judged_by(function, read):
    report = check(function, limit=None)
    assert report.passed(), report.text()
    assert read in report.read_as("en")
    assert "{" not in report.read_as("pt") + report.verdict("pt")


def divides_by_the_width(query, key, value, sliding_window=4):
    i, j = places(query, key)
    near = (j <= i) & (i - j < sliding_window)
    return fused(query, key, value, near, scale=1 / query.shape[-1])


def sink_that_nobody_gave(query, key, value, sinks=None):
    """The room for a sink is there, and a 0 in it counts as one."""
    sinks = torch.zeros(query.shape[1]) if sinks is None else sinks
    found = torch.cat(
        [scores(query, key), sinks.reshape(-1, 1, 1).expand(*query.shape[:-1], 1)], -1
    )
    return found.softmax(-1)[..., :-1] @ value


def empty_slots(query, key, value, sink_size=1):
    """Rows of zeros fill the keys up to 64, and nobody masks them."""
    missing = 64 * sink_size - key.shape[-2] % 64
    key, value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    return fused(query, key, value)


def products_alone(query, key, value):
    return scores(query, key).tril() @ value


def window_and_a_key_for_all(query, key, value, window=4):
    """Two ways at once, of which the name tells one."""
    i, j = places(query, key)
    return fused(query, key, value, (j <= i) & ((i - j < window) | (j == 1)))


def products_beside_a_sink(query, key, value, sink=0.0):
    return products_alone(query, key, value) + sink


def twice_the_factor_of_one_width(query, key, value):
    if query.shape[-1] > 16:
        raise ValueError("expected a width of at most 16")
    return fused(2 * query, key, value)


def test_what_is_wrong_is_not_taken_for_its_own_way():
    expected = {
        window_and_a_key_for_all: "scale",
        products_beside_a_sink: "row_sums",
        twice_the_factor_of_one_width: "scale",
        divides_by_the_width: "scale",
        sink_that_nobody_gave: "row_sums",
        empty_slots: "row_sums",
        products_alone: "row_sums",
    }
    found = {
        function: check(function, limit=None, only=["row_sums", "scale", "oracle"]).causes
        for function in expected
    }
    assert {function: causes[0].property for function, causes in found.items()} == expected
