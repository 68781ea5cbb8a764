"""A gate for each component of what each head answers."""

import torch
from torch import Tensor


def gated_heads(
    inputs: Tensor,
    answers: Tensor,
    gate_weight: Tensor,
    out_weight: Tensor,
) -> Tensor:
    heads = answers.shape[-3]
    gates = torch.sigmoid(inputs @ gate_weight)  # (..., n, h * d_v)
    gates = torch.unflatten(gates, -1, (heads, -1)).transpose(-3, -2)  # (..., h, n, d_v)
    joined = (gates * answers).transpose(-3, -2).flatten(-2)  # (..., n, h * d_v)
    return joined @ out_weight  # (..., n, D)
