"""Which positions a rank holds, so that all have the same work."""

import torch
from torch import Tensor


def zigzag_positions(n: int, ranks: int, rank: int) -> Tensor:
    # Chunk i begins where i / (2 ranks) of the sequence is over, so all of them together have
    # every position once, whatever n is.
    begins = [i * n // (2 * ranks) for i in range(2 * ranks + 1)]
    chunks = (rank, 2 * ranks - 1 - rank)
    return torch.cat([torch.arange(begins[i], begins[i + 1]) for i in chunks])  # (n_r,)
