"""Products in the dtype of their tensors, whatever autocast is set to."""

from contextlib import AbstractContextManager, nullcontext

import torch


def own_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products keep the dtype of their tensors."""
    return torch.autocast(device.type, enabled=False) if is_autocast(device) else nullcontext()


def is_autocast(device: torch.device) -> bool:
    """Whether products there are made in the dtype of autocast; meta has none."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
