"""A step of latent attention with its matrices absorbed."""

import torch
from torch import Tensor


def absorbed_step(
    query: Tensor,
    latents: Tensor,
    key_up: Tensor,
    value_up: Tensor,
) -> Tensor:
    # q · U c = Uᵀ q · c: the query goes to the latents, once for all tokens.
    moved = (query[..., None, :] @ key_up)[..., 0, :]  # (..., h, d_c)
    scores = moved @ latents.mT / query.shape[-1] ** 0.5  # (..., h, m)
    averages = torch.softmax(scores, dim=-1) @ latents  # (..., h, d_c)
    return (averages[..., None, :] @ value_up.mT)[..., 0, :]  # (..., h, d_v)
