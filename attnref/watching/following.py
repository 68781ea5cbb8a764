"""What is known of a tensor on its way from the product of queries and keys to the values.

Its axes may be laid in any order on the way: ``order`` says which is which. In their usual order
the last one has the keys, the one before it the queries, and all others samples and heads.
"""

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

Order = tuple[int, ...]  # of each axis its number in the usual order, -1 for one that was put in


@dataclass(frozen=True)
class Laid:
    """What was added to scores or hides some, and how the scores lay then.

    Attributes:
        kind: ``added``, ``hidden`` where it is True, or ``shown``, which hides the rest.
        turned: whether queries and keys have changed their roles since.
    """

    kind: str
    tensor: Tensor
    shape: tuple[int, ...]
    order: Order
    turned: bool = False

    def on(self, shape: Sequence[int]) -> Tensor:
        """The same for scores of the usual order, ``(…, n, m)``, broadcast where it was."""
        given = self.tensor
        if self.kind == "hidden":
            given = ~given
        if self.shape == tuple(shape) and not self.turned and is_usual(self.order):
            return given
        given = usual(given.expand(self.shape), self.order)
        *lead, n, m = shape
        if given.shape[-1] > (n if self.turned else m):
            given = given[..., :m]  # a sink is no key
        return given.reshape(*lead, m, n).mT if self.turned else given.reshape(shape)


@dataclass(frozen=True)
class Scores:
    """Products of queries and keys, and what was done to them since."""

    query: Tensor  # (b, n, d)
    key: Tensor  # (b, m, d)
    order: Order
    factor: float = 1.0
    laid: tuple[Laid, ...] = ()
    fill: float = -math.inf  # the largest number that hides
    bounded: float | None = None  # the factor before a hyperbolic tangent
    softcap: float | None = None
    sink: Tensor | None = None
    first: bool = False  # whether the sink comes before the keys
    known: bool = True

    @property
    def plain(self) -> bool:
        """Whether nothing was done to them yet that a factor would reach, too."""
        return not self.laid and self.softcap is None

    def turn(self) -> "Scores":
        """With queries and keys in each other's roles."""
        last = len(self.order) - 1 if is_usual(self.order) else max(self.order)
        names = {last: last - 1, last - 1: last}
        return replace(
            self,
            query=self.key,
            key=self.query,
            order=tuple(names.get(each, each) for each in self.order),
            laid=tuple(replace(each, turned=not each.turned) for each in self.laid),
        )

    def lay(self, kind: str, tensor: Tensor, shape: torch.Size) -> "Scores":
        """With something more that was added, or hides."""
        return replace(self, laid=(*self.laid, Laid(kind, tensor, tuple(shape), self.order)))

    def mask(self, shape: Sequence[int]) -> Tensor | Callable[[], Tensor] | None:
        """The mask of all that was laid on scores of that shape, or what makes it."""
        if len(self.laid) == 1 and self.laid[0].kind != "hidden":
            (one,) = self.laid
            if one.shape == tuple(shape):
                return one.on(shape)
        return functools.partial(_joined, self.laid, tuple(shape)) if self.laid else None


@dataclass(frozen=True)
class Weights:
    """What a softmax made of scores; both are held by the model alone."""

    scores: Scores
    order: Order
    input: "weakref.ref[Tensor]"  # what the softmax got
    output: "weakref.ref[Tensor]"
    made: Order  # the order of both then
    place: str  # where that was
    known: bool = True
    dropped: float = 0.0
    products: list[str] = field(default_factory=list)  # with values, which one softmax has once


def is_usual(order: Order) -> bool:
    """Whether the axes lie in their usual order."""
    return order == tuple(range(len(order)))


def is_sorted(order: Order, shape: Sequence[int]) -> bool:
    """The same, but for axes of one."""
    long = [each for each, size in zip(order, shape, strict=True) if size > 1]
    return long == sorted(long)


def usual(tensor: Tensor, order: Order) -> Tensor:
    """In the usual order of axes; those that were put in are gone, those taken out are there."""
    if is_usual(order):
        return tensor
    kept = sorted((each, axis) for axis, each in enumerate(order) if each >= 0)
    rest = [axis for axis, each in enumerate(order) if each < 0]
    moved = tensor.permute([*(axis for _, axis in kept), *rest])
    sizes = {each: tensor.shape[axis] for each, axis in kept}
    return moved.reshape([sizes.get(each, 1) for each in range(1 + max(order))])


def tidy(order: Order, shape: Sequence[int]) -> Order:
    """The usual one, if only axes of one are out of place."""
    places = zip(order, shape, range(len(shape)), strict=True)
    whole = len(shape) == 1 + max(order) and all(size == 1 or each == i for each, size, i in places)
    return tuple(range(len(shape))) if whole else order


def reshaped(order: Order, before: Sequence[int], after: Sequence[int]) -> Order | None:
    """The order after axes were divided, joined, put in or taken out; None where that is lost."""
    last = max(order)
    long = [(each, size) for each, size in zip(order, before, strict=True) if size > 1]
    left = [axis for axis, size in enumerate(after) if size > 1]
    kept = [each for each in long if each[0] >= last - 1]  # queries and keys
    if is_sorted(order, before) and kept and left and kept[-1] == (last, after[left[-1]]):
        keys = left[-1]
        beside = keys - 1 if keys and after[keys - 1] == 1 else keys
        # Heads that share keys may have been joined with the queries, which come after them.
        queries = left[-2] if len(kept) == 2 and len(left) > 1 else beside
        found = [-1] * len(after)
        found[:queries] = range(queries)
        if queries < keys:
            found[queries] = queries
        found[keys] = queries + 1
        return tidy(tuple(found), after)
    if [size for _, size in long] == [after[axis] for axis in left]:
        names = iter(each for each, _ in long)
        return tidy(tuple(next(names) if size > 1 else -1 for size in after), after)
    if is_usual(order):
        return tuple(range(len(after)))  # queries or keys were divided, or will be whole again
    # Samples and heads alone, beside queries and keys in each other's places.
    if len(after) < 2 or tuple(before[-2:]) != tuple(after[-2:]):
        return None
    if order[:-2] != tuple(range(last - 1)):
        return None
    moved = len(after) - len(before)
    return (*range(len(after) - 2), *(each + moved for each in order[-2:]))


def _joined(laid: Sequence[Laid], shape: Sequence[int]) -> Tensor:
    """One mask that says what all of them say."""
    joined, *others = (each.on(shape) for each in laid)
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
        return what if _version(tensor) <= version else replace(what, known=False)

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
