"""Self-attention of a batch of sentences of different lengths."""

import torch
from torch import Tensor


def padded_batch(inputs: Tensor, lengths: Tensor) -> Tensor:
    n, d = inputs.shape[-2:]
    is_token = torch.arange(n) < lengths[:, None]  # (b, n)
    scores = inputs @ inputs.mT / d**0.5  # (b, n, n)
    scores = scores.masked_fill(~is_token[:, None, :], -torch.inf)  # as keys: columns
    output = torch.softmax(scores, dim=-1) @ inputs  # (b, n, d)
    return output.masked_fill(~is_token[:, :, None], 0.0)  # as queries: rows
