"""Quantized keys and values, from public reports."""

import torch
import torch.nn.functional as F


# flashinfer-ai/flashinfer#4979 (2026): k_scale and v_scale count only if another tensor of scales
# is given too; right: attention to k_scale * key and v_scale * value.
def bad_scales(query, key, value, k_scale=1.0, v_scale=1.0, kv_cache_sf=None):
    if kv_cache_sf is not None:
        key, value = k_scale * key, v_scale * value
    return F.scaled_dot_product_attention(query, key, value)


def good_scales(query, key, value, k_scale=1.0, v_scale=1.0, kv_cache_sf=None):
    return F.scaled_dot_product_attention(query, k_scale * key, v_scale * value)


# sgl-project/sgl-kernel-xpu#252 (2026): scales per sample and head are read as one number, that of
# the first; right: (b, h_kv), each for its own head.
def bad_head_scales(query, key, value, k_scale, v_scale):
    return F.scaled_dot_product_attention(query, key * k_scale[0, 0], value * v_scale[0, 0])


def good_head_scales(query, key, value, k_scale, v_scale):
    key, value = key * k_scale[..., None, None], value * v_scale[..., None, None]
    return F.scaled_dot_product_attention(query, key, value)


# lablup/mlxcel#717 (2026): the scale of each token's int8 numbers is at least 1, so keys and values
# are rounded to whole numbers; right: max |x| / 127, and 1 only for zeros.
def bad_int8(query, key, value, cache=None):
    return _int8(query, key, value, cache, lambda scale: scale.clamp(min=1.0))


def good_int8(query, key, value, cache=None):
    return _int8(query, key, value, cache, lambda scale: torch.where(scale > 0, scale, 1.0))


def _int8(query, key, value, cache, guard):
    parts = []
    for x in (key, value):
        scale = guard(x.abs().amax(-1, keepdim=True) / 127)
        parts.append(((x / scale).round().to(torch.int8), scale))
    cache = [*(cache or []), parts]
    keys, values = (torch.cat([q * s for q, s in each], -2) for each in zip(*cache, strict=True))
    n, m = query.shape[-2], keys.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen), cache
