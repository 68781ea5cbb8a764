"""Attention with PyTorch's attn_mask, of bools or of numbers."""

import torch
from torch import Tensor


def biased_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., n, m)
    if attn_mask is None:
        pass  # everybody may look at everything
    elif attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    else:
        scores = scores + attn_mask  # -inf forbids here too, and needs no line of its own
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
