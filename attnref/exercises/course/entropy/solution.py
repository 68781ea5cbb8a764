"""The entropy of the weights."""

import torch
from torch import Tensor


def entropy(weights: Tensor) -> Tensor:
    # xlogy(0, 0) is 0, the limit of p ln p. 0 * log(0) would be 0 * -inf = NaN.
    return -torch.xlogy(weights, weights).sum(dim=-1)  # (...)
