"""Multi-head self-attention from its four weights."""

import torch
from torch import Tensor


def multihead_attention(
    inputs: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    out_weight: Tensor,
    num_heads: int,
) -> Tensor:
    # One product projects for all heads; the heads are blocks of its columns.
    query, key, value = (
        torch.unflatten(inputs @ weight, -1, (num_heads, -1)).transpose(-3, -2)  # (..., h, n, d)
        for weight in (query_weight, key_weight, value_weight)
    )
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., h, n, n): d is the width of a head
    heads = torch.softmax(scores, dim=-1) @ value  # (..., h, n, d_v)
    joined = heads.transpose(-3, -2).flatten(-2)  # (..., n, h * d_v)
    return joined @ out_weight  # (..., n, D)
