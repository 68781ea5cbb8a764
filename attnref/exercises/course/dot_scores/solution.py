"""Scores: one dot product per key."""

import torch
from torch import Tensor


def dot_scores(query: Tensor, key: Tensor) -> Tensor:
    # Broadcasting sets the query beside every key; the sum runs over the components.
    return torch.sum(key * query, dim=-1)  # (m,)
