"""Products in the dtype of their tensors, whatever autocast is set to."""

from contextlib import AbstractContextManager, nullcontext

import torch


def own_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products keep the dtype of their tensors."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
