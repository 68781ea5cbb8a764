"""Causal attention over a sliding window.

Explained in variants/sliding-window; with every option: attnref.sliding_window_attention.
"""

import torch
from torch.nn.functional import pad


def causal_window_attention(query, key, value, window):
    """Each token sees itself and the ``window - 1`` tokens before it.

        o_i = Σ_{i - w < j ≤ i} p_ij v_j

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``. Blocks of w queries meet 2 w
    keys each, so time and memory grow with n w, not with n².
    Left out: another number of keys, sinks, a window on both sides; a NaN value spreads over its
    block and the next.
    Source: Beltagy et al. 2020, arXiv 2004.05150.

    >>> x = torch.eye(3)
    >>> causal_window_attention(x, x, x, window=1)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    n, d = query.shape[-2:]
    if key.shape[-2] != n:
        raise ValueError(f"key: expected {n} positions, as query has, got {key.shape[-2]}")
    window = max(1, min(window, n))
    blocks = -(-n // window)
    fill = blocks * window - n  # behind the last token
    q = pad(query, (0, 0, 0, fill)).unflatten(-2, (blocks, window))  # (..., blocks, w, d)
    k, v = (pad(x, (0, 0, window, fill)).unfold(-2, 2 * window, window) for x in (key, value))
    scores = (q / d**0.5) @ k  # (..., blocks, w, 2 w), for k: (..., blocks, d, 2 w)
    i = torch.arange(window, 2 * window, device=query.device)[:, None]  # place among 2 w keys
    j = torch.arange(2 * window, device=query.device)
    block = torch.arange(blocks, device=query.device)[:, None, None]
    allowed = (i - window < j) & (j <= i) & ((block > 0) | (j >= window))  # (blocks, w, 2 w)
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    return (weights @ v.mT).flatten(-3, -2)[..., :n, :]  # (..., n, d_v)
