"""Attention that leaves forbidden keys out."""

import torch
from torch import Tensor


def masked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor,
) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., n, m)
    # exp(-inf) is exactly 0, and the softmax divides by what is left: the mask acts before it.
    scores = scores.masked_fill(~attn_mask, -torch.inf)  # (..., n, m)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
