"""Right implementations of other styles: no property may fail, whatever the seed."""

import math

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as fused

import attnref
from attnref.conformance import PROPERTIES, Verdict, check
from attnref.conformance.right import attention
from attnref.conformance.settings import DTYPES
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.sliding_window import sliding_window_attention

# It takes a second, and does not look at the numbers.
DRAWN = [name for name in PROPERTIES if name != "memory_growth"]


def einsum(query, key, value, attn_mask=None, is_causal=False):
    """The textbook's, with zeros for a query that sees nothing."""
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.shape[-1])
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device)
    if is_causal:
        allowed = allowed.tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        allowed = allowed & (attn_mask != -math.inf)
        scores = scores + attn_mask.masked_fill(~allowed, 0.0)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, -1).masked_fill(~allowed, 0.0)
    return torch.einsum("bhij,bhjd->bhid", weights, value)


def in_float64(query, key, value, scale=None, softcap=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.double() @ key.double().mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return (torch.softmax(scores, -1) @ value.double()).to(query.dtype)


def head_by_head(query, key, value, enable_gqa=False):
    if key.shape[1] != query.shape[1] and not enable_gqa:
        raise ValueError("key: expected as many heads as query, or enable_gqa=True")
    group = query.shape[1] // max(1, key.shape[1])
    heads = []
    for h in range(query.shape[1]):
        q, k, v = query[:, h], key[:, h // group], value[:, h // group]
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
        heads.append(weights @ v)
    return torch.stack(heads, 1)


def online(query, key, value, is_causal=False):
    """One key at a time, with a running maximum and a running sum."""
    n, m = query.shape[-2], key.shape[-2]
    top = torch.full((*query.shape[:-1], 1), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(top)
    output = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    for j in range(m):
        score = (query * key[..., j : j + 1, :]).sum(-1, keepdim=True) * query.shape[-1] ** -0.5
        if is_causal:
            score = score.masked_fill((torch.arange(n) < j)[:, None], -math.inf)
        new = torch.maximum(top, score)
        shrink, weight = torch.exp(top - new), torch.exp(score - new)
        total = total * shrink + weight
        output = output * shrink + weight * value[..., j : j + 1, :]
        top = new
    return output / total if m else output


def bottom_right(query, key, value, attn_mask=None, is_causal=False, scale=None):
    """For decoding: the last query sees all keys. It has no word for both kinds of mask."""
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask: expected None beside is_causal=True")
    n, m = query.shape[-2], key.shape[-2]
    if is_causal:
        attn_mask = attnref.masks.causal(n, m, alignment="bottom-right").dense()
    return attnref.scaled_dot_product_attention(query, key, value, attn_mask, scale=scale)


def window_besides(query, key, value, window=None):
    """Counts the keys beside the own one, and wants as many queries as keys."""
    if window is None:
        return fused(query, key, value)
    if query.shape[-2] != key.shape[-2]:
        raise ValueError("key: expected as many keys as queries")
    return sliding_window_attention(query, key, value, window=window + 1, is_causal=True)


def window_around(query, key, value, window=None):
    if window is None:
        return fused(query, key, value)
    return sliding_window_attention(query, key, value, window=window)


def with_weights(query, key, value, attn_mask=None):
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError("attn_mask: expected bool")
    return attnref.attend(query, key, value, attn_mask)[:2]


def obeys(query, key, value, **options):
    """Takes whatever it is given, and says no to what it does not know."""
    return fused(query, key, value, **options)


def unfused(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    with sdpa_kernel(SDPBackend.MATH):
        return fused(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)


class Layer(nn.Module):
    """Drops in training only."""

    def forward(self, query, key, value, is_causal=False):
        return fused(query, key, value, None, 0.5 if self.training else 0.0, is_causal)


RIGHT = {
    "PyTorch's": fused,
    "PyTorch's, unfused": unfused,
    "attnref's": attnref.scaled_dot_product_attention,
    "attnref's with a window": attention,
    "attnref's blockwise": blockwise_attention,
    "einsum": einsum,
    "in float64": in_float64,
    "head by head": head_by_head,
    "online softmax": online,
    "bottom-right": bottom_right,
    "a window besides": window_besides,
    "a window around": window_around,
    "with its weights": with_weights,
    "any option": obeys,
    "a module": Layer(),
}


@pytest.mark.claim("checker-raises-no-false-alarm")
@pytest.mark.parametrize("name", RIGHT)
def test_no_false_alarm(name, seeds):
    for seed in seeds(2, 20):
        report = check(RIGHT[name], only=DRAWN, seed=seed, limit=None)
        assert report.passed(), f"seed {seed}\n{report.text()}"


@pytest.mark.audit
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["PyTorch's", "PyTorch's, unfused", "attnref's"])
def test_no_false_alarm_in_other_dtypes(name, dtype):
    for seed in range(3):
        report = check(RIGHT[name], only=DRAWN, dtype=dtype, seed=seed, limit=None)
        assert report.passed(), f"seed {seed}\n{report.text()}"


def verdicts(function, **settings):
    report = check(function, limit=None, **settings)
    return {result.property: result.verdict for result in report.results}


SILENT = (Verdict.PASS, Verdict.NOT_CLAIMED)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_passes_and_is_cautioned_where_it_leaks(dtype):
    found = verdicts(fused, dtype=dtype)
    assert {name: each for name, each in found.items() if each not in SILENT} == {
        "nan_behind_mask": Verdict.UNSAFE,
        "causal_scale": Verdict.UNSAFE,
        "alignment": Verdict.CONVENTION,
    }
    assert sum(each is Verdict.PASS for each in found.values()) > 40


def test_attnref_passes_even_strictly():
    report = check(attention, limit=None)
    assert report.passed(strict=True)
    others = {r.property: r.verdict for r in report.results if r.verdict not in SILENT}
    assert others == {"alignment": Verdict.CONVENTION}


CONVENTIONS = [
    ("bottom-right", "alignment", Verdict.CONVENTION),
    ("bottom-right", "mask_with_causal", Verdict.CONVENTION),
    ("PyTorch's, unfused", "mask_with_causal", Verdict.CONVENTION),
    ("a window besides", "window_width", Verdict.CONVENTION),
    ("a window around", "window_width", Verdict.PASS),
    ("with its weights", "shape", Verdict.CONVENTION),
    ("with its weights", "float_mask", Verdict.NOT_CLAIMED),
    ("any option", "softcap_order", Verdict.NOT_CLAIMED),
    ("a module", "dropout_off", Verdict.NOT_CLAIMED),
]


def test_another_convention_is_named_and_no_failure():
    found = [(name, *verdicts(RIGHT[name], only=[rule]).items()) for name, rule, _ in CONVENTIONS]
    assert found == [(name, (rule, verdict)) for name, rule, verdict in CONVENTIONS]
