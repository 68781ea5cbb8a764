"""A step of decoding whose keys and values are found through block tables."""

import torch
from torch import Tensor


def paged_step(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    block_table: Tensor,
    lengths: Tensor,
) -> Tensor:
    size = key_pages.shape[1]
    j = torch.arange(block_table.shape[1] * size)
    pages = block_table[:, j // size]  # (b, places)
    keys = key_pages[pages, j % size]  # (b, places, h, d)
    values = value_pages[pages, j % size]  # (b, places, h, d_v)
    held = j < lengths[:, None]  # (b, places): beyond it nothing has been written
    values = torch.where(held[:, :, None, None], values, 0.0)
    scores = torch.einsum("bhd,bjhd->bhj", query, keys) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~held[:, None], -torch.inf)
    return torch.einsum("bhj,bjhd->bhd", torch.softmax(scores, dim=-1), values)
