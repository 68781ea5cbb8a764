"""The padding mask of a batch."""

import torch
from torch import Tensor


def padding_mask(lengths: Tensor, m: int) -> Tensor:
    is_token = torch.arange(m) < lengths[:, None]  # (b, m)
    # Scores are (b, h, n, m): one row of keys per sample, for all its heads and queries.
    return is_token[:, None, None, :]  # (b, 1, 1, m)
