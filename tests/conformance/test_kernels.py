"""Functions with the signatures of FlashAttention, packed sequences, and sessions of ONNX Runtime.

They are written in plain PyTorch and NumPy; what they are called with, and return, is the kernels'.
"""

import math
from collections import namedtuple

import numpy as np
import pytest
import torch

from attnref.conformance import Verdict, check
from attnref.conformance.packed import packing
from attnref.conformance.signatures import signature_of
from attnref.conformance.subject import CheckError


def attend(query, key, value, causal, scale, window, softcap):
    """One sequence, ``(n, h, d)``; causal and windowed as both sequences end together."""
    (n, heads, width), m = query.shape, key.shape[0]
    query, key, value = (x.transpose(0, 1).float() for x in (query, key, value))
    key, value = (x.repeat_interleave(heads // x.shape[0], 0) for x in (key, value))
    scores = query @ key.mT * (width**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    i, j = torch.arange(n)[:, None] + m - n, torch.arange(m)
    left, right = window
    seen = torch.ones(n, m, dtype=torch.bool)
    seen &= (j >= i - left) | (left < 0)
    seen &= (j <= i + (0 if causal else right)) | ((right < 0) & (not causal))
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    weights = weights.masked_fill(~seen.any(-1, keepdim=True), 0.0)
    return (weights @ value).transpose(0, 1)


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    if dropout_p:
        raise NotImplementedError("dropout_p is not supported without training")
    settings = (causal, softmax_scale, window_size, softcap)
    output = torch.stack([attend(*each, *settings) for each in zip(q, k, v, strict=True)])
    return output.to(q.dtype)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    if dropout_p:
        raise NotImplementedError("dropout_p is not supported without training")
    assert cu_seqlens_q.dtype == torch.int32
    assert max_seqlen_q == int(cu_seqlens_q.diff().amax())
    assert max_seqlen_k == int(cu_seqlens_k.diff().amax())
    rows = zip(
        q.split(cu_seqlens_q.diff().tolist()),
        k.split(cu_seqlens_k.diff().tolist()),
        v.split(cu_seqlens_k.diff().tolist()),
        strict=True,
    )
    found = [attend(*each, causal, softmax_scale, window_size, softcap) for each in rows]
    output = torch.cat(found).to(q.dtype)
    return output, torch.zeros(q.shape[:-1]), None  # as with return_attn_probs


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False):
    """As PyTorch names them."""
    return flash_attn_varlen_func(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, causal=is_causal
    )[0]


def one_length(q, k, v, cu_seqlens, max_seqlen, softmax_scale=None):
    """Of queries and keys alike, as in a model that only reads."""
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, softmax_scale=softmax_scale
    )[0]


READ = {
    flash_attn_func: "axes (b, n, h, d); causal is is_causal; softmax_scale is scale; window_size "
    "is window, as keys to the left and right; fewer key heads are shared without a flag",
    flash_attn_varlen_func: "axes (Σ n, h, d); causal is is_causal; softmax_scale is scale; "
    "window_size is window, as keys to the left and right; fewer key heads are shared without a "
    "flag",
    varlen_attn: "axes (Σ n, h, d); fewer key heads are shared without a flag",
}


@pytest.mark.claim("checker-raises-no-false-alarm")
@pytest.mark.parametrize("function", READ, ids=lambda function: function.__name__)
def test_a_right_kernel_is_read_and_nothing_is_wrong(function):
    report = check(function, limit=None)
    assert report.read_as("en") == READ[function]
    assert report.passed(), report.text()
    assert "{" not in report.read_as("pt")
    found = {each.property: each for each in report.results}
    for name in ("grouped_queries", "scale", "causality", "alignment"):
        if name != "scale" or function is not varlen_attn:
            assert found[name].verdict in (Verdict.PASS, Verdict.CONVENTION), name
    if function is not varlen_attn:
        assert found["window_width"].verdict is Verdict.PASS
        assert found["softcap_order"].verdict is Verdict.PASS


def test_one_length_for_queries_and_keys_is_asked_with_it():
    report = check(one_length, limit=None, only=["oracle", "scale", "batch_independence"])
    assert report.read_as("en").startswith("axes (Σ n, h, d); softmax_scale is scale")
    assert report.passed(), report.text()


def without_borders(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
    ends = [torch.tensor([0, len(x)], dtype=torch.int32) for x in (q, k)]
    return flash_attn_varlen_func(q, k, v, *ends, len(q), len(k), causal=causal)


def of_equal_lengths(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k):
    """What holds where all sequences are as long as the first."""
    many = len(cu_seqlens_q) - 1
    ends = [torch.linspace(0, len(x), many + 1).to(torch.int32) for x in (q, k)]
    lengths = [int(each.diff().amax()) for each in ends]
    return flash_attn_varlen_func(q, k, v, *ends, *lengths)


def flash_with_a_window_too_far(q, k, v, causal=False, window_size=(-1, -1)):
    left, right = window_size
    return flash_attn_func(q, k, v, causal=causal, window_size=(left + (left >= 0), right))


def flash_with_its_factor_squared(q, k, v, softmax_scale=None):
    return flash_attn_func(q, k, v, softmax_scale=(softmax_scale or q.shape[-1] ** -0.5) ** 2)


def test_a_wrong_kernel_is_wrong():
    for function, faults in (
        (without_borders, ["oracle", "batch_independence"]),
        (of_equal_lengths, ["oracle", "batch_independence"]),
        (flash_with_its_factor_squared, ["scale"]),
    ):
        assert check(function, limit=None, only=faults).failures, function.__name__


def test_a_window_that_counts_otherwise_is_not_read_as_one_that_counts_right():
    report = check(flash_with_a_window_too_far, limit=None, only=["oracle", "window_width"])
    found = {each.property: each.verdict for each in report.results}
    assert found["window_width"] is Verdict.CONVENTION


def a_window_of_its_own(query, key, value, window=(-1, -1)):
    """Under PyTorch's axes, and under the checker's own name."""
    left, right = window
    turned = [x.transpose(1, 2) for x in (query, key, value)]
    return flash_attn_func(*turned, window_size=(left, right)).transpose(1, 2)


def test_a_call_with_a_window_is_shown_as_the_function_gets_it():
    report = check(a_window_of_its_own, limit=None, only=["window_width", "oracle"])
    assert report.read_as("en").startswith("window is window, as keys to the left and right")
    assert report.passed(strict=True)

    def forgets_its_right(query, key, value, window=(-1, -1)):
        output = a_window_of_its_own(query, key, value, window)
        return output if window == (-1, -1) else output + 0.1 * query.sum()

    (result,) = check(forgets_its_right, limit=None, only=["window_width"]).failures
    assert result.counterexample.arguments["window"] == (2, 0)


def test_the_axes_of_packed_sequences_are_not_said_of_others():
    with pytest.raises(CheckError, match="layout: expected packed for varlen_attn, got 'bhnd'"):
        check(varlen_attn, layout="bhnd", limit=None)
    with pytest.raises(
        CheckError,
        match=r"layout: expected cu_seqlens in its signature for flash_attn_func, got 'packed'",
    ):
        check(flash_attn_func, layout="packed", limit=None)


def test_an_output_without_the_last_query_has_the_wrong_shape():
    def attention(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k):
        return varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k)[:-1]

    (result,) = check(attention, limit=None, only=["shape"]).results
    assert result.verdict is Verdict.WRONG
    assert result.diagnosis().startswith("It returned shape (")


def test_what_only_names_the_longest_is_not_packed():
    def attention(query, key, value, max_seqlen=2048): ...

    assert packing(signature_of(attention)) == {}


Input = namedtuple("Input", "name")


class Session:
    """What is asked of an ``onnxruntime.InferenceSession``."""

    def __init__(self, *names, compute):
        self.names, self.compute = names, compute

    def get_inputs(self):
        return [Input(name) for name in self.names]

    def run(self, wanted, feeds):
        assert wanted is None
        missing = [name for name in self.names if name not in feeds]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed")
        if not all(isinstance(each, np.ndarray) for each in feeds.values()):
            raise RuntimeError("Input must be a list of dictionaries or a single numpy array")
        return [self.compute(*(feeds[name] for name in self.names))]


def of_arrays(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) * query.dtype.type(query.shape[-1] ** -0.5)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


@pytest.mark.parametrize(
    ("session", "read"),
    [
        (Session("Q", "K", "V", compute=of_arrays), "arrays of NumPy"),
        (Session("input.1", "input.2", "input.3", compute=of_arrays), "arrays of NumPy"),
        (
            Session("mask", "query", "key", "value", compute=lambda m, *x: of_arrays(*x, m)),
            "mask is attn_mask, True = may attend; mask is given a mask that allows all if none "
            "is requested; arrays of NumPy",
        ),
    ],
)
def test_a_session_is_run_with_arrays(session, read):
    report = check(session, limit=None)
    assert report.function == "Session"
    assert report.read_as("en") == read
    assert report.passed(), report.text()


def test_a_session_without_a_factor_is_wrong():
    session = Session("q", "k", "v", compute=lambda q, k, v: of_arrays(q * q.shape[-1], k, v))
    assert "scale" in {each.property for each in check(session, limit=None).failures}
