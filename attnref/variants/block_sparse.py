r"""Exact attention where whole blocks of pairs are allowed or not: the others cost nothing.

The keys that a block of queries may see are gathered side by side; over them its attention is
dense, without a mask, and blocks that see equally many are one batch.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnref._door import check_neutral, enter
from attnref.checks import Shape, check_mask
from attnref.masks import block_layout
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._tiled import Plan, Tile, attention, holds

__all__ = ["block_sparse_attention"]

_NUMBERS = 2**20  # of gathered keys or values, or of scores
_DENSE = 0.4  # of blocks that are allowed
_STRIP = 1024  # queries


def block_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    block_size: int,
) -> Tensor:
    r"""Softmax attention over the blocks that a layout allows.

        o_i = Σ_(j ∈ N_i) p_ij v_j
        N_i = {j : layout_(⌊i/B⌋, ⌊j/B⌋)}

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
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        block_size: side B of a block; those at the end may be smaller.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference and :func:`attnref.masks.block_layout` do.

    Exact up to rounding; in half precision a processor rounds forward as PyTorch's kernel does, and
    computes backward in float32. Time ``2 p (d_k + d_v)`` operations forward and
    ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in allowed blocks, and on a processor the
    larger of d_k and d_v for both; where more than 40 % of the blocks are allowed, p are all pairs
    between the first and the last block of 1024 queries, which is faster. Memory
    ``O((n + m) (d_k + d_v))``, and about a million gathered numbers, or a mask of 1024 × m; second
    derivatives hold all n × m weights.

    Source: Child et al. 2019, arXiv 1904.10509; Zaheer et al. 2020, arXiv 2007.14062.

    Examples:
        >>> query, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> layout = torch.tensor([[True, False], [True, True]])
        >>> block_sparse_attention(query, query, value, layout, block_size=2).T
        tensor([[2., 2., 4., 4.]])
    """
    advice = "The layout says which keys a query sees; for more use blockwise_attention."
    check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    call = enter(query, key, value, None, dropout_p, False, scale, enable_gqa)
    *lead, n, m = call.shape
    mask = block_layout(n, m, layout=layout, block_size=block_size)
    check_mask(mask.shape, call.shape)
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(query.dtype))
    return attention(_Rows(block_size), call.scale, q, k, v, layout).to(query.dtype)


@dataclass(frozen=True)
class _Rows(Plan):
    """Rows of blocks that see equally many keys go together, whichever head they are of."""

    block_size: int
    flat = True
    once = True

    def refine(self, *masks: Tensor) -> Plan:
        by_kernel = not holds(masks[0])  # products have gathered tiles as one batch
        dense = by_kernel and masks[0].float().mean() > _DENSE
        return _Strips(self.block_size) if dense else self

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        if 0 in shape:
            return
        *lead, n, m = shape
        size, heads, device = self.block_size, math.prod(lead), like.device
        layout = masks[0].expand(*lead, *masks[0].shape[-2:]).reshape(heads, *masks[0].shape[-2:])
        first = torch.arange(0, m, size, device=device)  # (blocks,), the last of which may be short
        counts = (layout * (m - first).clamp(max=size)).sum(-1)  # (heads, rows of blocks), of keys
        inside = torch.arange(size, device=device)
        for count in filter(None, torch.unique(counts).tolist()):
            at_once = max(1, _NUMBERS // (count * max(size, like.shape[-1])))
            for head, row in (x.mT for x in torch.split((counts == count).nonzero(), at_once)):
                queries = row[:, None] * size + inside  # (b, B)
                rows = torch.where(queries < n, queries + n * head[:, None], heads * n)
                blocks = layout[head, row].nonzero()[:, 1].view(len(row), -1, 1)  # (b, blocks, 1)
                columns = (blocks * size + inside).flatten(1)[:, :count]  # (b, keys)
                yield Tile(rows, columns + m * head[:, None])

    def dense(self, shape: Shape, like: Tensor, *masks: Tensor) -> Tensor:
        mask = block_layout(*shape[-2:], layout=masks[0], block_size=self.block_size)
        return mask.dense(like.device)


class _Strips(_Rows):
    """Some rows of blocks with all keys between the first and the last that any of them sees, where
    most blocks are allowed: then the kernel on many queries is faster than what gathering saves.
    """

    flat = False

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterator[Tile]:
        if 0 in shape:
            return
        *lead, n, m = shape
        size, layout = self.block_size, masks[0]
        alike: list[tuple[int, ...]] = [()]
        if layout.dim() > 2:
            layout = layout.expand(*lead, *layout.shape[-2:])
            alike = [*itertools.product(*map(range, lead))]
        step, room = layout.shape[-2], like.new_empty(0, 0)
        if not layout.all():
            step = max(1, _STRIP // size)
            room = like.new_empty(min(step * size, n + size), m + size)  # of every strip's bias
        for head in alike:
            for first, part in enumerate(torch.split(layout[head], step)):  # (rows, blocks)
                seen = part.any(0).nonzero()[:, 0].tolist()
                if not seen:
                    continue
                rows = slice(first * step * size, min((first * step + len(part)) * size, n))
                keys, bias = slice(seen[0] * size, min((seen[-1] + 1) * size, m)), None
                part = part[:, seen[0] : seen[-1] + 1]
                if not part.all():
                    blocks = like.new_zeros(part.shape).masked_fill_(~part, -torch.inf)
                    height, width = (count * size for count in part.shape)
                    bias = room[:height, :width]
                    sides = torch.unflatten(torch.unflatten(bias, -1, (-1, size)), 0, (-1, size))
                    sides.copy_(blocks[:, None, :, None])
                    bias = bias[: rows.stop - rows.start, : keys.stop - keys.start]
                yield Tile(rows, keys, bias, head=head)


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
    neutral=("attn_mask", "is_causal", "dropout_p"),
    example=_blocks,
    plain=_every_block,
    tasks=("blocks",),
)
