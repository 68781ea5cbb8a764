"""Which blocks each query reads, chosen by the mean of their keys."""

import torch
from torch import Tensor


def chosen_blocks(
    query: Tensor,
    key: Tensor,
    block_size: int,
    num_blocks: int,
) -> Tensor:
    n = query.shape[-2]
    blocks = n // block_size
    means = torch.unflatten(key, -2, (blocks, block_size)).mean(-2)  # (..., blocks, d)
    gates = query @ means.mT  # (..., n, blocks)
    position, block = torch.arange(n)[:, None], torch.arange(blocks)
    own = position // block_size  # (n, 1)
    # What is ahead can never be the best, and the query's own block always is.
    gates = gates.masked_fill(block > own, -torch.inf).masked_fill(block == own, torch.inf)
    best, places = gates.topk(min(num_blocks, blocks), dim=-1)  # (..., n, num_blocks)
    chosen = torch.zeros_like(gates, dtype=torch.bool)
    chosen = chosen.scatter(-1, places, best > -torch.inf)  # (..., n, blocks)
    allowed = chosen.repeat_interleave(block_size, dim=-1)  # (..., n, n)
    return allowed & (torch.arange(n) <= position)
