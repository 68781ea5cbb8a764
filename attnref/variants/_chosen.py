r"""Attention under a chosen set of keys for each query: pairs that were not chosen cost nothing.

Two cores. Where blocks of keys are chosen, each block meets the queries that chose it, and a
query's averages over its blocks are merged as they come. Where single keys are chosen, each query
has its own gathered beside it, once for all heads that share them.
"""

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref.checks import check_flag, check_integer
from attnref.masks import Mask
from attnref.reference import attend

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


def best_of_each_row(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
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


class ChosenBlocks(NamedTuple):
    """Each block of keys against the queries that chose it, ``(..., n, blocks)``."""

    block_size: int
    scale: float
    past: int | None

    @property
    def unit(self) -> float:
        return 1.0

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of exponentials, and the score subtracted, ``(..., n, 1)``."""
        sums = v.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., n, d_v)
        totals, maxima = (q.new_full((*q.shape[:-1], 1), start) for start in (0.0, -torch.inf))
        for head, rows, keys in self._tiles(q, k, *masks):
            scores = self._scores(q[head], k[head], rows, keys)  # (rows, keys)
            old = maxima[head][rows]  # (rows, 1)
            maximum = torch.maximum(old, scores.amax(-1, keepdim=True))
            powers, shrunk = (scores - maximum).exp_(), (old - maximum).exp_()
            maxima[head][rows] = maximum
            totals[head][rows] = totals[head][rows] * shrunk + powers.sum(-1, keepdim=True)
            sums[head][rows] = sums[head][rows] * shrunk + powers @ v[head][keys]
        empty = maxima == -torch.inf
        totals, maxima = totals.masked_fill(empty, 1.0), maxima.masked_fill(empty, 0.0)
        return sums / totals, totals, maxima

    def backward(
        self,
        grad: Tensor,
        grad_normaliser: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        output: Tensor,
        totals: Tensor,
        maxima: Tensor,
        *masks: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        d_q, d_k, d_v = (torch.zeros_like(x) for x in (q, k, v))
        grad = grad / totals
        means = (grad * output).sum(-1, keepdim=True) - grad_normaliser  # (..., n, 1)
        for head, rows, keys in self._tiles(q, k, *masks):
            scores = self._scores(q[head], k[head], rows, keys)
            weights = (scores - maxima[head][rows]).exp_()  # (rows, keys)
            d_weights = grad[head][rows] @ v[head][keys].mT
            d_scores = (d_weights - means[head][rows]).mul_(weights).mul_(self.scale)
            d_q[head].index_add_(-2, rows, d_scores @ k[head][keys])
            d_k[head][keys] += d_scores.mT @ q[head][rows]
            d_v[head][keys] += weights.mT @ grad[head][rows]
        return d_q, d_k, d_v

    def formula(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:
        mask = blocks_mask(masks[0], self.block_size, k.shape[-2], self.past)
        found = attend(q, k, v, mask.dense(q.device), scale=self.scale)
        return found.output, found.lse

    def _tiles(
        self, q: Tensor, k: Tensor, chosen: Tensor
    ) -> Iterator[tuple[tuple[int, ...], Tensor, slice]]:
        """Of each head and each block that was chosen: by which queries, and which keys it has."""
        lead = q.shape[:-2]
        chosen = chosen.expand(*lead, *chosen.shape[-2:])
        for head in itertools.product(*map(range, lead)):
            sizes = chosen[head].sum(-2).tolist()
            queries = torch.split(chosen[head].mT.nonzero()[:, 1], sizes)
            for block, rows in enumerate(queries):
                if len(rows):
                    first = block * self.block_size
                    yield head, rows, slice(first, min(first + self.block_size, k.shape[-2]))

    def _scores(self, q: Tensor, k: Tensor, rows: Tensor, keys: slice) -> Tensor:
        scores = (q[rows] * self.scale) @ k[keys].mT  # (rows, keys)
        if self.past is None or rows[0] + self.past >= keys.stop - 1:  # rows ascend
            return scores
        places = torch.arange(keys.start, keys.stop, device=q.device)
        return scores.masked_fill_(places > rows[:, None] + self.past, -torch.inf)


class ChosenKeys(NamedTuple):
    """Each query against keys of its own, gathered for all g heads that share them.

    Queries are ``(..., g, n, d_k)``, keys and values ``(..., 1, m, d)``, the places of the keys
    and which of them count ``(..., 1, n, k)``.
    """

    scale: float

    @property
    def unit(self) -> float:
        return 1.0

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of exponentials, and the score subtracted, ``(..., n, 1)``."""
        output = v.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., g, n, d_v)
        totals, maxima = (q.new_full((*q.shape[:-1], 1), start) for start in (1.0, 0.0))
        for head, rows, places, valid in self._tiles(q, k, v, *masks):
            scores = self._scores(q, k, head, rows, places, valid)  # (rows, g, k)
            maximum = scores.amax(-1, keepdim=True)
            maximum.masked_fill_(maximum == -torch.inf, 0.0)
            powers = (scores - maximum).exp_()
            total = powers.sum(-1, keepdim=True)
            total.masked_fill_(total == 0, 1.0)
            averages = (powers / total) @ v[head][0][places]  # (rows, g, d_v)
            for whole, part in ((output, averages), (totals, total), (maxima, maximum)):
                whole[head][:, rows] = part.transpose(0, 1)
        return output, totals, maxima

    def backward(
        self,
        grad: Tensor,
        grad_normaliser: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        output: Tensor,
        totals: Tensor,
        maxima: Tensor,
        *masks: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        d_q, d_k, d_v = (torch.zeros_like(x) for x in (q, k, v))
        grad = grad / totals
        means = (grad * output).sum(-1, keepdim=True) - grad_normaliser  # (..., g, n, 1)
        for head, rows, places, valid in self._tiles(q, k, v, *masks):
            g, mean, maximum, queries = (
                x[head][:, rows].transpose(0, 1) for x in (grad, means, maxima, q)
            )  # each (rows, g, d)
            weights = (self._scores(q, k, head, rows, places, valid) - maximum).exp_()
            d_weights = g @ v[head][0][places].mT  # (rows, g, k)
            d_scores = (d_weights - mean).mul_(weights).mul_(self.scale)
            d_q[head][:, rows] = (d_scores @ k[head][0][places]).transpose(0, 1)
            d_keys, d_values = d_scores.mT @ queries, weights.mT @ g  # (rows, k, d)
            d_k[head][0].index_add_(0, places.flatten(), d_keys.flatten(0, 1))
            d_v[head][0].index_add_(0, places.flatten(), d_values.flatten(0, 1))
        return d_q, d_k, d_v

    def formula(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:
        places, valid = masks
        allowed = keys_mask(places, valid, k.shape[-2]).dense(q.device)
        found = attend(q, k, v, allowed, scale=self.scale)
        return found.output, found.lse

    def _tiles(
        self, q: Tensor, k: Tensor, v: Tensor, places: Tensor, valid: Tensor
    ) -> Iterator[tuple[tuple[int, ...], slice, Tensor, Tensor]]:
        """Some queries of each head of keys, the places of their keys, and which of them count."""
        lead, n, count = q.shape[:-3], q.shape[-2], places.shape[-1]
        places, valid = (x.expand(*lead, 1, n, count) for x in (places, valid))
        step = max(1, _NUMBERS_AT_ONCE // max(1, count * (k.shape[-1] + v.shape[-1])))
        for head in itertools.product(*map(range, lead)):
            for start in range(0, n if count else 0, step):
                rows = slice(start, min(start + step, n))
                yield head, rows, places[head][0, rows], valid[head][0, rows]

    def _scores(
        self,
        q: Tensor,
        k: Tensor,
        head: tuple[int, ...],
        rows: slice,
        places: Tensor,
        valid: Tensor,
    ) -> Tensor:
        queries = q[head][:, rows].transpose(0, 1) * self.scale  # (rows, g, d_k)
        scores = queries @ k[head][0][places].mT  # (rows, g, k)
        return scores.masked_fill_(~valid[:, None], -torch.inf)
