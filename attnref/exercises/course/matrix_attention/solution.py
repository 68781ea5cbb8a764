"""Attention of all queries at once, not yet scaled."""

import torch
from torch import Tensor


def matrix_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.mT  # (..., n, m): row i, column j is q_i · k_j
    weights = torch.softmax(scores, dim=-1)  # (..., n, m): each row sums to 1
    return weights @ value  # (..., n, d_v)
