"""Numbers beside the numbers that were expected."""

from typing import NamedTuple

import torch
from torch import Tensor

_READABLE = 64  # numbers of a tensor that are printed


class Miss(NamedTuple):
    """The number that differs most from what was expected, in units of what is allowed."""

    place: tuple[int, ...]
    got: float
    expected: float
    allowed: float

    def values(self) -> dict[str, object]:
        """For the places of a text."""
        return {
            "index": list(self.place),
            "got": self.got,
            "expected": self.expected,
            "allowed": self.allowed,
        }


def miss(got: Tensor, expected: Tensor, allowance: Tensor | float) -> Miss | None:
    """The worst number out of those beyond their allowance, None when there is none.

    Where NaN or inf is got, no allowance suffices.
    """
    error = (got - expected).abs()
    allowed = torch.as_tensor(allowance, dtype=torch.float64).expand(error.shape)
    bad = ~(error <= allowed)
    if not bad.any():
        return None
    excess = torch.where(bad, error / allowed.clamp(min=1e-300), -1.0)
    excess = excess.nan_to_num(nan=torch.inf)
    flat = int(excess.flatten().argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), error.shape))
    return Miss(index, float(got[index]), float(expected[index]), float(allowed[index]))


def plain(value: object) -> object:
    """Numbers in nested lists, or the shape of a tensor too large to be read."""
    if not isinstance(value, Tensor):
        return value
    kind = str(value.dtype).removeprefix("torch.")
    if value.numel() > _READABLE or value.is_meta:
        return f"{kind}, shape {tuple(value.shape)}"
    return value.detach().cpu().tolist()
