"""One step of decoding with a cache of keys and values."""

import torch
from torch import Tensor


def decode_step(
    query: Tensor, key: Tensor, value: Tensor, past_key: Tensor, past_value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    keys = torch.cat([past_key, key], dim=-2)  # (..., t + 1, d)
    values = torch.cat([past_value, value], dim=-2)  # (..., t + 1, d_v)
    # The newest token may see all there is, so causal attention needs no mask here.
    scores = query @ keys.mT / query.shape[-1] ** 0.5  # (..., 1, t + 1)
    return torch.softmax(scores, dim=-1) @ values, keys, values
