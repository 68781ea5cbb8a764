"""Rotary positions, from public reports; pairs (i, i + d/2)."""

import torch
import torch.nn.functional as F


def _angles(start, stop, width, dtype):
    inverse = 10000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.outer(torch.arange(start, stop).to(dtype), inverse.to(dtype))


def _rotate(x, angles):
    one, two = x.chunk(2, -1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)


# EleutherAI/gpt-neox#1003 (2023): positions and frequencies are multiplied in half precision, so
# far angles are off by radians; right: angles in float32, their cosines rounded at the end.
def bad_angles(query, key, value):
    return _rotated(query, key, value, query.dtype)


def good_angles(query, key, value):
    return _rotated(query, key, value, torch.float64 if query.dtype.itemsize > 4 else torch.float32)


def _rotated(query, key, value, dtype):
    query, key = (_rotate(x, _angles(0, x.shape[-2], x.shape[-1], dtype)) for x in (query, key))
    return F.scaled_dot_product_attention(query, key, value)


# Blaizzy/mlx-vlm#1983 (2026): each decoding step rotates its token as if it were at position 0,
# while the prompt is right; right: positions go on after the cache.
def bad_position(query, key, value, cache=None):
    past = 0 if cache is None or query.shape[-2] == 1 else cache[0].shape[-2]
    return _step(query, key, value, cache, past)


def good_position(query, key, value, cache=None):
    return _step(query, key, value, cache, 0 if cache is None else cache[0].shape[-2])


def _step(query, key, value, cache, past):
    n = query.shape[-2]
    angles = _angles(past, past + n, query.shape[-1], torch.float32).to(query.dtype)
    query, key = _rotate(query, angles), _rotate(key, angles)
    held = cache or (key[..., :0, :], value[..., :0, :])
    key, value = (torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))
    seen = torch.ones(n, key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - n)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen), (key, value)
