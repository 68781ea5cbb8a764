"""A softmax beside a learned sink for each head."""

import torch
from torch import Tensor


def sink_softmax(scores: Tensor, sink: Tensor) -> Tensor:
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)  # (..., h, n, 1)
    both = torch.cat([scores, column], dim=-1)  # (..., h, n, m + 1)
    powers = torch.exp(both - both.amax(dim=-1, keepdim=True))  # no power is above 1
    return (powers / powers.sum(dim=-1, keepdim=True))[..., :-1]  # (..., h, n, m)
