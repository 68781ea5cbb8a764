"""One wide tensor as several heads."""

import torch
from torch import Tensor


def split_heads(tensor: Tensor, num_heads: int) -> Tensor:
    # First cut each token's vector into h pieces, which moves no number, then exchange tokens
    # and heads, so that the last two dimensions are again a matrix of n tokens.
    pieces = torch.unflatten(tensor, -1, (num_heads, -1))  # (..., n, h, d)
    return pieces.transpose(-3, -2)  # (..., h, n, d)
