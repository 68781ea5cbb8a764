r"""Decoding: the newest tokens attend to all that a cache holds, query heads in groups.

A step reads the whole cache once for a handful of multiplications, so what counts is how often
the cache is read, and by how many processors at once. The r query heads that share a key head
become r queries of that head:

    (h_q, n, d_k) → (h_k, r n, d_k)
    r = h_q / h_k

and the keys can be cut into pieces, whose results merge exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnref import checks, masks
from attnref._door import Call, check_neutral, enter
from attnref.checks import Shape
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._kernels import Stretches, call_fused
from attnref.variants._tiled import Plan, Tile, attention, holds, is_derived
from attnref.variants.blockwise import tiles_of

__all__ = ["kv_cache_attention"]


def kv_cache_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    sink: Tensor | float | None = None,
    splits: int = 1,
) -> Tensor:
    r"""Softmax attention of the n newest tokens to the m that a cache holds, their own included.

        o_i = Σ_(j ≤ m-n+i) p_ij v_j

    The same function as :func:`attnref.scaled_dot_product_attention` under
    ``masks.causal(n, m, alignment="bottom-right")``, forward and backward. All tokens see what
    was there before them, so that part needs no mask: query heads that share a key head are
    queries of one head, which PyTorch's fused kernel reads once. Several new tokens see each
    other causally, and the two partial results merge.

    Args:
        query: ``(..., heads, n, d_k)``, or without heads; any floating dtype of 16 bits or more.
        key: ``(..., key heads, m, d_k)``, same dtype and device, with n <= m: what
            :meth:`attnref.KVCache.append` returned.
        value: ``(..., key heads, m, d_v)``, same dtype and device.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        sink: a score for each head, as in :func:`attnref.scaled_dot_product_attention`.
        splits: number of pieces into which the keys of the past are cut, each read by itself: with
            fewer key heads and samples than processors, the pieces occupy the others. Any number
            gives the same result.

    Returns:
        ``(..., heads, n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does, for more queries than keys, and for a number
            of pieces below 1.

    Exact up to rounding; in half precision each piece rounds its result. Unlike the reference, a
    NaN or inf of one new token reaches the others. Time ``2 h n m (d_k + d_v)`` operations; a
    single token reads ``h_k m (d_k + d_v)`` numbers, which is what limits it. Memory that of the
    output for each piece, and the scores of a token where d_k and d_v differ.

    Source: Shazeer 2019, arXiv 1911.02150; Ainslie et al. 2023, arXiv 2305.13245; pieces: Dao et
    al. 2023, Flash-Decoding, https://pytorch.org/blog/flash-decoding/.

    Examples:
        >>> query, key = torch.zeros(4, 1, 2), torch.zeros(2, 3, 2)
        >>> value = torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
        >>> kv_cache_attention(query, key, value, enable_gqa=True).flatten()
        tensor([2., 2., 5., 5.])
    """
    if attn_mask is not None or is_causal is not False:  # a call more would be felt in decoding
        advice = "A new token sees all up to itself; for more use blockwise_attention."
        check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    call = enter(query, key, value, None, dropout_p, False, scale, enable_gqa, sink=sink)
    if splits != 1:
        advice = "It is the number of pieces of the cache; 1 reads it whole."
        splits = checks.check_integer("splits", splits, 1, advice)
    *lead, n, m = call.shape
    if n > m:
        raise ValueError(
            f"key: expected at least as many keys as queries, {n}, got {m}. The newest tokens are "
            "in the cache too: append their keys and values first."
        )
    rows = _group_queries(call)
    if n == splits == 1 and sink is None and not is_derived(query, key, value):
        return call_fused(rows).reshape(*lead, n, value.shape[-1])
    tensors = (x.expand(*rows.shape[:-2], *x.shape[-2:]) for x in rows.tensors(query.dtype))
    plan = _Cache(n, splits, once=n == 1 and sink is None)
    output = attention(plan, call.scale, *tensors, sink=rows.sink)
    return output.reshape(*lead, n, value.shape[-1]).to(query.dtype)


@dataclass(frozen=True)
class _Cache(Plan):
    """All rows against each piece of the past, and the newest tokens against each other."""

    n: int  # of them; row i is the token i modulo n
    splits: int
    once: bool
    by_values = False
    complete = True

    def tiles(
        self, shape: Shape, like: Tensor, *_: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        *lead, rows, m = shape
        n = self.n
        if 0 in shape:
            return
        past = m - n if n > 1 else m  # a single token sees all of them
        count = min(self.splits, past) if not holds(like) else 1
        size = past // max(1, count)
        if count > 1:
            yield Tile(slice(0, rows), Stretches(0, size, count, size))
        rest = count * size if count > 1 else 0
        piece = (*lead, rows, past - rest)
        yield from tiles_of(
            piece, None, False, like, held=holds(like), columns=rest, again=rest > 0
        )
        if n > 1 and holds(like):
            order = torch.arange(n, device=like.device)
            seen = (order <= order[:, None]).repeat(rows // n, 1)  # (rows, n)
            piece = (*lead, rows, n)
            yield from tiles_of(piece, seen, False, like, held=True, columns=past, again=past > 0)
        elif n > 1:
            heads = torch.arange(rows, device=like.device).view(-1, n)  # (r, n)
            newest = torch.arange(past, m, device=like.device).expand(len(heads), n)
            yield Tile(heads, newest, is_causal=True, again=past > 0)

    def dense(self, shape: Shape, like: Tensor, *_: Tensor) -> Tensor | None:
        rows, m = shape[-2:]
        seen = masks.causal(self.n, m, alignment="bottom-right").dense(like.device)
        return seen.repeat(rows // max(self.n, 1), 1)


def _group_queries(call: Call) -> Call:
    """The queries of the r heads that share a key head as rows of one head."""
    *lead, n, m = call.shape
    if call.enable_gqa:
        lead[-1:] = [call.key.shape[-3]]
        n *= call.shape[-3] // max(1, lead[-1])
    query = call.query.expand(*call.shape[:-1], -1).reshape(*lead, n, call.query.shape[-1])
    sink = call.sink
    if sink is not None:
        sink = sink.expand(*call.shape[:-1], 1).reshape(*lead, n, 1)
    return call._replace(query=query, enable_gqa=False, shape=(*lead, n, m), sink=sink)


def _formula(
    query: Tensor, key: Tensor, value: Tensor, *, splits: int = 1, **options: Any
) -> Tensor:
    """The definition, in which the newest tokens see what was there before them."""
    past = masks.causal(query.shape[-2], key.shape[-2], alignment="bottom-right")
    return scaled_dot_product_attention(query, key, value, past, **options)


def _token_by_token(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Each query as if it were the newest token, which sees all keys."""
    steps = [kv_cache_attention(one, key, value, **options) for one in torch.split(query, 1, -2)]
    return torch.cat(steps, -2)


METHOD = Method(
    function=kv_cache_attention,
    page="variants/kv-cache",
    formula=_formula,
    neutral=("attn_mask", "is_causal", "dropout_p"),
    adapted=_token_by_token,
    lengths="newest",
    causal=True,
    isolates=(),
    ways={"splits": (2, 3)},
    tasks=(),
)
