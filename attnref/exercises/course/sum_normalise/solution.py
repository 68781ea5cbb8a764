"""Scores divided by their sum."""

import torch
from torch import Tensor


def sum_normalise(scores: Tensor) -> Tensor:
    total = torch.sum(scores, dim=-1, keepdim=True)  # (..., 1)
    return scores / total  # (..., m), each row by its own total
