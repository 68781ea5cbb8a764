"""Softmax of rows that may have nothing to see."""

import torch
from torch import Tensor


def safe_softmax(scores: Tensor) -> Tensor:
    forbidden = scores == -torch.inf  # (..., m)
    empty = forbidden.all(dim=-1, keepdim=True)  # (..., 1)
    # An empty row is computed on zeros and emptied afterwards. Were its NaN replaced at the end
    # instead, the gradient would still run through it: 0 * NaN = NaN.
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1)  # (..., m)
    return weights.masked_fill(empty, 0.0)  # (..., m)
