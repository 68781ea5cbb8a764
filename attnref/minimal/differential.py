"""Differential attention: the noise of two softmaxes cancels.

Explained in variants/differential; with every option: attnref.differential_attention.
"""

import torch


def differential_attention(query, key, value, lambd):
    """Two halves of each head attend, and the second is taken away from the first.

        O = (softmax(Q₁ K₁ᵀ / √d) - λ softmax(Q₂ K₂ᵀ / √d)) V

    ``query``: ``(..., n, 2 d)``, both halves side by side; ``key``: ``(..., m, 2 d)``; ``value``:
    ``(..., m, d_v)``; ``lambd``: a number or a tensor that broadcasts.
    Left out: masks; the norm of each head behind it, and how λ is learned.
    Source: Ye et al. 2024, arXiv 2410.05258, equation 1.

    >>> x = torch.ones(2, 4)
    >>> differential_attention(x, x, x, 0.5)[0]
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    query, key = (torch.stack(x.chunk(2, dim=-1)) for x in (query, key))  # (2, ..., n, d)
    first, second = torch.softmax((query / query.shape[-1] ** 0.5) @ key.mT, dim=-1)
    return (first - lambd * second) @ value  # (..., n, d_v)
