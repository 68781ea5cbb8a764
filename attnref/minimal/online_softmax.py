"""The softmax of a row that comes in pieces.

Explained in complexity/memory; with every option: attnref.softmax.online.
"""

import torch


def online_softmax(scores, block_size):
    """Maximum and sum are found in one walk: a larger maximum shrinks the sum so far.

        μ' = max(μ, s),   ℓ' = e^{μ - μ'} ℓ + e^{s - μ'}

    ``scores``: ``(..., m)``, and so is the result.
    Left out: a row that begins with a whole block of -∞, which gives NaN.
    Source: Milakov and Gimelshein 2018, arXiv 1805.02867, algorithm 3.

    >>> online_softmax(torch.tensor([0.0, 1000.0, 1000.0]), block_size=1)
    tensor([0.0000, 0.5000, 0.5000])
    """
    maximum = scores.new_full((*scores.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(maximum)
    for block in scores.split(block_size, dim=-1):
        larger = torch.maximum(maximum, block.amax(-1, keepdim=True))
        total = (maximum - larger).exp() * total + (block - larger).exp().sum(-1, keepdim=True)
        maximum = larger
    return (scores - maximum).exp() / total
