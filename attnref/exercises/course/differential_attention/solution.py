"""The difference of two softmax attentions to the same values."""

import torch
from torch import Tensor


def differential_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    factor: float,
) -> Tensor:
    maps = []
    for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True):
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (..., n, m): d is the width of one half
        maps.append(torch.softmax(scores, dim=-1))
    return (maps[0] - factor * maps[1]) @ value  # (..., n, d_v)
