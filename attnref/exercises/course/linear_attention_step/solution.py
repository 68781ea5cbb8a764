"""Linear attention, one token at a time."""

import torch
from torch import Tensor
from torch.nn.functional import elu


def linear_attention_step(
    query: Tensor, key: Tensor, value: Tensor, key_value: Tensor, normaliser: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    query, key = elu(query) + 1, elu(key) + 1  # (..., d)
    # New tensors, not +=: the caller may go on from the old state in more than one way.
    key_value = key_value + key[..., :, None] * value[..., None, :]  # (..., d, d_v)
    normaliser = normaliser + key  # (..., d)
    above = (query[..., None, :] @ key_value).squeeze(-2)  # (..., d_v)
    below = torch.sum(query * normaliser, dim=-1, keepdim=True)  # (..., 1)
    return above / below, key_value, normaliser
