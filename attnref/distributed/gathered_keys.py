r"""Attention to gathered keys: every rank has all keys and values, and its own queries only.

One message where the ring has p - 1, and nothing of it hidden behind computing; in exchange the
keys and values of the whole sequence have to fit on each rank.
"""

from typing import Any

import torch
from torch import Tensor

from attnref.distributed._agreement import agree_backward
from attnref.distributed._blocks import attend_blocks, pull_back
from attnref.distributed._call import Shared, enter_shared
from attnref.distributed._messages import collect, swap
from attnref.distributed._ranks import Group, ranks_of
from attnref.masks import Mask
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.softmax import Partial


def gather_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    group: Group = None,
    layout: str = "zigzag",
) -> Tensor:
    r"""Softmax attention over a shared sequence whose keys and values every rank gathers first.

        o_i = Σ_j p_ij v_j
        i ∈ R, 0 ≤ j < m

    for the positions R of this rank. The same function as :func:`ring_attention`, forward and
    backward, with the same arguments. Llama 3 was trained so: with few key heads, what is gathered
    is small beside the queries.

    Args:
        query: ``(..., n_r, d_k)``, this rank's part of n, as :func:`shard` cuts it; any floating
            dtype of 16 bits or more.
        key: ``(..., m_r, d_k)``, this rank's part of m, same dtype and device.
        value: ``(..., m_r, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks` over the whole ``(..., n, m)``, the same on all
            ranks. What no query of a rank sees is not computed.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i, by their positions in the whole sequence.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        group: the ranks, or a mesh of one dimension; None means all.
        layout: which positions a rank holds: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.

    Returns:
        ``(..., n_r, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError, torch.distributed.DistError: as :func:`ring_attention`.

    Exact up to rounding, in float32 or wider; NaN and inf as in the ring. A rank computes and sends
    as much as there, with the longest part for each if lengths differ; memory
    ``O(m h_kv (d_k + d_v))``, that of all keys and values, and backward that of their
    gradients. See :func:`attnref.cost.sent`. First derivatives only, by ``backward()``:
    with ``create_graph=True`` it raises RuntimeError, inside ``torch.func`` the call itself
    TypeError.

    Source: Llama Team 2024, arXiv 2407.21783, section 3.3.2.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> query, value = torch.zeros(3, 2), torch.tensor([[3.0], [5.0], [10.0]])
        >>> gather_attention(query, query, value, is_causal=True).flatten()
        tensor([3., 4., 6.])
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of("gather_attention", group)
    call = enter_shared(
        ranks, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, layout
    )
    query = query.expand(*call.lead, *query.shape[-2:])
    output: Tensor = _Gathered.apply(call, query, key, value)  # type: ignore[no-untyped-call]
    return output


class _Gathered(torch.autograd.Function):
    """Attention to the blocks of all ranks, and gradients sent to the ranks whose they are."""

    @staticmethod
    def forward(ctx: Any, call: Shared, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        found = attend_blocks(call.tiles, query, value.shape[-1], _collect(call, key, value))
        ctx.call = call
        ctx.save_for_backward(query, key, value, *found)
        return found.output.to(query.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        call, ranks = ctx.call, ctx.call.ranks
        query, key, value, *rest = ctx.saved_tensors
        found = Partial(*rest)
        agree_backward(ranks, call.number)
        d_query = torch.zeros_like(query, dtype=found.output.dtype)
        grad = grad.to(found.output.dtype)
        gradients = [
            pull_back(call.tiles, source, grad, query, k, v, found, d_query)
            for source, k, v in _collect(call, key, value)
        ]
        d_key, d_value = (
            torch.stack(
                swap(ranks, pieces, [pieces[ranks.rank].shape] * ranks.size, what="gradients")
            ).sum(0)
            for pieces in zip(*gradients, strict=True)
        )
        return None, d_query.to(query.dtype), d_key.to(key.dtype), d_value.to(value.dtype)


def _collect(call: Shared, key: Tensor, value: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """The keys and values of all ranks. The backward pass gathers again, rather than keep them."""
    shapes = zip(*(call.shapes(rank, key, value) for rank in range(call.ranks.size)), strict=True)
    keys, values = (
        collect(call.ranks, x, own, what="keys and values")
        for x, own in zip((key, value), shapes, strict=True)
    )
    return list(zip(range(call.ranks.size), keys, values, strict=True))


METHOD = Method(
    function=gather_attention,
    page="variants/ring",
    formula=scaled_dot_product_attention,
    derivatives=1,
    dimensions=2,
    masks="objects",
    isolates=(),
)
