"""What a function's mask says, in what shape, and how PyTorch's is turned into one."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from attnref.text import Text

HEADS = Text("is one for all heads")
QUERIES = Text("is one for all queries")
BOOLS = Text("says yes or no")


class CannotSay(Exception):
    """A mask of the function says less than this; ``what`` is all that it does.

    Nobody has called the function then, so that this is no refusal of its own.
    """

    def __init__(self, what: Text) -> None:
        super().__init__(what)
        self.what = what


def _full_mask(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return mask.expand(sizes)


def _sample_mask(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _check_same(mask.expand(sizes), 1)[:, 0]


def _sample_mask_last(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _sample_mask(mask, sizes).movedim(0, -1)


def _key_mask(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _check_same(_check_same(mask.expand(sizes), 1), 2)[:, :1, :1]


def _flat_key_mask(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _key_mask(mask, sizes)[:, 0, 0]


def _check_same(mask: Tensor, axis: int) -> Tensor:
    if not bool((mask == mask.narrow(axis, 0, min(1, mask.shape[axis]))).all()):
        raise CannotSay(HEADS if axis == 1 else QUERIES)
    return mask


FORMS: Mapping[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "(n, m)": lambda mask, sizes: mask,
    "(b, h, n, m)": _full_mask,
    "(b, n, m)": _sample_mask,
    "(b, 1, 1, m)": _key_mask,
    "(b, m)": _flat_key_mask,
    "(n, m, b)": _sample_mask_last,
}
"""The shapes of masks that a function may insist on, in the order in which they are tried."""


SAME: Mapping[str, tuple[int, ...]] = {
    "(b, n, m)": (-3,),
    "(b, 1, 1, m)": (-3, -2),
    "(b, m)": (-3, -2),
    "(n, m, b)": (-3,),
}
"""The axes along which such masks are one."""


class Meaning(NamedTuple):
    """What a mask says, and how PyTorch's is turned into one."""

    said: Text
    turned: Callable[[Tensor], Tensor]


def _yes_or_no(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise CannotSay(BOOLS)
    return mask


def _to_bias(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -torch.inf)


MEANINGS: Mapping[str, Meaning] = {
    "allowed": Meaning(Text("True = may attend"), lambda mask: mask),
    "bools": Meaning(  # the same, and no numbers
        Text("True = may attend"), lambda mask: _yes_or_no(mask)
    ),
    "forbidden": Meaning(Text("True = forbidden"), lambda mask: ~_yes_or_no(mask)),
    "ones": Meaning(
        Text("1 = may attend, 0 = forbidden"),
        lambda mask: _yes_or_no(mask).float(),
    ),
    "added": Meaning(Text("added to the scores"), _to_bias),
}
"""By their names, in the order in which they are tried."""


def window_pair(window: int) -> tuple[int, int]:
    """As many keys, that of the query included, as a count to the left, and one to the right.

    Examples:
        >>> window_pair(3)
        (2, 0)
    """
    return window - 1, 0
