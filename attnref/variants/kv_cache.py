r"""Decoding: the newest tokens attend to all that a cache holds, query heads in groups.

A step reads the whole cache once for a handful of multiplications, so what counts is how often
the cache is read, and by how many processors at once. The r query heads that share a key head
become r queries of that head:

.. math:: (h_q, n, d_k) \to (h_k, r n, d_k), \qquad r = h_q / h_k

and the keys can be cut into pieces, whose results merge exactly.
"""

import functools
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attnref import checks, masks
from attnref._door import Call, enter, fused, side_by_side
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.softmax import Partial, log_sum_exp, merge, stable
from attnref.variants._autograd import beside_sink, is_derived
from attnref.variants.blockwise import partial

__all__ = ["kv_cache_attention"]


def kv_cache_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    sink: Tensor | float | None = None,
    splits: int = 1,
) -> Tensor:
    r"""Softmax attention of the n newest tokens to the m that a cache holds, their own included.

    .. math:: o_i = \sum_{j \le m-n+i} p_{ij} v_j

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
    call = enter(query, key, value, scale=scale, enable_gqa=enable_gqa, sink=sink)
    if splits != 1:
        advice = "It is the number of pieces of the cache; 1 reads it whole."
        splits = checks.check_integer("splits", splits, 1, advice)
    *lead, n, m = call.shape
    if n > m:
        raise ValueError(
            f"key: expected at least as many keys as queries, {n}, got {m}. The newest tokens are "
            "in the cache too: append their keys and values first."
        )
    rows = _of_key_heads(call)
    if n == splits == 1 and sink is None and not is_derived(query, key, value):
        return fused(rows).reshape(*lead, n, value.shape[-1])
    past = m - n if n > 1 else m  # a single token sees all of them
    parts = []
    if past or not n:
        seen = _seen_by_all(_keys(rows, 0, past), splits)  # (..., key heads, r n, d_v)
        parts.append(Partial(*(x.reshape(*lead, n, x.shape[-1]) for x in seen)))
    if n > 1:
        parts.append(partial(_keys(call, past, m)._replace(is_causal=True)))
    found = functools.reduce(merge, parts)  # (..., heads, n, d_v)
    output = found.output if call.sink is None else beside_sink(found, call.sink)
    return output.to(query.dtype)


def _of_key_heads(call: Call) -> Call:
    """The queries of the r heads that share a key head as rows of one head."""
    *lead, n, m = call.shape
    if call.enable_gqa:
        lead[-1:] = [call.key.shape[-3]]
        n *= call.shape[-3] // max(1, lead[-1])
    query = call.query.expand(*call.shape[:-1], -1).reshape(*lead, n, call.query.shape[-1])
    return call._replace(query=query, enable_gqa=False, shape=(*lead, n, m))


def _keys(call: Call, first: int, stop: int) -> Call:
    """The same queries, and some of the keys."""
    key, value = (x[..., first:stop, :] for x in (call.key, call.value))
    return call._replace(key=key, value=value, shape=(*call.shape[:-1], stop - first))


def _seen_by_all(call: Call, splits: int) -> Partial:
    """All queries against all keys, in pieces of the keys that merge."""
    m = call.shape[-1]
    count = min(splits, m)
    size = m // max(1, count)
    one_width = call.key.shape[-1] == call.value.shape[-1]
    at_once = call.query.device.type == "cpu" and one_width and not is_derived(*call[:3])
    if at_once and call.query.numel() and m:
        borders, parts = [count * size, m], [_pieces(_keys(call, 0, count * size), count)]
    elif count <= 1:
        return partial(call)
    else:
        borders, parts = [*range(0, count * size, size), m], []
    parts += [partial(_keys(call, *ends)) for ends in pairwise(borders) if ends[0] < ends[1]]
    return functools.reduce(merge, parts)


def _pieces(call: Call, count: int) -> Partial:
    """Pieces of one size, as heads of one call of the fused kernel, and their softmax."""
    *lead, rows, m = call.shape
    query, key, value = (
        side_by_side(x.expand(*lead, *x.shape[-2:]).reshape(-1, 1, *x.shape[-2:])) for x in call[:3]
    )
    key, value = (x.reshape(-1, count, m // count, x.shape[-1]) for x in (key, value))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.expand(-1, count, -1, -1), key, value, 0.0, False, scale=call.scale
    )  # (..., count, rows, d_v), (..., count, rows)
    output = (stable(lse, dim=1)[..., None] * output.to(lse.dtype)).sum(1)  # (..., rows, d_v)
    lse = log_sum_exp(lse, dim=1)[..., None]  # (..., rows, 1)
    found = Partial(output, lse, torch.ones_like(lse))
    return Partial(*(x.reshape(*lead, rows, x.shape[-1]) for x in found))


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
    adapted=_token_by_token,
    lengths="newest",
    causal=True,
    isolates=(),
    ways={"splits": (2, 3)},
    tasks=(),
)
