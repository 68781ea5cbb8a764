r"""Exact attention where whole blocks of pairs are allowed or not: the others cost nothing.

The keys that a block of queries may see are gathered side by side; over them its attention is
dense, without a mask.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref._door import enter
from attnref.checks import check_mask
from attnref.masks import block_layout
from attnref.onednn import product_with_transpose
from attnref.record import Example, Method
from attnref.reference import attend, scaled_dot_product_attention
from attnref.variants._autograd import attention

__all__ = ["block_sparse_attention"]

_LOG2_E = math.log2(math.e)
_SAFE = 60.0  # in units of ln 2: no power of such a score and no sum of powers overflows


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
    ``O((n + m) (d_k + d_v))``, and the scores of one row of blocks, of one head on a processor;
    second derivatives hold all n × m weights.

    Source: Child et al. 2019, arXiv 1904.10509; Zaheer et al. 2020, arXiv 2007.14062.

    Examples:
        >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> layout = torch.tensor([[True, False], [True, True]])
        >>> block_sparse_attention(query, query, value, layout, block_size=2).T
        tensor([[2., 2., 4., 4.]])
    """
    call = enter(query, key, value, scale=scale, enable_gqa=enable_gqa)
    *lead, n, m = call.shape
    mask = block_layout(n, m, layout=layout, block_size=block_size)
    check_mask(mask.shape, call.shape)
    q, k, v = (x.expand(*lead, *x.shape[-2:]).contiguous() for x in call.tensors())
    output = attention(_BlockSparse(block_size, call.scale), q, k, v, layout, by_values=True)
    return output.to(query.dtype)


class _BlockSparse(NamedTuple):
    """One row of blocks after the other, and a backward that computes the weights again."""

    block_size: int
    scale: float

    @property
    def unit(self) -> float:
        return math.log(2)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of powers of 2, and the score subtracted, ``(..., n, 1)``."""
        output = v.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., n, d_v)
        maxima, totals = (q.new_full((*q.shape[:-1], 1), number) for number in (0.0, 1.0))
        bounded = self._bounded(q, k, v)
        parts = (q, k, v, output, maxima, totals)
        for head, rows_of_blocks in _heads(q, *masks):
            q_blocks, k_blocks, v_blocks, outputs, maximum, total = (
                torch.split(x[head], self.block_size, -2) for x in parts
            )
            for row, seen in rows_of_blocks:
                powers = self._scores(q_blocks[row], _gathered(k_blocks, seen))
                if not bounded:
                    powers.sub_(torch.amax(powers, -1, keepdim=True, out=maximum[row]))
                torch.sum(powers.exp2_(), -1, keepdim=True, out=total[row])  # (..., rows, 1)
                sums = product_with_transpose(powers, _gathered(v_blocks, seen).mT)
                torch.div(sums, total[row], out=outputs[row])  # (..., rows, d_v)
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
        shifted = bool(maxima.any())
        # Divided here, once: the weights below are powers that the total does not divide.
        grad = grad / totals
        means = (grad * output).sum(-1, keepdim=True) - grad_normaliser  # (..., n, 1)
        parts = (q, k, v, maxima, grad, means, d_q, d_k, d_v)
        for head, rows_of_blocks in _heads(q, *masks):
            q_, k_, v_, maximum, g_, mean, d_q_, d_k_, d_v_ = (
                torch.split(x[head], self.block_size, -2) for x in parts
            )
            for row, seen in rows_of_blocks:
                g, keys = g_[row], _gathered(k_, seen)  # (..., rows, d_v), (..., keys, d_k)
                weights = self._scores(q_[row], keys)  # (..., rows, keys)
                weights = (weights.sub_(maximum[row]) if shifted else weights).exp2_()
                d_weights = product_with_transpose(g, _gathered(v_, seen))  # (..., rows, keys)
                d_scores = d_weights.sub_(mean[row]).mul_(weights).mul_(self.scale)
                # Both transposed: so the products read their operands along rows.
                d_values = product_with_transpose(g.mT, weights.mT).mT  # (..., keys, d_v)
                d_keys = product_with_transpose(q_[row].mT, d_scores.mT).mT  # (..., keys, d_k)
                for sums, products in ((d_v_, d_values), (d_k_, d_keys)):
                    for block, part in zip(
                        seen, torch.split(products, self.block_size, -2), strict=True
                    ):
                        sums[block].add_(part)
                d_q_[row].copy_(product_with_transpose(d_scores, keys.mT))
        return d_q, d_k, d_v

    def formula(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:
        n, m = q.shape[-2], k.shape[-2]
        mask = block_layout(n, m, layout=masks[0], block_size=self.block_size)
        found = attend(q, k, v, mask.dense(q.device), scale=self.scale)
        return found.output, found.lse

    def _bounded(self, q: Tensor, k: Tensor, v: Tensor) -> bool:
        """Whether no score is so large that values times its exponential could overflow."""
        if 0 in (*q.shape, *k.shape, *v.shape):
            return True
        longest = (x.norm(dim=-1).amax() for x in (q, k))  # by Cauchy and Schwarz
        largest = math.prod(longest) * abs(self.scale) * _LOG2_E
        least, most = v.aminmax()
        return bool(largest + torch.maximum(-least, most).clamp(min=1.0).log2() < _SAFE)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """In units of ln 2, ``(..., rows, keys)``."""
        return product_with_transpose(q * (self.scale * _LOG2_E), k)


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


def _formula(
    query: Tensor, key: Tensor, value: Tensor, layout: Tensor, *, block_size: int, **options: Any
) -> Tensor:
    """The definition under the mask of the blocks."""
    n, m = query.shape[-2], key.shape[-2]
    seen = block_layout(n, m, layout=layout, block_size=block_size)
    return scaled_dot_product_attention(query, key, value, seen, **options)


def _blocks(given: Example) -> dict[str, Any]:
    """Every second block, and one of those is read by no query."""
    size = 2 if given.n < 256 else 32
    rows, columns = -(-given.n // size), -(-given.m // size)
    place = torch.arange(rows, device=given.query.device)[:, None]
    place = place + torch.arange(columns, device=place.device)
    return {"layout": place % 2 == 0, "block_size": size}


def _every_block(given: Example) -> dict[str, Any]:
    size = max(4, -(-max(given.n, given.m) // 128))
    layout = torch.ones(-(-given.n // size), -(-given.m // size), dtype=torch.bool)
    return {"layout": layout.to(given.query.device), "block_size": size}


METHOD = Method(
    function=block_sparse_attention,
    page="variants/block-sparse",
    formula=_formula,
    example=_blocks,
    plain=_every_block,
    tasks=("blocks",),
)
