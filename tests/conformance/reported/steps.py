"""Decoding steps with a cache, from public reports."""

import torch
import torch.nn.functional as F

ROOM = 160


def _attend(query, key, value, seen):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def _causal(query, key):
    n, m = query.shape[-2], key.shape[-2]
    return torch.ones(n, m, dtype=torch.bool).tril(m - n)


def make_slots(batch, heads, head_dim, dtype):
    shape = (batch, heads, ROOM, head_dim)
    return {"k": torch.zeros(shape, dtype=dtype), "v": torch.zeros(shape, dtype=dtype), "seen": 0}


# microsoft/onnxruntime-genai#2354 (2026): the past length of a decoding step counts the new token,
# so one slot after the prompt stays empty and is seen by all; right: the first free slot is next.
def bad_slots(query, key, value, cache):
    return _slots(query, key, value, cache, 1 if cache["seen"] else 0)


def good_slots(query, key, value, cache):
    return _slots(query, key, value, cache, 0)


def _slots(query, key, value, cache, hole):
    start = cache["seen"] + hole
    end = start + key.shape[-2]
    if end > ROOM:
        raise ValueError(f"cache: room for {ROOM} positions, got {end}")
    k, v = cache["k"].clone(), cache["v"].clone()
    k[..., start:end, :], v[..., start:end, :] = key, value
    after = {"k": k, "v": v, "seen": cache["seen"] + key.shape[-2]}
    k, v = k[..., :end, :], v[..., :end, :]
    return _attend(query, k, v, _causal(query, k)), after


# ollama/ollama#14912 (2026): several tokens are appended to a ring that has wrapped without putting
# it in order first, so the window hides recent keys and shows old ones; right: oldest first.
def bad_ring(query, key, value, cache=None, sliding_window=8):
    return _ring(query, key, value, cache, sliding_window, ordered=False)


def good_ring(query, key, value, cache=None, sliding_window=8):
    return _ring(query, key, value, cache, sliding_window, ordered=True)


def _ring(query, key, value, cache, window, ordered):
    """The key of position p is in slot p % window."""
    k, v, past = cache or (key[..., :0, :], value[..., :0, :], 0)
    n, full = query.shape[-2], k.shape[-2] == window
    if full and (ordered or n == 1):
        k, v = (x.roll(-(past % window), -2) for x in (k, v))
    k, v = torch.cat([k, key], -2), torch.cat([v, value], -2)
    seen = _causal(query, k) & ~_causal(query, k).tril(k.shape[-2] - n - window)
    output, past = _attend(query, k, v, seen), past + n
    k, v = k[..., -window:, :], v[..., -window:, :]
    if k.shape[-2] == window:
        k, v = (x.roll(past % window, -2) for x in (k, v))
    return output, (k, v, past)


def make_list():
    return []


# Mikyx-1/TinyLLM#18 (2026): the causal mask is applied only without a cache, and the prompt comes
# with an empty one, so its tokens see later ones; right: several new tokens need the mask.
def bad_prompt(query, key, value, cache):
    return _listed(query, key, value, cache, masked=cache is None)


def good_prompt(query, key, value, cache):
    return _listed(query, key, value, cache, masked=True)


def _listed(query, key, value, cache, masked):
    cache = [*(cache or []), (key, value)]
    key, value = (torch.cat(parts, -2) for parts in zip(*cache, strict=True))
    return _attend(query, key, value, _causal(query, key) if masked else None), cache


# OpenNMT/OpenNMT-py#2532 (2023): the mask of padding counts only in the first step, and later ones
# see the padding; right: in each step.
def bad_mask(query, key, value, cache=None, attn_mask=None):
    return _masked(query, key, value, cache, attn_mask if cache is None else None)


def good_mask(query, key, value, cache=None, attn_mask=None):
    return _masked(query, key, value, cache, attn_mask)


def _masked(query, key, value, cache, attn_mask):
    held = cache or (key[..., :0, :], value[..., :0, :])
    key, value = (torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))
    seen = _causal(query, key)
    return _attend(query, key, value, seen if attn_mask is None else seen & attn_mask), (key, value)


# EricLBuehler/candle-vllm#140 (2025): the causal mask of all samples begins at the length of the
# first; right: query i of sample b is at position cache_seqlens[b] + i.
def bad_lengths(query, key, value, cache_seqlens):
    return _batched(query, key, value, cache_seqlens[:1].expand_as(cache_seqlens))


def good_lengths(query, key, value, cache_seqlens):
    return _batched(query, key, value, cache_seqlens)


def _batched(query, key, value, cache_seqlens):
    i = cache_seqlens[:, None, None, None] + torch.arange(query.shape[-2])[:, None]
    return _attend(query, key, value, torch.arange(key.shape[-2]) <= i)
