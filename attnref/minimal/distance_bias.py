"""Attention whose scores get a number for the distance of query and key.

Explained in variants/distance-bias; with every option: attnref.distance_bias_attention.
"""

import torch


def distance_bias_attention(query, key, value, bias):
    """Each head adds a learned number for each distance, the same along a diagonal.

        O = softmax(Q Kᵀ / √d + B) V,   B_ij = b_{j - i}

    ``query``: ``(..., h, n, d)``; ``key``: ``(..., h, m, d)``; ``value``: ``(..., h, m, d_v)``;
    ``bias``: ``(h, n + m - 1)``, from the distance -(n - 1) to m - 1. With the queries in reverse,
    row r of B is ``bias[r : r + m]``: a view, so that B takes no memory.
    Left out: masks, buckets of distances, walking over blocks; here the scores take n × m numbers.
    T5 does not divide by √d.
    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1.

    >>> x, value = torch.zeros(1, 3, 2), torch.tensor([[[1.0], [2.0], [6.0]]])
    >>> bias = torch.tensor([[0.0, 0.0, 0.0, 50.0, 0.0]])  # each query prefers the next key
    >>> distance_bias_attention(x, x, value, bias).flatten()
    tensor([2., 6., 3.])
    """
    query = query.flip(-2) / query.shape[-1] ** 0.5
    scores = query @ key.mT + bias.unfold(-1, key.shape[-2], 1)  # (..., h, n, m)
    return (torch.softmax(scores, dim=-1) @ value).flip(-2)  # (..., h, n, d_v)
