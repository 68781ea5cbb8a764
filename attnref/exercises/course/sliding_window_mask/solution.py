"""The sliding window."""

import torch
from torch import Tensor


def sliding_window_mask(n: int, window: int) -> Tensor:
    position = torch.arange(n)
    distance = position[:, None] - position[None, :]  # (n, n), how far back each key lies
    return (distance >= 0) & (distance < window)  # the distances 0 … window - 1
