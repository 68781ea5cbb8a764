"""Outputs of parts of the keys, merged by their log-sum-exp, from public reports."""

import math

import torch
import torch.nn.functional as F


def _parts(query, key, value, attn_mask=None, size=4):
    """The output and the log-sum-exp of each part of the keys; zeros and -inf for an empty one."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    for part, some in zip(scores.split(size, -1), value.split(size, -2), strict=True):
        top = part.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(part.dtype).min)
        powers = (part - top).exp()
        total = powers.sum(-1, keepdim=True)
        yield powers @ some / _divisor(total), top + _log(total)


def _divisor(total):
    return torch.where(total > 0, total, 1.0)


def _log(total):
    return torch.where(total > 0, _divisor(total).log(), -torch.inf)


# flashinfer-ai/flashinfer#4051 (2026): merging two empty parts computes -inf - (-inf), so a row
# without keys becomes NaN; right: zeros, and a log-sum-exp of -inf.
def bad_empty(query, key, value, attn_mask=None):
    (output, lse), *rest = _parts(query, key, value, attn_mask)
    for other, its in rest:
        top = torch.maximum(lse, its)
        one, two = (lse - top).exp(), (its - top).exp()
        output, lse = (one * output + two * other) / (one + two), top + _log(one + two)
    return output


def good_empty(query, key, value, attn_mask=None):
    (output, lse), *rest = _parts(query, key, value, attn_mask)
    for other, its in rest:
        top = torch.maximum(lse, its).clamp(min=torch.finfo(lse.dtype).min)
        one, two = (lse - top).exp(), (its - top).exp()
        output = (one * output + two * other) / _divisor(one + two)
        lse = top + _log(one + two)
    return output


# flashinfer-ai/flashinfer#4267 (2026): the running maximum begins at -50 000, so a row whose raw
# products all lie below it is answered with zeros; right: at -inf.
def bad_start(query, key, value):
    return _online(query, key, value, -5e4)


def good_start(query, key, value):
    return _online(query, key, value, -torch.inf)


def _online(query, key, value, start, size=4):
    scale = query.shape[-1] ** -0.5
    top = query.new_full((*query.shape[:-1], 1), start)
    total = torch.zeros_like(top)
    output = total * value[..., :1, :]
    for part, some in zip((query @ key.mT).split(size, -1), value.split(size, -2), strict=True):
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        old, powers = ((top - new) * scale).exp(), ((part - new) * scale).exp()
        output, total = old * output + powers @ some, old * total + powers.sum(-1, keepdim=True)
        top = new
    return output / _divisor(total)


# zhuzilin/ring-flash-attention#30 (2024): log(1 + exp(b - a)) overflows if a later part has far
# larger scores, and the output becomes zeros or NaN; right: -logsigmoid(a - b).
def bad_overflow(query, key, value):
    return _ring(query, key, value, lambda lse, its: torch.log(1 + torch.exp(its - lse)))


def good_overflow(query, key, value):
    return _ring(query, key, value, lambda lse, its: -F.logsigmoid(lse - its))


def _ring(query, key, value, grown):
    (output, lse), *rest = _parts(query, key, value)
    for other, its in rest:
        new = lse + grown(lse, its)
        output, lse = (lse - new).exp() * output + (its - new).exp() * other, new
    return output


# pytorch/pytorch#181645 (2026): one backend returns the log-sum-exp to the base 2, so parts are
# merged with wrong weights; right: natural logarithms, or powers of two.
def bad_base(query, key, value):
    return _merged(query, key, value, 1 / math.log(2))


def good_base(query, key, value):
    return _merged(query, key, value, 1.0)


def _merged(query, key, value, unit):
    outputs, lses = zip(*_parts(query, key, value), strict=True)
    weights = torch.softmax(torch.stack(lses) * unit, 0)
    return (weights * torch.stack(outputs)).sum(0)
