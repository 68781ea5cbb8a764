r"""Exact attention where whole blocks of pairs are allowed or not: the others cost nothing.

The keys that a block of queries may see are gathered side by side; over them its attention is
dense, without a mask.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attnref import masks
from attnref._door import enter, own_precision
from attnref.checks import check_mask
from attnref.onednn import product_with_transpose

__all__ = ["block_sparse_attention"]


def block_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Tensor,
    *,
    block_size: int,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Softmax attention over the blocks that a layout allows.

    .. math:: o_i = \sum_{j\in N_i} p_{ij} v_j, \qquad
              N_i = \{j : \text{layout}_{\lfloor i/B\rfloor,\,\lfloor j/B\rfloor}\}

    The same function as :func:`attnref.scaled_dot_product_attention` under
    :func:`attnref.masks.block_layout`, forward and backward; a query without a block gives zeros
    and finite gradients. BigBird's layout is ``masks.bigbird(…).block_summary(block_size) > 0``,
    with the same block size. Patterns finer than blocks are for ``blockwise_attention``.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        layout: bool, broadcasts to ``(..., ceil(n / block_size), ceil(m / block_size))``;
            ``True`` = may attend.
        block_size: side B of a block; those at the end may be smaller.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference and :func:`attnref.masks.block_layout` do.

    Exact up to rounding, in float32 or wider. Time ``2 p (d_k + d_v)`` operations forward and
    ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in allowed blocks. Memory
    ``O((n + m) (d_k + d_v))``, and the scores of one row of blocks, of one head on a processor.

    Source: Child et al. 2019, arXiv 1904.10509; Zaheer et al. 2020, arXiv 2007.14062.

    Examples:
        >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> layout = torch.tensor([[True, False], [True, True]])
        >>> block_sparse_attention(query, query, value, layout, block_size=2).T
        tensor([[2., 2., 4., 4.]])
    """
    call = enter(query, key, value, scale=scale, enable_gqa=enable_gqa)
    *lead, n, m = call.shape
    mask = masks.block_layout(n, m, layout=layout, block_size=block_size)
    check_mask(mask.shape, call.shape)
    q, k, v = (x.expand(*lead, *x.shape[-2:]).contiguous() for x in call.tensors())
    with own_precision(query.device):
        output: Tensor = _BlockSparse.apply(q, k, v, layout, block_size, call.scale)  # type: ignore[no-untyped-call]
    return output.to(query.dtype)


class _BlockSparse(torch.autograd.Function):
    """One row of blocks after the other, and a backward that computes the weights again."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, layout: Tensor, block_size: int, scale: float
    ) -> Tensor:
        output = v.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., n, d_v)
        for place, rows_of_blocks in _heads(q, layout):
            q_blocks, k_blocks, v_blocks, outputs = (
                torch.split(x[place], block_size, -2) for x in (q, k, v, output)
            )
            for row, seen in rows_of_blocks:
                weights = _weights(q_blocks[row] * scale, _gathered(k_blocks, seen))
                average = product_with_transpose(weights, _gathered(v_blocks, seen).mT)
                outputs[row].copy_(average)  # (..., rows, d_v)
        ctx.save_for_backward(q, k, v, layout, output)
        ctx.options = block_size, scale
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, layout, output = ctx.saved_tensors
        block_size, scale = ctx.options
        d_q, d_k, d_v = (torch.zeros_like(x) for x in (q, k, v))
        for place, rows_of_blocks in _heads(q, layout):
            q_blocks, k_blocks, v_blocks, outputs, gradients, d_q_blocks, d_k_blocks, d_v_blocks = (
                torch.split(x[place], block_size, -2)
                for x in (q, k, v, output, grad.contiguous(), d_q, d_k, d_v)
            )
            for row, seen in rows_of_blocks:
                scaled, g = q_blocks[row] * scale, gradients[row]
                keys = _gathered(k_blocks, seen)  # (..., keys, d_k)
                weights = _weights(scaled, keys)  # (..., rows, keys)
                mean = (g * outputs[row]).sum(-1, keepdim=True)  # (..., rows, 1)
                d_weights = product_with_transpose(g, _gathered(v_blocks, seen))
                d_scores = d_weights.sub_(mean).mul_(weights)  # (..., rows, keys)
                # Both transposed: so the products read their operands along rows.
                d_values = product_with_transpose(g.mT, weights.mT).mT  # (..., keys, d_v)
                d_keys = product_with_transpose(scaled.mT, d_scores.mT).mT  # (..., keys, d_k)
                for parts, sums in ((d_v_blocks, d_values), (d_k_blocks, d_keys)):
                    for block, part in zip(seen, torch.split(sums, block_size, -2), strict=True):
                        parts[block].add_(part)
                d_q_blocks[row].copy_(product_with_transpose(d_scores, keys.mT)).mul_(scale)
        return d_q, d_k, d_v, None, None, None


def _heads(
    q: Tensor, layout: Tensor
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, list[int]]]]]:
    """For each head, the rows of blocks that are not empty, and the blocks of keys that each sees.

    A GPU takes all heads that share a layout at once.
    """
    lead = q.shape[:-2]
    places = itertools.product(*map(range, lead))
    if layout.dim() == 2:
        shared = _seen(layout)
        yield from ((place, shared) for place in (places if _in_turn(q.device) else [()]))
    else:
        own = layout.expand(*lead, *layout.shape[-2:])
        yield from ((place, _seen(own[place])) for place in places)


def _in_turn(device: torch.device) -> bool:
    """Whether heads are computed one after the other, in cache."""
    return device.type == "cpu"


def _seen(layout: Tensor) -> list[tuple[int, list[int]]]:
    """Each row of one layout that allows something, and the columns that it allows."""
    columns = [[j for j, allowed in enumerate(row) if allowed] for row in layout.tolist()]
    return [(row, seen) for row, seen in enumerate(columns) if seen]


def _gathered(blocks: Sequence[Tensor], seen: list[int]) -> Tensor:
    return torch.cat([blocks[index] for index in seen], -2)  # (..., keys, d)


def _weights(query: Tensor, key: Tensor) -> Tensor:
    scores = product_with_transpose(query, key)  # (..., rows, keys)
    return torch.softmax(scores, -1, out=scores)
