"""Scaled dot-product attention by its formula.

Explained in foundations/matrix-form; with every option: attnref.scaled_dot_product_attention.
"""

import torch


def scaled_dot_product_attention(query, key, value):
    """Each query takes an average of the values, weighted by how well their keys match it.

        O = softmax(Q Kᵀ / √d) V

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``.
    The query is scaled before the product, which could overflow in half precision.
    Left out: masks, dropout, grouped heads, a sum in a wider type than the tensors have.
    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    >>> x = torch.eye(2)
    >>> scaled_dot_product_attention(x, x, x).sum(-1)
    tensor([1., 1.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
