"""Attention that never holds a row of weights.

Explained in variants/blockwise; with every option: attnref.blockwise_attention.
"""

import torch


def blockwise_attention(query, key, value, block_size=128):
    """Walks over the keys, block by block, with a running softmax.

        μ' = max(μ, max_j s_j),   ℓ' = e^{μ - μ'} ℓ + Σ_j e^{s_j - μ'}
        a' = e^{μ - μ'} a + Σ_j e^{s_j - μ'} v_j,   in the end o = a / ℓ

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. Memory
    grows with n times the block, not with n m.
    Left out: masks, causality, no key at all, which is an error, and sums in float32 for half
    precision; the backward pass of autograd keeps the weights of all blocks.
    Source: Milakov and Gimelshein 2018, arXiv 1805.02867; Dao et al. 2022, arXiv 2205.14135.

    >>> x = torch.eye(2)
    >>> blockwise_attention(x, x, torch.ones(2, 1), block_size=1)
    tensor([[1.],
            [1.]])
    """
    query = query / query.shape[-1] ** 0.5
    maximum = query.new_full((*query.shape[:-1], 1), float("-inf"))  # (..., n, 1)
    total = torch.zeros_like(maximum)  # (..., n, 1)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])  # (..., n, d_v), to be divided
    for k, v in zip(key.split(block_size, -2), value.split(block_size, -2), strict=True):
        scores = query @ k.mT  # (..., n, B)
        larger = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        shrink, powers = (maximum - larger).exp(), (scores - larger).exp()
        total = shrink * total + powers.sum(-1, keepdim=True)
        output = shrink * output + powers @ v
        maximum = larger
    return output / total
