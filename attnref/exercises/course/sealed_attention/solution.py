"""Attention that lets nothing out from behind the mask, not even NaN."""

import torch
from torch import Tensor


def sealed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_token: Tensor,
) -> Tensor:
    # 0 * NaN is NaN, so a weight of 0 protects from nothing. What is padding is written over
    # before it meets anything; the gradient of the query reads the keys, so they are as well.
    padding = ~is_token[..., :, None]  # (..., m, 1)
    key, value = key.masked_fill(padding, 0.0), value.masked_fill(padding, 0.0)
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., n, m)
    scores = scores.masked_fill(~is_token[..., None, :], -torch.inf)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
