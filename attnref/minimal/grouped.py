"""Attention whose query heads share key heads.

Explained in foundations/grouped-queries; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def grouped_query_attention(query, key, value):
    """Neighbouring query heads share one key head: the cache is smaller by their number.

        head a of the queries reads head ⌊a / g⌋ of the keys,   g = h / h_kv

    ``query``: ``(..., h, n, d)``; ``key``: ``(..., h_kv, m, d)``; ``value``:
    ``(..., h_kv, m, d_v)``; h_kv divides h.
    Left out: masks. No key is copied, as ``repeat_interleave`` or ``@`` over a dimension of
    length 1 would: the queries of a group are rows of one product.
    Source: Ainslie et al. 2023, arXiv 2305.13245.

    >>> q, kv = torch.ones(4, 3, 8), torch.ones(2, 5, 8)
    >>> grouped_query_attention(q, kv, kv).shape
    torch.Size([4, 3, 8])
    """
    groups = query.unflatten(-3, (key.shape[-3], -1))  # (..., h_kv, g, n, d)
    rows = groups.flatten(-3, -2)  # (..., h_kv, g n, d)
    scores = (rows / query.shape[-1] ** 0.5) @ key.mT  # (..., h_kv, g n, m)
    output = torch.softmax(scores, dim=-1) @ value  # (..., h_kv, g n, d_v)
    return output.unflatten(-2, groups.shape[-3:-1]).flatten(-4, -3)  # (..., h, n, d_v)
