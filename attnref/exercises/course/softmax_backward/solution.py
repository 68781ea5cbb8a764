"""The gradient of the scores from that of the weights."""

import torch
from torch import Tensor


def softmax_backward(weights: Tensor, grad: Tensor) -> Tensor:
    # The Jacobian is diag(p) - p p^T. Times a vector it needs no m × m matrix: p^T u is a number.
    mean = torch.sum(weights * grad, dim=-1, keepdim=True)  # (..., 1)
    return weights * (grad - mean)  # (..., m)
