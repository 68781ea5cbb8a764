"""A rank's queries against one block of keys after another, wherever the blocks come from."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnref._door import Call
from attnref.layouts import Held, visible
from attnref.masks import EMPTY, FULL, MIXED, Mask
from attnref.masks.mask import part_of
from attnref.softmax import Partial, merge
from attnref.variants._gradients import gradients
from attnref.variants.blockwise import partial

_PAIRS_AT_ONCE = 2**20  # of a mask that is asked whether it holds any


class Tile(NamedTuple):
    """Neighbouring queries and keys, as they are numbered on their ranks, that see each other."""

    rows: slice
    columns: slice
    is_causal: bool  # row a of the tile sees its columns b <= a
    mask: Mask | None  # over the tile alone


class Tiles(NamedTuple):
    """The tiles of a rank's queries with the keys of each rank, the options of a call with them."""

    by_source: Sequence[Sequence[Tile]]
    scale: float
    enable_gqa: bool


def tiles(queries: Held, keys: Held, *, is_causal: bool, mask: Mask | None) -> list[Tile]:
    """What is left of two lists of positions when pairs that are not allowed are cut away."""
    found, row = [], 0
    for q in queries:
        column = 0
        for k in keys:
            for rows, columns, triangle in visible(q, k, is_causal=is_causal):
                part = None if mask is None else part_of(mask, q[rows], k[columns])
                state = FULL if part is None else _state(part)
                if state != EMPTY:
                    own = _moved(rows, row), _moved(columns, column)
                    found.append(Tile(*own, triangle, part if state == MIXED else None))
            column += len(k)
        row += len(q)
    return found


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _state(mask: Mask) -> int:
    """Whether a mask allows no pair, some or all, looking no further than needed."""
    n, m = mask.shape[-2:]
    step = max(1, _PAIRS_AT_ONCE // m)
    some, every = False, True
    for start in range(0, n, step):
        allowed = mask.block(slice(start, start + step), slice(0, m), "cpu")
        some, every = some or bool(allowed.any()), every and bool(allowed.all())
        if some and not every:
            return MIXED
    return FULL if every else EMPTY


# A rank, its keys and its values.
Block = tuple[int, Tensor, Tensor]


def attended(tiles: Tiles, query: Tensor, d_v: int, blocks: Iterable[Block]) -> Partial:
    """Attention of ``query`` to all blocks, in the dtype of computation."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    sums = query.new_zeros(*query.shape[:-1], 1, dtype=dtype)  # (..., n, 1)
    output = sums.new_zeros(*query.shape[:-1], d_v)  # (..., n, d_v)
    found = Partial(output, torch.full_like(sums, -torch.inf), sums)
    for source, key, value in blocks:
        for tile in tiles.by_source[source]:
            seen = _rows(found, tile)
            more = partial(_call(tiles, tile, query, key, value))
            for old, new in zip(seen, merge(seen, more), strict=True):
                old.copy_(new)
        del key, value  # or the next ones would come while these are here
    return found


def pulled(
    tiles: Tiles, source: int, grad: Tensor, query: Tensor, key: Tensor, value: Tensor,
    found: Partial, d_query: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients that this rank gives a block; what the block gives the queries is added."""
    d_key, d_value = (torch.zeros_like(x, dtype=found.output.dtype) for x in (key, value))
    for tile in tiles.by_source[source]:
        call = _call(tiles, tile, query, key, value)
        d_q, d_k, d_v = gradients(call, grad[..., tile.rows, :], _rows(found, tile))
        d_query[..., tile.rows, :] += d_q
        d_key[..., tile.columns, :] += d_k
        d_value[..., tile.columns, :] += d_v
    return d_key, d_value


def _rows(found: Partial, tile: Tile) -> Partial:
    return Partial(*(x[..., tile.rows, :] for x in found))


def _call(tiles: Tiles, tile: Tile, query: Tensor, key: Tensor, value: Tensor) -> Call:
    """A tile as a call of its own, in the dtype of computation."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    q = query[..., tile.rows, :].to(dtype)
    k, v = (x[..., tile.columns, :].to(dtype) for x in (key, value))
    shape = (*query.shape[:-2], q.shape[-2], k.shape[-2])
    options = tile.mask, tile.is_causal, tiles.scale, tiles.enable_gqa
    return Call(q, k, v, *options, shape)
