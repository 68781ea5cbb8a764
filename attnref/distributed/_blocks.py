"""A rank's queries against one block of keys after another, wherever the blocks come from."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnref.layouts import Held, visible_pairs
from attnref.masks import EMPTY, FULL, MIXED, Mask
from attnref.masks.mask import slice_mask
from attnref.softmax import Partial
from attnref.variants import _tiled as engine
from attnref.variants._kernels import side_by_side
from attnref.variants._tiled import Inputs
from attnref.variants._tiled import Tile as EngineTile
from attnref.variants.blockwise import tiles_of

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
            for rows, columns, triangle in visible_pairs(q, k, is_causal=is_causal):
                part = None if mask is None else slice_mask(mask, q[rows], k[columns])
                state = FULL if part is None else _state(part)
                if state != EMPTY:
                    own = _shift(rows, row), _shift(columns, column)
                    found.append(Tile(*own, triangle, part if state == MIXED else None))
            column += len(k)
        row += len(q)
    return found


def _shift(part: slice, by: int) -> slice:
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


def attend_blocks(tiles: Tiles, query: Tensor, d_v: int, blocks: Iterable[Block]) -> Partial:
    """Attention of ``query`` to all blocks, in the dtype of computation."""
    wide = torch.promote_types(query.dtype, torch.float32)
    found = engine.empty_partial(query.detach(), d_v, dtype=wide)
    for source, key, value in blocks:
        if query.is_meta:  # there are no numbers, but messages
            continue
        inputs = _prepare(tiles, wide, query, key, value)
        own = _tiles(tiles, source, inputs)
        found = engine.forward(own, tiles.scale, inputs, found)
        del key, value, inputs, own  # or the next ones would come while these are here
    return found


def pull_back(
    tiles: Tiles, source: int, grad: Tensor, query: Tensor, key: Tensor, value: Tensor,
    found: Partial, d_query: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients that this rank gives a block; what the block gives the queries is added."""
    inputs = _prepare(tiles, grad.dtype, query, key, value)
    own = _tiles(tiles, source, inputs)
    _, *gradients = engine.backward(own, tiles.scale, grad, inputs, found, d_query)
    d_key, d_value = (
        _sum_query_heads(tiles, x, like) for x, like in zip(gradients, (key, value), strict=True)
    )
    return d_key, d_value


def _prepare(tiles: Tiles, dtype: torch.dtype, query: Tensor, *block: Tensor) -> Inputs:
    """Query, key and value in the dtype of computation, a key head for each query head."""
    if tiles.enable_gqa:
        block = tuple(x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in block)
    block = tuple(x.expand(*query.shape[:-2], *x.shape[-2:]) for x in block)
    return Inputs(*(side_by_side(x.to(dtype)) for x in (query, *block)))


def _sum_query_heads(tiles: Tiles, gradient: Tensor, like: Tensor) -> Tensor:
    """A key head has the gradients of all query heads that it serves, which broadcast to it."""
    if tiles.enable_gqa:
        heads, all_heads = like.shape[-3], gradient.shape[-3]
        gradient = torch.unflatten(gradient, -3, (heads, all_heads // heads)).sum(-3)
    return gradient.sum_to_size(like.shape)


def _tiles(tiles: Tiles, source: int, inputs: Inputs) -> Iterator[EngineTile]:
    """The tiles of one block, as the engine takes them."""
    for rows, columns, is_causal, mask in tiles.by_source[source]:
        query = inputs.query
        shape = (*query.shape[:-2], rows.stop - rows.start, columns.stop - columns.start)
        yield from tiles_of(
            shape, mask, is_causal, query,
            held=engine.holds(query), rows=rows.start, columns=columns.start, again=True,
        )  # fmt: skip
