"""Attention that never holds all the weights."""

import torch
from torch import Tensor


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_size: int,
) -> Tensor:
    query = query / query.shape[-1] ** 0.5
    maximum = query.new_full((*query.shape[:-1], 1), -torch.inf)  # (..., n, 1)
    normaliser = torch.zeros_like(maximum)  # (..., n, 1)
    total: Tensor | float = 0.0  # (..., n, d_v), the values times powers, not yet divided
    keys, values = (torch.split(tokens, block_size, dim=-2) for tokens in (key, value))
    for key_block, value_block in zip(keys, values, strict=True):
        scores = query @ key_block.mT  # (..., n, block_size)
        previous, maximum = maximum, torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        powers = torch.exp(scores - maximum)  # (..., n, block_size)
        rescale = torch.exp(previous - maximum)  # (..., n, 1), 0 at the first block
        normaliser = normaliser * rescale + powers.sum(dim=-1, keepdim=True)
        total = total * rescale + powers @ value_block
    return total / normaliser  # (..., n, d_v), divided once, at the end
