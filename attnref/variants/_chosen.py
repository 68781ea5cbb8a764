r"""Attention under a chosen set of keys for each query: pairs that were not chosen cost nothing.

Two cores. Where blocks of keys are chosen, each block meets the queries that chose it, and a
query's averages over its blocks are merged as they come. Where single keys are chosen, each query
has its own gathered beside it, once for all heads that share them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref.checks import Shape, check_flag, check_integer
from attnref.masks import Mask
from attnref.variants._tiled import Plan, Tile

_NUMBERS_AT_ONCE = 2**20  # of gathered keys and values, which should stay in cache


def check_past(past: int, is_causal: bool) -> int | None:
    """The position of the first query; None where positions do not count."""
    check_flag("is_causal", is_causal, "Pass is_causal=True if queries sit among the keys.")
    past = check_integer("past", past, 0, "It is the number of keys before the first query's own.")
    if past and not is_causal:
        raise ValueError(
            f"past: expected 0 without is_causal, got {past}. Where no query sits among the keys "
            "every key may be chosen; pass is_causal=True if query i is the token past + i."
        )
    return past if is_causal else None


def block_means(tokens: Tensor, block_size: int) -> Tensor:
    """The mean of each block of B tokens, ``(..., ceil(m / B), d)``; the last may be shorter."""
    m = tokens.shape[-2]
    block_size = min(block_size, max(m, 1))  # or a short text would be filled up to a block
    blocks = math.ceil(m / block_size)
    filled = pad(tokens, (0, 0, 0, blocks * block_size - m))
    shrink = 0.5 ** (block_size - 1).bit_length()  # a power of two: no sum of B numbers overflows
    sums = torch.unflatten(filled * shrink, -2, (blocks, block_size)).sum(-2)  # (..., blocks, d)
    first = block_size * torch.arange(blocks, device=tokens.device)
    sizes = (m - first).clamp(max=block_size)[:, None]
    return torch.div(sums, sizes * shrink)


def top_places(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Where the ``count`` largest are, ``(..., n, k)``, and which of these places are not -inf.

    A NaN counts as the largest, so that it shows in the output.
    """
    best, places = scores.topk(min(count, scores.shape[-1]))
    return places, best != -torch.inf


def blocks_mask(chosen: Tensor, block_size: int, m: int, past: int | None) -> Mask:
    """Bool ``(..., n, blocks)``, the blocks of each query, as a mask ``(..., n, m)``."""
    shape = (*chosen.shape[:-1], m)
    return Mask(shape, partial(_pairs_in_blocks, chosen, block_size, past))


def _pairs_in_blocks(
    chosen: Tensor, block_size: int, past: int | None, i: Tensor, j: Tensor
) -> Tensor:
    allowed = chosen.to(i.device)[..., i, j // block_size]
    return allowed if past is None else allowed & (j <= i + past)


def keys_mask(places: Tensor, valid: Tensor, m: int) -> Mask:
    """The keys of each query, ``(..., n, k)``, as a mask ``(..., n, m)``."""
    zeros = torch.zeros(*places.shape[:-1], m, dtype=torch.int64, device=places.device)
    # Added up, for a place that does not count may be that of a key that does.
    allowed = zeros.scatter_add(-1, places, valid.long()) > 0
    return Mask(tuple(allowed.shape), partial(_pairs_of_table, allowed))


def _pairs_of_table(allowed: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return allowed.to(i.device)[..., i, j]


@dataclass(frozen=True)
class ChosenBlocks(Plan):
    """Each block of keys against the queries of each head that chose it, ``(..., n, blocks)``."""

    block_size: int
    past: int | None
    flat = True

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        *lead, n, m = shape
        heads, blocks, device = math.prod(lead), masks[0].shape[-1], like.device
        chosen = masks[0].expand(*lead, n, blocks).reshape(heads, n, blocks)
        counts = chosen.sum(-2).mT  # (blocks, heads)
        before = (counts.flatten().cumsum(0) - counts.flatten()).view(blocks, heads)
        places = torch.split(chosen.permute(2, 0, 1).nonzero(), counts.sum(-1).tolist())
        for block, (_, head, query) in enumerate(x.mT for x in places):
            if not len(query):
                continue
            # Heads with fewer queries are filled up with the one that is not there.
            rows = torch.full((heads, int(counts[block].max())), heads * n, device=device)
            number = (
                torch.arange(len(query), device=device) + before[block, 0] - before[block][head]
            )
            rows[head, number] = head * n + query
            first = block * self.block_size
            keys = torch.arange(first, min(first + self.block_size, m), device=device)
            columns = keys + m * torch.arange(heads, device=device)[:, None]
            bias = None
            if self.past is not None and int(query.min()) + self.past < int(keys[-1]):
                later = keys > (rows % n)[..., None] + self.past  # (heads, r, B)
                bias = torch.zeros_like(later, dtype=like.dtype).masked_fill_(later, -torch.inf)
            yield Tile(rows, columns, bias, again=True)

    def dense(self, shape: Shape, like: Tensor, *masks: Tensor) -> Tensor:
        mask = blocks_mask(masks[0], self.block_size, shape[-1], self.past)
        return mask.dense(like.device)


@dataclass(frozen=True)
class ChosenKeys(Plan):
    """Each query against keys of its own, gathered for all g heads that share them.

    Queries are ``(..., g, n, d_k)``, keys and values ``(..., 1, m, d)``, the places of the keys
    and which of them count ``(..., 1, n, k)``.
    """

    flat = True

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        *lead, g, n, m = shape
        places, valid = (x.expand(*lead, 1, n, x.shape[-1]).flatten(0, -2) for x in masks)
        count = places.shape[-1]
        if 0 in (*shape, count):
            return
        step = max(1, _NUMBERS_AT_ONCE // (2 * count * like.shape[-1]))
        query = torch.arange(len(places), device=like.device)[:, None]  # of all heads of keys
        heads = torch.arange(g, device=like.device)
        for i, place, counts in zip(
            *(torch.split(x, step) for x in (query, places, valid)), strict=True
        ):
            rows = (i // n * g + heads) * n + i % n  # (b, g)
            bias = torch.zeros_like(counts, dtype=like.dtype).masked_fill_(~counts, -torch.inf)
            yield Tile(rows, place + i // n * m, bias[:, None])

    def dense(self, shape: Shape, like: Tensor, *masks: Tensor) -> Tensor:
        places, valid = masks
        return keys_mask(places, valid, shape[-1]).dense(like.device)
