"""All ranks learn whether they have the same mask: by how it was made, or else by its pairs."""

import functools
import hashlib
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from attnref.distributed._agreement import Terms, agree, gather_calls
from attnref.distributed._ranks import Ranks
from attnref.masks import Mask

_UNKNOWN = 0
_PAIRS_AT_ONCE = 2**20


def check_same_mask(mask: Mask, *groups: Ranks) -> None:
    """The masks of all ranks, of one shape already, allow the same pairs.

    Masks of :mod:`attnref.masks` that were made alike are the same: that costs 8 bytes to each
    other rank, and no look at their pairs. Every pair is looked at where they were made in
    different ways, or by a rule that cannot be read, such as a function of the caller's.
    """
    made = gather_calls(torch.tensor([_origin_digest(mask)], device="cpu"), groups)
    if bool((made == made[0]).all()) and int(made[0]) != _UNKNOWN:
        return

    def check() -> tuple[None, Terms]:
        return None, Terms({"content of attn_mask (allowed pairs, digest)": _content(mask)})

    agree(check, *groups)


def _origin_digest(mask: Mask) -> int:
    """A digest of functions and numbers that a mask was made of; 0 for one that has others."""
    try:
        written = repr(list(_parts(mask))).encode()
    except TypeError:
        return _UNKNOWN
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), signed=True)


def _parts(part: Any) -> Iterator[Any]:
    """All that decides what a rule answers.

    Raises:
        TypeError: for a part of another kind, whose answers may depend on what is not in it.
    """
    match part:
        case Mask():
            yield part.shape
            yield from _parts(part._rule)
        case functools.partial():
            for inner in (part.func, *part.args):
                yield from _parts(inner)
            if part.keywords:
                raise TypeError
        case MethodType(__self__=Mask()):
            yield part.__name__
            yield from _parts(part.__self__)
        case FunctionType(__module__=str(module)) if module.startswith("attnref.masks."):
            yield module, part.__qualname__
        case BuiltinFunctionType(__module__="_operator"):
            yield part.__name__
        case Tensor():
            yield part.dtype, part.shape, part.tolist()
        case int():
            yield part
        case _:
            raise TypeError


def _content(mask: Mask) -> tuple[int, str]:
    """How many pairs a mask allows, and a digest of which."""
    count, found = 0, hashlib.blake2b(digest_size=8)
    n, m = mask.shape[-2:]
    step = max(1, _PAIRS_AT_ONCE // max(1, torch.Size(mask.shape[:-2]).numel() * m))
    for start in range(0, n, step):
        allowed = mask.block(slice(start, start + step), slice(None), "cpu")
        count += int(allowed.count_nonzero())
        found.update(allowed.contiguous().numpy().tobytes())
    return count, found.hexdigest()
