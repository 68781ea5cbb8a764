"""Sliding windows, from public reports."""

import torch
import torch.nn.functional as F


def _positions(query, key):
    n, m = query.shape[-2], key.shape[-2]
    return torch.arange(m - n, m)[:, None], torch.arange(m)


# huggingface/transformers#41184 (2025): the bound of the window has the wrong sign, so no old key
# is hidden, and keys more than a window ahead become visible; right: i - window < j <= i.
def bad_bound(query, key, value, is_causal=False, sliding_window=None):
    return _windowed(query, key, value, is_causal, sliding_window, 1)


def good_bound(query, key, value, is_causal=False, sliding_window=None):
    return _windowed(query, key, value, is_causal, sliding_window, -1)


def _windowed(query, key, value, is_causal, window, sign):
    i, j = _positions(query, key)
    seen = (j <= i) | torch.tensor(not is_causal and window is None)
    if window is not None:
        seen = seen & (j > i - window) if sign < 0 else seen | (j > i + window)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def _step(query, key, value, cache, width):
    held = cache or (key[..., :0, :], value[..., :0, :])
    key, value = (torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))
    i, j = _positions(query, key)
    seen = (j <= i) & (j > i - width)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen), (key, value)


# ROCm/hip-ep#144 (2026): the mask is left out for a single query, so a decoding step sees keys
# older than the window; right: one query obeys the window too.
def bad_single_query(query, key, value, cache=None, local_window_size=8):
    width = local_window_size if query.shape[-2] > 1 else torch.inf
    return _step(query, key, value, cache, width)


def good_single_query(query, key, value, cache=None, local_window_size=8):
    return _step(query, key, value, cache, local_window_size)


# mistralai/mistral-inference#60 (2023): a prompt sees window + 1 keys, a single token sees window;
# right: the same number of keys however the sequence is fed.
def bad_prompt(query, key, value, cache=None, sliding_window=8):
    return _step(query, key, value, cache, sliding_window + (query.shape[-2] > 1))


def good_prompt(query, key, value, cache=None, sliding_window=8):
    return _step(query, key, value, cache, sliding_window)
