"""One token of the gated delta rule."""

import torch
from torch import Tensor


def delta_rule_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    # A new tensor, not *=: the caller may go on from the old state in more than one way.
    state = decay[..., None, None] * state  # (..., d, d_v)
    told = torch.sum(key[..., :, None] * state, dim=-2)  # (..., d_v)
    change = beta[..., None] * (value - told)
    state = state + key[..., :, None] * change[..., None, :]
    output = torch.sum(query[..., :, None] * state, dim=-2) / query.shape[-1] ** 0.5
    return output, state
