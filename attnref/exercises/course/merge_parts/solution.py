"""Merging attention over two sets of keys."""

import torch
from torch import Tensor


def merge_parts(
    output_1: Tensor, lse_1: Tensor, output_2: Tensor, lse_2: Tensor
) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(lse_1, lse_2)  # (..., n)
    # exp(lse_1 - lse) is the share of the first set. Where neither set has keys, -inf - -inf
    # would be NaN: there nothing is subtracted, and both shares are exp(-inf) = 0.
    total = lse.masked_fill(lse == -torch.inf, 0.0)
    share_1, share_2 = (torch.exp(part - total)[..., None] for part in (lse_1, lse_2))
    return share_1 * output_1 + share_2 * output_2, lse  # (..., n, d_v), (..., n)
