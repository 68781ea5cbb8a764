r"""Exact attention for a sliding window: blocks of queries against the stretch of keys they see.

A block of B queries sees at most ``B+W-1`` neighbouring keys, so its scores are one dense
product of which the share ``W/(B+W-1)`` counts and a fixed band masks the rest.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import masks, reference
from attnref._door import check_neutral, enter
from attnref.checks import Shape
from attnref.record import Example, Method
from attnref.variants._kernels import Stretches
from attnref.variants._tiled import Inputs, Plan, Tile, attention, holds

__all__ = ["sliding_window_attention"]

_ROWS = 256  # queries per block: fewer waste fewer products, more make each of them faster
_KERNEL_ROWS = 32  # of forward blocks, as many as PyTorch's kernel takes together
_NUMBERS = 2**22  # of the outputs, or of the gradients of keys, in a batch
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

        o_i = Σ_(j ∈ N_i) p_ij v_j
        N_i = {j : i - W < j ≤ i} (causal), N_i = {j : |i - j| ≤ (W-1)/2} (two-sided, odd W)

    The same function as :func:`attnref.scaled_dot_product_attention` under
    :func:`attnref.masks.sliding_window`, forward and backward. PyTorch's fused kernel for a
    processor does not know of windows: it is given the blocks as a batch, the stretch of keys of
    each as a view, and one bias for all; the ends of the sequence are separate calls. On a GPU,
    matrix products take the place of the kernel.

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
    query of the blocks that see it. Time ``2 n (W + 31) (d_k + d_v)`` operations forward, W + 31
    rounded up to 16, and ``2 n (W + 255) (3 d_k + 2 d_v)`` backward, on a processor with the larger
    of d_k and d_v for both; linear in n. Memory ``O(n (d_k + d_v))``; on a GPU, and for second
    derivatives, ``O(n (W + 255))`` for the weights.

    Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

    Examples:
        >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        >>> sliding_window_attention(query, query, value, window=2, is_causal=True).T
        tensor([[1.0000, 1.5000, 2.5000, 3.5000]])
    """
    advice = "The window is the mask; for another beside it use blockwise_attention."
    check_neutral(advice, attn_mask=attn_mask)
    call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa, sink=sink)
    *lead, n, m = call.shape
    if n != m:
        raise ValueError(
            f"key: expected as many keys as queries, {n}, got {m}. For other lengths use "
            "blockwise_attention with attnref.masks.sliding_window."
        )
    back, ahead = (
        min(reach, max(n - 1, 0)) for reach in masks.window_reach("window", window, is_causal)
    )
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors())
    plan = _Window(back, ahead)
    return attention(plan, call.scale, q, k, v, sink=call.sink).to(query.dtype)


@dataclass(frozen=True)
class _Window(Plan):
    """Blocks of queries, each with the stretch of keys that it sees; those inside are alike."""

    back: int
    ahead: int
    by_values = False
    complete = True

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        if 0 in shape:
            return
        n, back, ahead = shape[-2], self.back, self.ahead
        size = min(n, _ROWS if backward or holds(like) else _KERNEL_ROWS)
        before = back + -(back + size + ahead) % _LANES  # keys, some of which are masked
        first = -(-before // size) * size  # of the blocks whose keys are all there
        count = max(0, (n - ahead - first) // size) if first < n else 0
        first = min(first, n)
        edges = (0, first), (first + count * size, n)
        for start in (i for edge in edges for i in range(*edge, _ROWS)):
            rows = slice(start, min(start + _ROWS, n if start >= first else first))
            seen = slice(max(0, start - back), min(n, rows.stop + ahead))
            yield Tile(rows, seen, self._bias(rows, seen, like))
        width = before + size + ahead
        bias = self._bias(slice(0, size), slice(-before, size + ahead), like)
        # A batch is held until it is put to the rest: outputs, or gradients of all its stretches.
        length = width if backward else size
        step = max(1, _NUMBERS // (math.prod(shape[:-2]) * length * like.shape[-1]))
        for block in range(0, count, step):
            many, start = min(step, count - block), first + block * size
            keys = Stretches(start - before, size, many, width)
            yield Tile(Stretches(start, size, many, size), keys, bias)

    def _bias(self, rows: slice, columns: slice, like: Tensor) -> Tensor:
        """0 where a query sees a key, else -inf, ``(rows, columns)``."""
        i = torch.arange(rows.start, rows.stop, device=like.device)[:, None]  # (rows, 1)
        j = torch.arange(columns.start, columns.stop, device=like.device)  # (columns,)
        allowed = (j >= i - self.back) & (j <= i + self.ahead)
        return like.new_zeros(allowed.shape).masked_fill(~allowed, -torch.inf)

    def formula(self, scale: float, inputs: Inputs, *masks: Tensor) -> tuple[Tensor, Tensor]:
        return _attend_blocks(*inputs[:3], scale, self.back, self.ahead)


def _attend_blocks(
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


def _narrow_window(given: Example) -> dict[str, Any]:
    return {"window": 3 if given.n < 256 else 64}


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


def _wide_window(given: Example) -> dict[str, Any]:
    return {"window": 2 * max(1, given.n, given.m) - 1}


METHOD = Method(
    function=sliding_window_attention,
    page="variants/sliding-window",
    formula=_formula,
    neutral=("attn_mask", "dropout_p"),
    example=_narrow_window,
    plain=_wide_window,
    lengths="equal",
    peers=("local-attention",),
    isolates=(),
    tasks=("window",),
)
