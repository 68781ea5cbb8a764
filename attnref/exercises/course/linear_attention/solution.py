"""Causal linear attention."""

import torch
from torch import Tensor
from torch.nn.functional import elu


def linear_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query, key = elu(query) + 1, elu(key) + 1  # (..., n, d), positive
    products = key[..., :, None] * value[..., None, :]  # (..., n, d, d_v), one per token
    # Running sums are what makes it causal: sum i holds the tokens 0 … i, and no more.
    sums = torch.cumsum(products, dim=-3)  # (..., n, d, d_v)
    normaliser = torch.cumsum(key, dim=-2)  # (..., n, d)
    above = torch.einsum("...nd,...ndv->...nv", query, sums)  # (..., n, d_v)
    below = torch.sum(query * normaliser, dim=-1, keepdim=True)  # (..., n, 1)
    return above / below
