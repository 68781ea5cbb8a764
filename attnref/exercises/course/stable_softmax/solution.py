"""Softmax that does not overflow."""

import torch
from torch import Tensor


def stable_softmax(scores: Tensor) -> Tensor:
    # Softmax sees differences only, so the largest score may be moved to 0. Then no power
    # exceeds 1, and one of them is 1: neither the sum nor the division can fail.
    largest = torch.amax(scores, dim=-1, keepdim=True)  # (..., 1)
    powers = torch.exp(scores - largest)  # (..., m)
    return powers / torch.sum(powers, dim=-1, keepdim=True)  # (..., m)
