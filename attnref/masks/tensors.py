"""Masks that are tensors: bools, or numbers that are added to the scores."""

import torch
from torch import Tensor


def combine_masks(one: Tensor, other: Tensor) -> Tensor:
    """Two masks, boolean or additive, as one that does what both do."""
    if one.dtype == torch.bool and other.dtype == torch.bool:
        return one & other
    if one.dtype == torch.bool:
        one, other = other, one
    if other.dtype == torch.bool:
        return torch.where(other, one, -torch.inf)
    return one + other


def cast_mask(bias: Tensor, dtype: torch.dtype) -> Tensor:
    """A float mask in another dtype, in which what was finite stays so: it forbids nothing."""
    added = bias.to(dtype)
    if bias.itemsize <= added.itemsize:
        return added
    return added.clamp(min=torch.finfo(dtype).min).masked_fill(bias == -torch.inf, -torch.inf)
