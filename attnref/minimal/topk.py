"""Attention to the best few keys of each query.

Explained in variants/topk; with every option: attnref.topk_attention.
"""

import torch


def topk_attention(query, key, value, num_keys):
    """Of each row of scores the largest few go into the softmax, and nothing else.

        o_i = Σ_{j in T_i} p_ij v_j,   T_i: the ``num_keys`` keys of largest score

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. It saves
    no time: all scores are computed to find the best.
    Left out: masks; of equal scores at the border, any may be taken.
    Source: Gupta et al. 2021, arXiv 2106.06899.

    >>> x = torch.eye(3)
    >>> topk_attention(x, x, x, num_keys=1)[0]
    tensor([1., 0., 0.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    best = scores.topk(min(num_keys, scores.shape[-1]), dim=-1)  # (..., n, num_keys)
    weights = torch.softmax(best.values, dim=-1)
    return torch.zeros_like(scores).scatter(-1, best.indices, weights) @ value  # (..., n, d_v)
