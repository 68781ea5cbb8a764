"""Attention whose query heads share keys and values."""

import torch
from torch import Tensor


def grouped_query_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    heads, key_heads = query.shape[-3], key.shape[-3]
    # The queries of a group are side by side before their one key head, of size 1: nothing
    # has to be copied.
    grouped = torch.unflatten(query, -3, (key_heads, heads // key_heads))  # (..., h_kv, g, n, d)
    key, value = key.unsqueeze(-3), value.unsqueeze(-3)  # (..., h_kv, 1, m, d)
    scores = grouped @ key.mT / query.shape[-1] ** 0.5  # (..., h_kv, g, n, m)
    output = torch.softmax(scores, dim=-1) @ value  # (..., h_kv, g, n, d_v)
    return output.flatten(-4, -3)  # (..., h, n, d_v)
