"""Latent attention (MLA) with a part of each head rotated, from public reports."""

import math

import torch

ROPE = 4  # the last entries of queries and keys, which are rotated


def _attend(query, key, value, is_causal, scale):
    scores = query @ key.mT * scale
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    return torch.softmax(scores, -1) @ value


def _mscale(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1


# onnxruntime/mobius#548 (2026): YaRN's factor on the scores of both parts is missing (one key alone
# hides that); right: (0.1 mscale_all_dim ln factor + 1)^2 / sqrt(d).
def bad_mscale(query, key, value, is_causal=False, factor=40.0, mscale_all_dim=0.707):
    return _attend(query, key, value, is_causal, query.shape[-1] ** -0.5)


def good_mscale(query, key, value, is_causal=False, factor=40.0, mscale_all_dim=0.707):
    scale = query.shape[-1] ** -0.5 * _mscale(factor, mscale_all_dim) ** 2
    return _attend(query, key, value, is_causal, scale)


def _rotate(x, neighbours, times=1.0):
    plain, turned = x[..., :-ROPE], x[..., -ROPE:]
    inverse = 10000.0 ** (-torch.arange(0, ROPE, 2, device=x.device) / ROPE)
    a = torch.outer(torch.arange(x.shape[-2], device=x.device), inverse).to(x.dtype)
    cos, sin = times * a.cos(), times * a.sin()
    if neighbours:
        one, two = turned[..., ::2], turned[..., 1::2]
        turned = torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2)
    else:
        one, two = turned.chunk(2, -1)
        turned = torch.cat([one * cos - two * sin, one * sin + two * cos], -1)
    return torch.cat([plain, turned], -1)


# PaddlePaddle/PaddleFleet#1910 (2026): with the absorbed form the rotation pairs (i, i + d/2), and
# (2i, 2i + 1) without it, though the weights are the same; right: one pairing for both.
def bad_absorbed_pairs(query, key, value, absorbed=False):
    query, key = (_rotate(x, neighbours=not absorbed) for x in (query, key))
    return _attend(query, key, value, False, query.shape[-1] ** -0.5)


def good_absorbed_pairs(query, key, value, absorbed=False):
    query, key = (_rotate(x, neighbours=True) for x in (query, key))
    return _attend(query, key, value, False, query.shape[-1] ** -0.5)


# kekzl/imp#880 (2026): the rotated part is stretched by YaRN's 1.261 too, which counts it more;
# right: the ratio of the two factors, one if mscale = mscale_all_dim.
def bad_rotated_part(query, key, value, factor=40.0, mscale=0.707, mscale_all_dim=0.707):
    return _yarn(query, key, value, _mscale(factor, mscale_all_dim), factor, mscale_all_dim)


def good_rotated_part(query, key, value, factor=40.0, mscale=0.707, mscale_all_dim=0.707):
    times = _mscale(factor, mscale) / _mscale(factor, mscale_all_dim)
    return _yarn(query, key, value, times, factor, mscale_all_dim)


def _yarn(query, key, value, times, factor, mscale_all_dim):
    query, key = (_rotate(x, neighbours=True, times=times) for x in (query, key))
    scale = query.shape[-1] ** -0.5 * _mscale(factor, mscale_all_dim) ** 2
    return _attend(query, key, value, False, scale)
