"""Attention with a sink: a score without a value.

Explained in variants/sinks; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def sink_attention(query, key, value, sink):
    """Each head may give a part of its weight to nothing.

        p_ij = e^{s_ij} / (e^{sink} + Σ_k e^{s_ik})

    ``query``: ``(..., h, n, d)``; ``key``: ``(..., h, m, d)``; ``value``: ``(..., h, m, d_v)``;
    ``sink``: ``(h,)``, learned; -∞ gives plain attention.
    Left out: masks.
    Source: OpenAI 2025, gpt-oss; Xiao et al. 2023, arXiv 2309.17453.

    >>> one = torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.ones(1, 1, 1)
    >>> sink_attention(*one, torch.zeros(1))
    tensor([[[0.5000]]])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., h, n, m)
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)  # (..., h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., :-1] @ value  # (..., h, n, d_v)
