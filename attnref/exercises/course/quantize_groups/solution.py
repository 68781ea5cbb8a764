"""Groups of components as eight-bit floats, each with a step of its own."""

import torch
from torch import Tensor


def quantize_groups(tokens: Tensor, group_size: int) -> Tensor:
    groups = tokens.reshape(*tokens.shape[:-1], -1, group_size)  # (..., d / group_size, group_size)
    step = groups.abs().amax(dim=-1, keepdim=True) / 448  # the largest number of e4m3
    step = torch.where(step == 0, 1.0, step)
    rounded = (groups / step).clamp(-448, 448).to(torch.float8_e4m3fn)
    return (rounded.float() * step).flatten(-2)  # (..., d)
