"""Attention with dropout on its weights.

Explained in foundations/dropout; with every option: attnref.scaled_dot_product_attention.
"""

import torch
from torch.nn.functional import dropout


def dropout_attention(query, key, value, dropout_p, training=True):
    """While training, each weight is zero with probability p, and the others grow to make up.

        p'_ij = p_ij z_ij / (1 - p),   z_ij = 1 with probability 1 - p, else 0

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``;
    ``dropout_p``: from 0 to below 1. A row sums to 1 on average only. PyTorch's global
    generator draws the random numbers. ``training``: the module's own, or evaluation drops too.
    Left out: masks.
    Source: Srivastava et al. 2014, JMLR 15; on the weights: the code of Vaswani et al. 2017,
    arXiv 1706.03762.

    >>> x = torch.eye(2)
    >>> dropout_attention(x, x, x, 0.5, training=False).sum(-1)
    tensor([1., 1.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    weights = dropout(torch.softmax(scores, dim=-1), dropout_p, training)
    return weights @ value  # (..., n, d_v)
