"""Attention whose scores stay within bounds.

Explained in scale/factors-compared; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def softcap_attention(query, key, value, cap):
    """No score is larger than ``cap``, smoothly.

        s' = c tanh(s / c)

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``; ``cap`` > 0.
    Left out: masks, which go on after the cap, or it would make -∞ finite.
    Source: Gemma Team 2024, arXiv 2408.00118, section 2.

    >>> x = torch.eye(2)
    >>> softcap_attention(x, x, x, cap=50.0).sum(-1)
    tensor([1., 1.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    return torch.softmax(cap * torch.tanh(scores / cap), dim=-1) @ value  # (..., n, d_v)
