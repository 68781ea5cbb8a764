"""Attention with its scale factor."""

import torch
from torch import Tensor


def scaled_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    if scale is None:  # and not `if not scale`: 0 is a scale too
        scale = query.shape[-1] ** -0.5
    # The query is smaller than the scores, and small numbers stay far from overflow.
    scores = (query * scale) @ key.mT  # (..., n, m)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
