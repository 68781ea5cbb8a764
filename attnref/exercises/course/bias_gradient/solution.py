"""The gradient of a bias that depends on the distance."""

import torch
from torch import Tensor


def bias_gradient(grad: Tensor) -> Tensor:
    n, m = grad.shape[-2:]
    # Along a diagonal the distance j - i is one number, and so is the bias.
    sums = [grad.diagonal(t, -2, -1).sum(-1) for t in range(1 - n, m)]
    return torch.stack(sums, dim=-1)  # (..., n + m - 1)
