"""Attention in which no token sees a later one.

Explained in foundations/masks; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def causal_attention(query, key, value):
    """Each query sees the keys up to its own place; with more keys, as from a cache, the last
    query sees all of them.

        o_i = Σ_{j ≤ i + m - n} p_ij v_j

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``, m ≥ n.
    Left out: the alignment of PyTorch's ``is_causal``, which counts from the first key when n and
    m differ; n > m, where the first queries see no key and get NaN; NaN in a later key, which a
    weight of 0 does not stop.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3.

    >>> x = torch.eye(3)
    >>> causal_attention(x, x, x)[0]
    tensor([1., 0., 0.])
    """
    n, m = query.shape[-2], key.shape[-2]
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    allowed = torch.ones(n, m, dtype=torch.bool, device=query.device).tril(m - n)
    scores = scores.masked_fill(~allowed, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
