"""Dropout on attention weights."""

import torch
from torch import Tensor


def dropout_weights(weights: Tensor, dropout_p: float, noise: Tensor) -> Tensor:
    # A weight survives with probability 1 - p. Divided by that, its mean over the noise is the
    # weight itself, so that nothing needs to change in evaluation.
    return torch.where(noise < dropout_p, 0.0, weights / (1 - dropout_p))  # (..., n, m)
