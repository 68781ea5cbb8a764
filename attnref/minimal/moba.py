"""Mixture of block attention: each query picks the blocks that it sees.

Explained in variants/selected; with every option: attnref.moba_attention.
"""

import torch


def causal_moba_attention(query, key, value, block_size, num_blocks):
    """A query sees its own block up to its place, and the past blocks whose mean key fits best.

        gate(i, b) = q_i · mean of the keys of block b

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``num_blocks``: how many
    blocks a query sees, its own among them.
    Left out: the saving; the choice is a mask over all n² pairs here.
    Source: Lu et al. 2025, arXiv 2502.13189, equations 2 to 6.

    >>> x = torch.eye(2)
    >>> causal_moba_attention(x, x, x, block_size=1, num_blocks=1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    n = query.shape[-2]
    means = torch.stack([k.mean(-2) for k in key.split(block_size, -2)], dim=-2)  # (..., B, d)
    token = torch.arange(n, device=query.device)
    own = (token // block_size)[:, None]  # (n, 1)
    block = torch.arange(means.shape[-2], device=query.device)
    gate = (query @ means.mT).detach()  # (..., n, B)
    gate = gate.masked_fill(block == own, float("inf")).masked_fill(block > own, float("-inf"))
    best = gate.topk(min(num_blocks, len(block)), dim=-1).indices
    seen = torch.zeros_like(gate, dtype=torch.bool).scatter(-1, best, True)  # (..., n, B)
    allowed = seen[..., token // block_size] & (token <= token[:, None])  # (..., n, n)
    scores = (query / query.shape[-1] ** 0.5) @ key.mT
    return torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1) @ value
