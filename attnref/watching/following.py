"""What is known of a tensor on its way from the product of queries and keys to the values."""

import functools
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Products of queries and keys, and what was done to them since."""

    query: Tensor  # (b, n, d)
    key: Tensor  # (b, m, d)
    factor: float = 1.0
    added: tuple[Tensor, ...] = ()
    hidden: tuple[Tensor, ...] = ()  # where True
    shown: tuple[Tensor, ...] = ()  # where True, the rest is hidden
    lead: torch.Size | None = None  # samples and heads, while those were two axes
    bounded: float | None = None  # the factor before a hyperbolic tangent
    softcap: float | None = None
    sink: Tensor | None = None
    known: bool = True
    turned: bool = False  # (…, m, n)

    @property
    def plain(self) -> bool:
        """Whether nothing was done to them yet that a factor would reach, too."""
        return not (self.added or self.hidden or self.shown or self.softcap)

    def mask(self, lead: torch.Size) -> Tensor | Callable[[], Tensor] | None:
        """The mask of all that was added, hidden and shown, or what makes it."""
        given = [_of_heads(mask, lead) for mask in (*self.added, *self.shown)]
        hidden = [_of_heads(mask, lead) for mask in self.hidden]
        if len(given) == 1 and not hidden:
            return given[0]
        return functools.partial(_joined, given, hidden) if given or hidden else None


def _of_heads(mask: Tensor, lead: torch.Size) -> Tensor:
    """A mask for samples and heads as one axis, with two for them."""
    if mask.dim() == 3 and len(mask) == math.prod(lead) and len(mask) > 1:
        return mask.view(*lead, *mask.shape[1:])
    return mask


def _joined(given: list[Tensor], hidden: list[Tensor]) -> Tensor:
    """One that says what all of them say."""
    joined, *others = (*given, *(~each for each in hidden))
    for mask in others:
        if joined.dtype == mask.dtype == torch.bool:
            joined = joined & mask
        else:
            joined = _numbers(joined) + _numbers(mask)
    return joined


def _numbers(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -math.inf)


class Weights(NamedTuple):
    """What a softmax made of scores; both are held by the model alone."""

    scores: Scores
    input: "weakref.ref[Tensor]"  # what the softmax got
    output: "weakref.ref[Tensor]"
    shape: torch.Size  # of what is multiplied with the values
    known: bool = True
    dropped: float = 0.0
    turned: bool = False  # (…, m, n) by now
    laid: bool = False  # the same, when the softmax was taken


@dataclass
class Followed:
    """What is known of tensors, for as long as they live."""

    tensors: dict[int, tuple[weakref.ref[Tensor], int, Scores | Weights]] = field(
        default_factory=dict
    )
    writing: bool = False  # whether the operator changes its argument

    def get(self, tensor: object) -> Scores | Weights | None:
        """What that one is, None where nothing is known; if it was written to, how is unknown."""
        found = self.tensors.get(id(tensor))
        if found is None or not isinstance(tensor, Tensor) or found[0]() is not tensor:
            return None
        _, version, what = found
        if _version(tensor) <= version:
            return what
        return (
            replace(what, known=False) if isinstance(what, Scores) else what._replace(known=False)
        )

    def note(self, tensor: object, what: Scores | Weights) -> None:
        """That one is that."""
        if isinstance(tensor, Tensor):
            place = id(tensor)
            forget = functools.partial(_forget, weakref.ref(self), place)
            version = _version(tensor) + self.writing  # which is counted a little later
            self.tensors[place] = (weakref.ref(tensor, forget), version, what)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _forget(followed: "weakref.ref[Followed]", place: int, gone: "weakref.ref[Tensor]") -> None:
    known = followed()
    if known is not None and known.tensors.get(place, (None,))[0] is gone:
        del known.tensors[place]
