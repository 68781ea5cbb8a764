"""Attention over a batch of sequences of several lengths, filled up to the longest.

Explained in foundations/batches-and-padding; with every option:
attnref.scaled_dot_product_attention.
"""

import torch


def padded_attention(query, key, value, lengths):
    """The keys behind the end of each sequence are not seen.

        o_i = Σ_{j < length} p_ij v_j

    ``query``: ``(b, h, n, d)``; ``key``: ``(b, h, m, d)``; ``value``: ``(b, h, m, d_v)``;
    ``lengths``: ``(b,)``, from 1. Rows of queries behind the end are filled too: ignore them.
    Left out: a length of 0, whose rows are NaN; NaN in the filling, which spreads.
    Source: Vaswani et al. 2017, arXiv 1706.03762.

    >>> x = torch.eye(2).expand(1, 1, 2, 2)
    >>> padded_attention(x, x, x, torch.tensor([1]))[0, 0, 0]
    tensor([1., 0.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (b, h, n, m)
    behind = torch.arange(key.shape[-2], device=key.device) >= lengths[:, None, None, None]
    return torch.softmax(scores.masked_fill(behind, float("-inf")), dim=-1) @ value
