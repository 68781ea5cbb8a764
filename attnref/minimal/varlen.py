"""Attention over sequences laid end to end, without filling.

Explained in variants/varlen; with every option: attnref.varlen_attention.
"""

import torch


def varlen_attention(query, key, value, cu_seqlens):
    """Each token sees the tokens of its own sequence.

        sequence s holds the tokens cu_seqlens[s], …, cu_seqlens[s + 1] - 1

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``cu_seqlens``: the
    borders, from 0 to n, ascending. One product a sequence: n_s² scores each.
    Left out: causality, other lengths for the keys; the loop waits for a GPU, once a sequence.
    Source: Dao 2023, arXiv 2307.08691 (the packed interface of FlashAttention-2).

    >>> x = torch.eye(3)
    >>> varlen_attention(x, x, x, torch.tensor([0, 1, 3]))[0]
    tensor([1., 0., 0.])
    """
    lengths = cu_seqlens.diff().tolist()
    outputs = []
    for q, k, v in zip(*(x.split(lengths, -2) for x in (query, key, value)), strict=True):
        scores = (q / query.shape[-1] ** 0.5) @ k.mT  # (..., n_s, n_s)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(outputs, dim=-2)  # (..., n, d_v)
