"""Attention whose query heads share key heads.

Explained in foundations/grouped-queries; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def grouped_query_attention(query, key, value):
    """Neighbouring query heads share one key head: the cache is smaller by their number.

        head a of the queries reads head ⌊a / g⌋ of the keys,   g = h / h_kv

    ``query``: ``(..., h, n, d)``; ``key``: ``(..., h_kv, m, d)``; ``value``:
    ``(..., h_kv, m, d_v)``; h_kv divides h.
    Left out: masks. The keys are not repeated in memory, as ``repeat_interleave`` would.
    Source: Ainslie et al. 2023, arXiv 2305.13245.

    >>> q, kv = torch.ones(4, 3, 8), torch.ones(2, 5, 8)
    >>> grouped_query_attention(q, kv, kv).shape
    torch.Size([4, 3, 8])
    """
    q = query.unflatten(-3, (key.shape[-3], -1))  # (..., h_kv, g, n, d)
    scores = (q / query.shape[-1] ** 0.5) @ key[..., None, :, :].mT  # (..., h_kv, g, n, m)
    output = torch.softmax(scores, dim=-1) @ value[..., None, :, :]
    return output.flatten(-4, -3)  # (..., h, n, d_v)
