"""The gradients of attention, by hand."""

import torch
from torch import Tensor


def attention_backward(
    grad_output: Tensor, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    scale = query.shape[-1] ** -0.5
    weights = torch.softmax(scale * query @ key.mT, dim=-1)  # (..., n, m)
    # A product C = A B sends dA = dC B^T and dB = A^T dC; so backwards through O = P V, …
    grad_value = weights.mT @ grad_output  # (..., m, d_v)
    grad_weights = grad_output @ value.mT  # (..., n, m)
    # … through the softmax, row by row, …
    mean = torch.sum(weights * grad_weights, dim=-1, keepdim=True)  # (..., n, 1)
    grad_scores = weights * (grad_weights - mean)  # (..., n, m)
    # … and through S = c Q K^T, where the factor meets both sides.
    grad_query = scale * grad_scores @ key  # (..., n, d_k)
    grad_key = scale * grad_scores.mT @ query  # (..., m, d_k)
    return grad_query, grad_key, grad_value
