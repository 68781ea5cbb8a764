r"""Exact attention where whole blocks of pairs are allowed or not: the others cost nothing.

The keys that a block of queries may see are gathered side by side; over them its attention is
dense, without a mask.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attnref import checks, masks
from attnref.reference import check_tensors


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

    >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    >>> layout = torch.tensor([[True, False], [True, True]])
    >>> block_sparse_attention(query, query, value, layout, block_size=2).T
    tensor([[2., 2., 4., 4.]])
    """
    check_tensors(query=query, key=key, value=value)
    checks.check_value(key.shape, value.shape)
    shape = checks.scores_shape(query.shape, key.shape, enable_gqa=enable_gqa)
    factor = checks.check_scale(scale, query.shape[-1])
    mask = masks.block_layout(*shape[-2:], layout=layout, block_size=block_size)
    checks.check_mask(mask.shape, shape)
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (
        x.to(dtype).expand(*shape[:-2], *x.shape[-2:]).contiguous() for x in (query, key, value)
    )
    output: Tensor = _BlockSparse.apply(q, k, v, layout, block_size, factor)  # type: ignore[no-untyped-call]
    return output.to(query.dtype)


class _BlockSparse(torch.autograd.Function):
    """One row of blocks after the other, and a backward that computes the weights again."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, layout: Tensor, block_size: int, scale: float
    ) -> Tensor:
        output = v.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., n, d_v)
        for place, rows, keys in _rows(q, k, layout, block_size):
            weights = _weights(q[place][..., rows, :] * scale, k[place][..., keys, :])
            output[place][..., rows, :] = _product(weights, v[place][..., keys, :].mT)
        ctx.save_for_backward(q, k, v, layout, output)
        ctx.options = block_size, scale
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, layout, output = ctx.saved_tensors
        block_size, scale = ctx.options
        grad = grad.contiguous()
        d_q, d_k, d_v = (torch.zeros_like(x) for x in (q, k, v))
        for place, rows, keys in _rows(q, k, layout, block_size):
            scaled, g = q[place][..., rows, :] * scale, grad[place][..., rows, :]
            seen = k[place][..., keys, :]  # (..., keys, d_k)
            weights = _weights(scaled, seen)  # (..., rows, keys)
            mean = (g * output[place][..., rows, :]).sum(-1, keepdim=True)  # (..., rows, 1)
            d_scores = _product(g, v[place][..., keys, :]).sub_(mean).mul_(weights)
            # Both transposed: so the products read their operands along rows.
            d_v[place].index_add_(-2, keys, _product(g.mT, weights.mT).mT)
            d_k[place].index_add_(-2, keys, _product(scaled.mT, d_scores.mT).mT)
            d_q[place][..., rows, :] = _product(d_scores, seen.mT) * scale
        return d_q, d_k, d_v, None, None, None


def _rows(
    q: Tensor, k: Tensor, layout: Tensor, block_size: int
) -> Iterator[tuple[tuple[int, ...], slice, Tensor]]:
    """For each row of blocks that is not empty: its head, its queries and the keys it sees."""
    lead, n, m = q.shape[:-2], q.shape[-2], k.shape[-2]
    inside = torch.arange(block_size, device=q.device)
    for place in _places(lead, together=q.device.type != "cpu" and layout.dim() == 2):
        allowed = layout.expand(*lead, *layout.shape[-2:])[place] if place else layout
        for index in range(math.ceil(n / block_size)):
            blocks = allowed[index].nonzero()[:, 0].to(q.device)  # (blocks,)
            if len(blocks):
                keys = (blocks[:, None] * block_size + inside).flatten()
                rows = slice(index * block_size, min((index + 1) * block_size, n))
                yield place, rows, keys[keys < m]


def _places(lead: Sequence[int], *, together: bool) -> Iterator[tuple[int, ...]]:
    """Indices of the heads; a GPU takes those that share a layout at once."""
    return iter([()]) if together else itertools.product(*map(range, lead))


def _weights(query: Tensor, key: Tensor) -> Tensor:
    scores = _product(query, key)  # (..., rows, keys)
    return torch.softmax(scores, -1, out=scores)


def _product(one: Tensor, other: Tensor) -> Tensor:
    """``one @ other.mT``, in float32 on a processor by oneDNN.

    There a matrix product goes to MKL, which on some processors is half as fast, unless
    ``torch.set_float32_matmul_precision`` says otherwise for the whole process. The operator
    behind ``torch.compile``'s linear layers always asks oneDNN.
    """
    onednn = torch.backends.mkldnn.is_available() and one.device.type == "cpu"  # type: ignore[no-untyped-call]
    if one.dtype != torch.float32 or not onednn:
        return one @ other.mT
    product: Tensor = torch.ops.mkldnn._linear_pointwise(one, other, None, "none", [], "")
    return product
