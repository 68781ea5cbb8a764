"""A mask by blocks of rows: which keys each block skips, and where it must be added."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnref import checks, masks
from attnref.masks import EMPTY, FULL, MIXED, Mask

ROWS = 512  # queries a strip
CHUNK = 128  # keys that are skipped, or computed without a mask, together; it divides ROWS
LOG2_E = math.log2(math.e)

# Index of the heads that are computed together: of one head, or () for all of them.
Head = tuple[int, ...]


class Strip(NamedTuple):
    """What a mask says of one block of rows and one head, or of all heads at once.

    Attributes:
        rows: the block.
        stop: no query of it sees this key or a later one.
        least: for each chunk of keys the least of EMPTY, MIXED and FULL in any head.
        most: the most.
        bias: to be added to the scores, ``(..., rows, keys)``, where a chunk is not FULL.
        first: the key where the bias begins.
    """

    rows: slice
    stop: int
    least: list[int]
    most: list[int]
    bias: Tensor
    first: int

    def columns(self, most_keys: int) -> Iterator[slice]:
        """Neighbouring keys in chunks that are not EMPTY."""
        seen = [state != EMPTY for state in self.most]
        return self._neighbours(seen, 0, max(1, most_keys // CHUNK))

    def mask_(self, scores: Tensor, columns: slice) -> Tensor:
        """The scores ``(..., rows, columns)``, to which it adds the bias where not FULL."""
        begin, end = columns.start // CHUNK, math.ceil(columns.stop / CHUNK)
        mixed = [state != FULL for state in self.least[begin:end]]
        for part in self._neighbours(mixed, begin, len(mixed)) if any(mixed) else ():
            scores[..., part.start - columns.start : part.stop - columns.start] += self.bias[
                ..., part.start - self.first : part.stop - self.first
            ]
        return scores

    def _neighbours(self, chosen: Sequence[bool], begin: int, most: int) -> Iterator[slice]:
        """The keys of at most ``most`` neighbouring chunks, from ``begin`` on, that are chosen."""
        for is_chosen, group in itertools.groupby(chosen):
            end = begin + len(list(group))
            for first in range(begin, end, most) if is_chosen else ():
                yield slice(first * CHUNK, min(min(first + most, end) * CHUNK, self.stop))
            begin = end


def strips(
    shape: checks.Shape,
    attn_mask: Tensor | Mask | None,
    is_causal: bool,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[tuple[Head, Strip]]:
    """The strips of scores ``(..., n, m)``: of each block of rows, head by head.

    A GPU, which one head would leave idle, gets all heads of a block at once.
    """
    *lead, n, m = shape
    heads = list(itertools.product(*map(range, lead))) if in_turn(device) else [()]
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        stop = min(m, rows.stop) if is_causal else m
        # Without another mask, every query of the block sees the keys before this one.
        known = 0 if attn_mask is not None else min(start if is_causal else m, m)
        states = torch.full((math.ceil(known / CHUNK),), FULL, dtype=torch.int8, device="cpu")
        bias, first = torch.empty(0, 0, dtype=dtype, device=device), 0
        if known < stop:
            columns = slice(known, stop)
            allowed, added = _block(attn_mask, is_causal, rows, columns, device, dtype)
            new = _states(allowed, everything_mixed=added is not None)
            states = torch.cat([states.expand(*new.shape[:-1], -1), new], -1)
            extremes = enumerate(zip(*_extremes(new), strict=True))
            mixed = [index for index, (least, most) in extremes if least < FULL and most > EMPTY]
            if mixed:
                span = slice(mixed[0] * CHUNK, (mixed[-1] + 1) * CHUNK)
                # Added once made: to fill the scores of each head where it says so costs more.
                bias = torch.where(
                    allowed[..., span], 0.0 if added is None else added[..., span], -torch.inf
                ).to(dtype)
                first = known + span.start
        shared = _extremes(states) if states.dim() == 1 or heads == [()] else None
        for head in heads:
            least, most = shared or _extremes(_of_head(states, 1, lead, head))
            yield head, Strip(rows, stop, least, most, _of_head(bias, 2, lead, head), first)


def in_turn(device: torch.device) -> bool:
    """Whether heads are computed one after the other, in cache."""
    return device.type == "cpu"


def _block(
    attn_mask: Tensor | Mask | None,
    is_causal: bool,
    rows: slice,
    columns: slice,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    """Which pairs are allowed, ``(..., rows, columns)``, and what is added to their scores."""
    allowed, added = torch.ones((), dtype=torch.bool, device=device), None
    if is_causal:
        causal = masks.causal(rows.stop, columns.stop, alignment="top-left")
        allowed = causal.block(rows, columns, device)
    if isinstance(attn_mask, Mask):
        allowed = allowed & attn_mask.block(rows, columns, device)
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask[..., rows, columns]
    elif attn_mask is not None:
        added = attn_mask[..., rows, columns]
        # Before the unit: finfo.min, with which some mean a very small weight, is not -inf.
        allowed = allowed & (added != -torch.inf)
        added = (added.to(dtype) * LOG2_E).clamp(min=torch.finfo(dtype).min)
    return allowed, added


def _states(allowed: Tensor, *, everything_mixed: bool) -> Tensor:
    """EMPTY, MIXED or FULL for each chunk of keys of ``(..., rows, keys)``, on the processor."""
    width = math.ceil(allowed.shape[-1] / CHUNK)
    fill = (0, width * CHUNK - allowed.shape[-1])
    numbers = allowed.view(torch.uint8)  # whose extremes are found faster than any() and all()
    some = torch.nn.functional.pad(numbers.amax(-2), fill, value=0)  # (..., width * CHUNK)
    every = torch.nn.functional.pad(numbers.amin(-2), fill, value=1)
    some = some.reshape(*some.shape[:-1], width, CHUNK).amax(-1)  # (..., width)
    every = every.reshape(*every.shape[:-1], width, CHUNK).amin(-1)
    states: Tensor = some * MIXED if everything_mixed else some + every
    return states.to("cpu", torch.int8)


def _extremes(states: Tensor) -> tuple[list[int], list[int]]:
    """Minimum and maximum of each chunk over the leading dimensions."""
    if states.dim() == 1:
        return states.tolist(), states.tolist()
    rows = states.reshape(-1, states.shape[-1])
    return rows.amin(0).tolist(), rows.amax(0).tolist()


def _of_head(tensor: Tensor, own: int, lead: Sequence[int], head: Head) -> Tensor:
    """The part for one head of a tensor whose last ``own`` dimensions are its own."""
    return tensor.expand(*lead, *tensor.shape[tensor.dim() - own :])[head] if head else tensor
