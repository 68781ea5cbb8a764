"""The maximum and the sum of a softmax in one pass over blocks."""

from collections.abc import Iterable

import torch
from torch import Tensor


def online_softmax(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    maximum = torch.tensor(-torch.inf)
    normaliser = torch.tensor(0.0)
    for block in blocks:
        previous, maximum = maximum, torch.maximum(maximum, block.max())
        # The sum so far was taken against the previous maximum. One factor corrects all of its
        # terms; it is exp(-inf) = 0 at the first block, where there are none.
        normaliser = normaliser * torch.exp(previous - maximum)
        normaliser = normaliser + torch.exp(block - maximum).sum()
    return maximum, normaliser
