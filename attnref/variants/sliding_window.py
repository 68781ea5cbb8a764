r"""Exact attention for a sliding window: blocks of queries against the stretch of keys they see.

A block of B queries sees at most :math:`B+W-1` neighbouring keys, so its scores are one dense
product of which the share :math:`W/(B+W-1)` counts and a fixed band masks the rest.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from attnref import masks, reference
from attnref._door import check_neutral, enter, own_precision
from attnref.onednn import product_with_transpose
from attnref.record import Example, Method
from attnref.softmax import Partial
from attnref.variants._autograd import beside_sink, partial_result

__all__ = ["sliding_window_attention"]

_ROWS = 256  # queries per block: fewer waste fewer products, more make each of them faster
_NARROW = 400  # below so many keys, the waste of large blocks costs more than their speed gains
_NARROW_ROWS = 32  # queries that PyTorch's fused kernel takes at once
_LANES = 16  # float32 numbers of a 512-bit register, which a block of keys should fill


def sliding_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: int,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""Softmax attention of each query to the ``window`` keys nearest to it, its own included.

    .. math:: o_i = \sum_{j\in N_i} p_{ij} v_j, \qquad
              N_i = \{j : i - W < j \le i\} \text{ (causal)}, \quad
              N_i = \{j : |i - j| \le \tfrac{W-1}{2}\} \text{ (two-sided, odd } W)

    The same function as :func:`attnref.scaled_dot_product_attention` under
    :func:`attnref.masks.sliding_window`, forward and backward. On a processor each block and
    head is one large matrix product by oneDNN, in cache. Below 400 keys and with d_k = d_v, the
    forward pass goes to PyTorch's fused kernel, which does not know of windows: it is given the
    blocks as a batch, and the stretch of keys of each as a strided view. On a GPU, and in a graph
    of ``torch.compile``, all blocks are one batch of matrix products.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., n, d_k)``, same dtype and device.
        value: ``(..., n, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: whether the window ends at the query's own key or has it in the middle.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        window: number of keys W; odd when two-sided.
        sink: a score for each head, as in :func:`attnref.scaled_dot_product_attention`.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does, for a window as
            :func:`attnref.masks.sliding_window` does, when n and m differ, and for a mask or
            dropout.

    Exact up to rounding, in float32 or wider. Unlike the reference, a NaN or inf reaches every
    query of the blocks that see it. Time ``2 n (W + 255) (d_k + d_v)`` operations forward, with
    31 and rounding to 16 instead of 255 below 400 keys without a sink, and
    ``2 n (W + 255) (3 d_k + 2 d_v)`` backward; linear in n. Memory ``O(n (d_k + d_v))``; on a GPU,
    compiled, and for second derivatives, ``O(n (W + 255))`` for the weights.

    Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

    Examples:
        >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        >>> sliding_window_attention(query, query, value, window=2, is_causal=True).T
        tensor([[1.0000, 1.5000, 2.5000, 3.5000]])
    """
    call = enter(
        query, key, value, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, sink=sink
    )
    advice = "The window is the mask; for another beside it use blockwise_attention."
    check_neutral("attn_mask", attn_mask, None, advice)
    advice = "No weight is stored to be dropped; use attnref.scaled_dot_product_attention."
    check_neutral("dropout_p", dropout_p, 0.0, advice)
    *lead, n, m = call.shape
    if n != m:
        raise ValueError(
            f"key: expected as many keys as queries, {n}, got {m}. For other lengths use "
            "blockwise_attention with attnref.masks.sliding_window."
        )
    back, ahead = (
        min(reach, max(n - 1, 0)) for reach in masks.window_reach("window", window, is_causal)
    )
    q, k, v = (
        x.expand(*lead, *x.shape[-2:]).reshape(math.prod(lead), n, x.shape[-1]).contiguous()
        for x in call.tensors()
    )
    if n == 0:
        return (q @ k.mT @ v).to(query.dtype).reshape(*lead, n, value.shape[-1])
    if _in_turn(query.device):
        core = _SlidingWindow(call.scale, back, ahead, tells=call.sink is not None)
        found = partial_result(core, q, k, v)
    else:
        with own_precision(query.device):
            output, lse = _batched(q, k, v, call.scale, back, ahead)  # (heads, n, d_v), (heads, n)
        found = Partial(output, lse[..., None], torch.ones_like(lse)[..., None])
    if call.sink is None:
        return found.output.to(query.dtype).reshape(*lead, n, value.shape[-1])
    found = Partial(*(x.reshape(*lead, n, x.shape[-1]) for x in found))
    return beside_sink(found, call.sink).to(query.dtype)


def _in_turn(device: torch.device) -> bool:
    """Whether blocks are computed one after the other, in cache, as no graph should hold."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def _batched(
    q: Tensor, k: Tensor, v: Tensor, scale: float, back: int, ahead: int
) -> tuple[Tensor, Tensor]:
    """All blocks at once, the keys of each as a strided view; output and log-sum-exp."""
    n = q.shape[-2]
    rest = -n % _ROWS  # queries that fill up the last block
    fill = (0, 0, back, ahead + rest)
    q = torch.unflatten(
        pad(q * scale, (0, 0, 0, rest)), -2, (-1, _ROWS)
    )  # (..., blocks, rows, d_k)
    k = pad(k, fill).unfold(-2, _ROWS + back + ahead, _ROWS)  # (..., blocks, d_k, width)
    v = pad(v, fill).unfold(-2, _ROWS + back + ahead, _ROWS)  # (..., blocks, d_v, width)
    start = torch.arange(0, n, _ROWS, device=q.device)[:, None, None]  # (blocks, 1, 1)
    i = torch.arange(_ROWS, device=q.device)[:, None] + start  # (blocks, rows, 1)
    j = torch.arange(k.shape[-1], device=q.device) - back + start  # (blocks, 1, width)
    allowed = (j >= i - back) & (j <= i + ahead) & (j >= 0) & (j < n)  # (blocks, rows, width)
    # Finite, for rows behind the last query may see no key: their gradients must not be NaN.
    scores = (q @ k).masked_fill(~allowed, torch.finfo(q.dtype).min)
    output = (torch.softmax(scores, -1) @ v.mT).flatten(-3, -2)  # (..., n + rest, d_v)
    return output[..., :n, :], torch.logsumexp(scores, -1).flatten(-2)[..., :n]


class _SlidingWindow(NamedTuple):
    """Block after block, each in cache, and a backward that computes the weights again."""

    scale: float
    back: int
    ahead: int
    tells: bool  # of each row its sum, which the fused kernel does not do

    @property
    def unit(self) -> float:
        return 1.0

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; and, where asked, each row's sum and the score subtracted first."""
        # In its final shape, and filled through a view: PyTorch's forward mode takes no view of it.
        output = v.new_empty(*q.shape[:-1], v.shape[-1])  # (..., n, d_v)
        total, maximum = (v.new_empty(*q.shape[:-1], int(self.tells)) for _ in range(2))
        flat, totals, maxima = (x.flatten(0, -3) for x in (output, total, maximum))
        q, k, v = _flat(q, k, v)
        scale, back, ahead, tells = self
        if not tells and back + ahead + 1 < _NARROW and k.shape == v.shape:
            _fill_by_kernel(flat, q, k, v, scale, back, ahead)
        else:
            band = _widest_band(q, back, ahead)  # (rows, width)
            for head, rows, columns in _blocks(q, back, ahead):
                scaled = q[head, rows] * scale  # (rows, d_k)
                scores = _scores(scaled, k[head, columns], band, rows, columns, back)
                if tells:
                    maxima[head, rows] = scores.amax(-1, keepdim=True)
                weights = torch.softmax(scores, -1, out=scores)  # (rows, width)
                if tells:  # the largest weight is 1 of so many
                    totals[head, rows] = 1 / weights.amax(-1, keepdim=True)
                flat[head, rows] = product_with_transpose(weights, v[head, columns].mT)
        return output, total, maximum

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
        shapes = [x.shape for x in (q, k, v)]
        of_total = (grad_normaliser * totals).flatten(0, -3)  # (heads, n, 1), or (heads, n, 0)
        grad, q, k, v, output = _flat(grad, q, k, v, output)
        scale, back, ahead, _ = self
        d_q = torch.empty_like(q)  # (heads, n, d_k)
        # Transposed, for then the product that makes each block reads its operands along rows.
        d_k = k.new_zeros(k.mT.shape)  # (heads, d_k, n)
        d_v = v.new_zeros(v.mT.shape)  # (heads, d_v, n)
        band = _widest_band(q, back, ahead)
        for head, rows, columns in _blocks(q, back, ahead):
            scaled, g = q[head, rows] * scale, grad[head, rows]  # (rows, d_k), (rows, d_v)
            scores = _scores(scaled, k[head, columns], band, rows, columns, back)
            weights = torch.softmax(scores, -1, out=scores)  # (rows, width)
            d_v[head, :, columns] += product_with_transpose(g.mT, weights.mT)
            mean = (g * output[head, rows]).sum(-1, True) - of_total[head, rows].sum(-1, True)
            d_scores = (
                product_with_transpose(g, v[head, columns]).sub_(mean).mul_(weights)
            )  # (rows, width)
            d_k[head, :, columns] += product_with_transpose(scaled.mT, d_scores.mT)
            d_q[head, rows] = product_with_transpose(d_scores, k[head, columns].mT) * scale
        d_q, d_k, d_v = (x.reshape(s) for x, s in zip((d_q, d_k.mT, d_v.mT), shapes, strict=True))
        return d_q, d_k, d_v

    def formula(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:
        return _batched(q, k, v, self.scale, self.back, self.ahead)


def _flat(*tensors: Tensor) -> list[Tensor]:
    """As ``(heads, n, d)``; a vmap may have brought further dimensions."""
    return [x.flatten(0, -3).contiguous() for x in tensors]


def _blocks(q: Tensor, back: int, ahead: int) -> Iterator[tuple[int, slice, slice]]:
    """Heads, blocks of queries, and the keys that each block sees."""
    heads, n, _ = q.shape
    for head in range(heads):
        for start in range(0, n, _ROWS):
            rows = slice(start, min(start + _ROWS, n))
            yield head, rows, slice(max(0, start - back), min(n, rows.stop + ahead))


def _narrow(given: Example) -> dict[str, Any]:
    return {"window": 3 if given.n < 256 else 64}


def _widest_band(q: Tensor, back: int, ahead: int) -> Tensor:
    """The band of a whole block of queries and all keys that it sees, ``(rows, width)``."""
    rows = min(_ROWS, q.shape[-2])
    return _band(q, slice(0, rows), slice(-back, rows + ahead), back, ahead)


def _band(q: Tensor, rows: slice, columns: slice, back: int, ahead: int) -> Tensor:
    """0 where a query sees a key, else -inf, ``(rows, columns)``."""
    i = torch.arange(rows.start, rows.stop, device=q.device)[:, None]  # (rows, 1)
    j = torch.arange(columns.start, columns.stop, device=q.device)  # (columns,)
    allowed = (j >= i - back) & (j <= i + ahead)  # (rows, columns)
    return q.new_zeros(allowed.shape).masked_fill(~allowed, -torch.inf)


def _scores(q: Tensor, k: Tensor, band: Tensor, rows: slice, columns: slice, back: int) -> Tensor:
    first = columns.start - (rows.start - back)  # keys before the sequence, which do not exist
    scores = product_with_transpose(q, k)  # (rows, width)
    scores += band[: len(q), first : first + len(k)]
    return scores


def _fill_by_kernel(
    output: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, back: int, ahead: int
) -> None:
    """The output by PyTorch's fused kernel, ``(heads, n, d)``; head by head, in cache."""
    _, n, d = q.shape
    rows = _NARROW_ROWS
    before = back + -(back + rows + ahead) % _LANES  # keys before a block, some of them masked
    width = before + rows + ahead
    first, last = math.ceil(before / rows) * rows, (n - ahead) // rows * rows
    if first >= last:
        first, last = n, n  # no block has all its keys inside the sequence
    blocks = (last - first) // rows
    band = _band(q, slice(0, rows), slice(-before, rows + ahead), back, ahead)
    for head in range(len(q)):
        for start, stop in ((0, first), (last, n)):
            begin, end = max(0, start - back), min(n, stop + ahead)
            if start < stop:
                edge = _band(q, slice(start, stop), slice(begin, end), back, ahead)
                output[head, start:stop] = scaled_dot_product_attention(
                    q[None, head, None, start:stop],
                    k[None, head, None, begin:end],
                    v[None, head, None, begin:end],
                    attn_mask=edge,
                    scale=scale,
                )[0, 0]
        if blocks:
            # Neighbouring blocks see overlapping stretches: (blocks, 1, width, d), not copied.
            strides, shape = (rows * d, d, d, 1), (blocks, 1, width, d)
            begin = (head * n + first - before) * d
            output[head, first:last] = scaled_dot_product_attention(
                q[head, first:last].view(blocks, 1, rows, d),
                k.as_strided(shape, strides, k.storage_offset() + begin),
                v.as_strided(shape, strides, v.storage_offset() + begin),
                attn_mask=band,
                scale=scale,
            ).view(last - first, d)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    window: int,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """The definition under the mask of the window."""
    n, m = query.shape[-2], key.shape[-2]
    near = masks.sliding_window(n, m, window=window, is_causal=is_causal)
    return reference.scaled_dot_product_attention(query, key, value, near, **options)


def _wide(given: Example) -> dict[str, Any]:
    return {"window": 2 * max(1, given.n, given.m) - 1}


METHOD = Method(
    function=sliding_window_attention,
    page="variants/sliding-window",
    formula=_formula,
    example=_narrow,
    plain=_wide,
    lengths="equal",
    peers=("local-attention",),
    neutral=("attn_mask", "dropout_p"),
    isolates=(),
    tasks=("window",),
)
