"""Numbers beside the numbers that were expected."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

READABLE = 64  # numbers of a tensor that are printed


class Miss(NamedTuple):
    """The number that differs most from what was expected, in units of what is allowed."""

    place: tuple[int, ...]
    got: float
    expected: float
    allowed: float

    def values(self) -> dict[str, object]:
        """For the places of a text; numbers that differ are written so."""
        got, expected = distinguish(self.got, self.expected)
        return {
            "index": list(self.place),
            "got": got,
            "expected": expected,
            "allowed": self.allowed,
        }


class Told(float):
    """A number that is written with ``digits`` at least, whatever a text asks for."""

    digits = 0

    def __format__(self, spec: str) -> str:
        asked = spec.removeprefix(".").removesuffix("g")
        if spec.endswith("g") and asked.isdigit() and int(asked) < self.digits:
            spec = f".{self.digits}g"
        return format(float(self), spec)


def distinguish(*numbers: float) -> list[float]:
    """The same numbers, to be written with as many digits as it takes to tell them apart.

    Examples:
        >>> "{:.4g} and {:.4g}".format(*distinguish(1.0, 1.00002))
        '1 and 1.00002'
    """
    digits = next(
        (n for n in range(3, 17) if len({f"{x:.{n}g}" for x in numbers}) == len(set(numbers))), 17
    )
    told = [Told(number) for number in numbers]
    for each in told:
        each.digits = digits
    return list(told)


def miss(got: Tensor, expected: Tensor, allowance: Tensor | float) -> Miss | None:
    """The worst number out of those beyond their allowance, None when there is none.

    Where NaN or inf is got and not expected, no allowance suffices; NaN that is expected is no
    miss, for a function that always answers NaN does not differ from itself.
    """
    error = (got - expected).abs()
    allowed = torch.as_tensor(allowance, dtype=torch.float64).expand(error.shape)
    same = (got == expected) | (got.isnan() & expected.isnan())
    bad = ~(error <= allowed) & ~same
    if not bad.any():
        return None
    excess = torch.where(bad, error / allowed.clamp(min=1e-300), -1.0)
    excess = excess.nan_to_num(nan=torch.inf)
    index = argmax_index(excess)
    return Miss(index, float(got[index]), float(expected[index]), float(allowed[index]))


def argmax_index(tensor: Tensor) -> tuple[int, ...]:
    """Where the largest number is, the first of them.

    PyTorch's ``unravel_index`` first imports what PyTorch compiles with, for a second or two.
    """
    return tuple(map(int, np.unravel_index(int(tensor.argmax()), tensor.shape)))


def simplify(value: object) -> object:
    """Numbers in nested lists, or the shape of a tensor too large to be read."""
    if not isinstance(value, Tensor):
        return value
    kind = str(value.dtype).removeprefix("torch.")
    if value.numel() > READABLE or value.is_meta:
        return f"{kind}, shape {tuple(value.shape)}"
    return value.detach().cpu().tolist()
