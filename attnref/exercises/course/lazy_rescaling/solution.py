"""A step of the online softmax that rescales only where the maximum has risen by enough."""

import torch
from torch import Tensor


def lazy_rescaling(
    scores: Tensor, value: Tensor, top: Tensor, normaliser: Tensor, sums: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    highest = torch.maximum(top, scores.amax(-1, keepdim=True))  # (n, 1)
    # Row by row. At the first block top is -inf, and the rise is infinite.
    new = torch.where(highest - top > 8, highest, top)
    factor = torch.exp2(top - new)  # 1 where top stays, 0 at the first block
    powers = torch.exp2(scores - new)  # (n, B), none above 2**8
    normaliser = factor * normaliser + powers.sum(-1, keepdim=True)
    return new, normaliser, factor * sums + powers @ value
