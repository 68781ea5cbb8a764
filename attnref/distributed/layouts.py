r"""Layouts: which rank holds which positions of a sequence, and how it is cut and put together.

Under a causal mask the last position sees n keys and the first one sees one, so it counts which
positions a rank holds: contiguous parts give the last rank ``2p - 1`` times the work of the
first, striped and zigzag parts give all ranks the same.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from attnref import checks
from attnref.distributed._agreement import (
    Terms,
    agree,
    agree_backward,
    check_untransformed,
    number_of_call,
)
from attnref.distributed._messages import collect, swap
from attnref.distributed._ranks import Group, Ranks, ranks_of
from attnref.layouts import Held, check_layout, cut, length, rank_positions


def positions(
    n: int, *, cu_seqlens: Tensor | None = None, group: Group = None, layout: str = "zigzag"
) -> Tensor:
    r"""The positions that this rank holds of a sequence, in the order in which it holds them.

        zigzag: [rn/2p, ((r+1)n)/2p) ∪ [((2p-1-r)n)/2p, ((2p-r)n)/2p)
        striped: r, r+p, r+2p, …
        contiguous: [rn/p, ((r+1)n)/p)

    with borders rounded down. For rotary embeddings and masks of one's own, which need to know
    where a token is.

    Args:
        n: length of the whole sequence.
        cu_seqlens: ``(documents + 1,)`` integers, the borders of packed documents from 0 to n;
            then positions are counted from the beginning of each document.
        group: the ranks, or a mesh; None means all. In a mesh of two dimensions the first follows
            the layout, and the second cuts each of its parts in contiguous ones, as
            :func:`mesh_attention` takes them.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.

    Returns:
        ``(n_r,)`` int64, on the processor.

    Raises:
        ValueError: for a layout that does not exist, borders that are not those of n positions, or
            processes that were not started together.

    Source: striped: Brandon et al. 2023, arXiv 2311.09431; zigzag: Zhu,
    https://github.com/zhuzilin/ring-flash-attention.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> positions(5, cu_seqlens=torch.tensor([0, 2, 5]))
        tensor([0, 1, 0, 1, 2])
        >>> dist.destroy_process_group()
    """
    checks.check_positions(n=n)
    part = _own_part("positions", n, group, layout)
    found = indices(part, torch.device("cpu"))  # (n_r,)
    if cu_seqlens is None:
        return found
    borders = cu_seqlens.to("cpu", torch.int64)
    if borders[:1].tolist() != [0] or borders[-1] != n or (borders.diff() < 0).any():
        raise ValueError(
            f"cu_seqlens: expected borders that rise from 0 to {n}, the length of the sequence, "
            f"got {borders.tolist()}. From lengths it is "
            "torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])."
        )
    return found - borders[torch.searchsorted(borders, found, right=True) - 1]


def shard(tensor: Tensor, *, dim: int = -2, group: Group = None, layout: str = "zigzag") -> Tensor:
    """The part of a whole tensor that this rank holds; nothing is sent.

    Args:
        tensor: any shape and dtype, the same on all ranks, n long in ``dim``.
        dim: the dimension of the sequence.
        group: the ranks, or a mesh; None means all. In a mesh of two dimensions the first follows
            the layout, and the second cuts each of its parts in contiguous ones, as
            :func:`mesh_attention` takes them.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``, as in :func:`positions`.

    Returns:
        The same with the ``n_r`` positions of this rank in ``dim``, copied.

    Raises:
        ValueError: for a layout that does not exist, or processes that were not started together.

    Any n: parts differ in length by at most 2. The gradient is zero outside the part, so the sum
    over ranks is that of the whole tensor.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> shard(torch.tensor([[3.0], [5.0]])).flatten()
        tensor([3., 5.])
        >>> dist.destroy_process_group()
    """
    part = _own_part("shard", tensor.shape[dim], group, layout)
    return tensor.index_select(dim, indices(part, tensor.device))


def gather(tensor: Tensor, *, dim: int = -2, group: Group = None, layout: str = "zigzag") -> Tensor:
    """The whole tensor on every rank, from the parts that :func:`shard` made.

    Args:
        tensor: this rank's part, any shape and dtype; only ``dim`` may differ between ranks.
        dim: the dimension of the sequence.
        group: the ranks, or a mesh; None means all. In a mesh of two dimensions the first follows
            the layout, and the second cuts each of its parts in contiguous ones, as
            :func:`mesh_attention` takes them.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``, as in :func:`shard`.

    Returns:
        The same with all n positions in ``dim``, in order.

    Raises:
        TypeError, ValueError: on all ranks, naming what differs, when their calls differ; for
            lengths that are not those of the layout.
        torch.distributed.DistError: when a rank has died or is later than the group's timeout.

    Exact. The gradient of a part is the sum of those that all ranks have for it, as in
    ``torch.distributed.nn``: for a loss that each rank computes of the whole, that is p times the
    gradient of one. First derivatives only, as in :func:`ring_attention`. A rank sends its part
    to ``p-1`` others, and backward as many numbers.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> gather(torch.tensor([[3.0], [5.0]])).flatten()
        tensor([3., 5.])
        >>> dist.destroy_process_group()
    """
    ranks, *heads = dimensions_of("gather", group)
    if heads:
        tensor = gather(tensor, dim=dim, group=heads[0].group, layout="contiguous")

    def check() -> tuple[Tensor, Terms]:
        check_layout(layout)
        check_untransformed(tensor=tensor)
        rows = tensor.movedim(dim, 0)  # (n_r, ...)
        same = {
            "dtype": str(tensor.dtype),
            "shape (length apart)": rows.shape[1:],
            "layout": layout,
            "need of gradients": torch.is_grad_enabled() and tensor.requires_grad,
        }
        return rows, Terms(same, (rows.shape[0], 0))

    rows, lengths = agree(check, ranks)
    parts = all_rank_positions("tensor", ranks, [count for count, _ in lengths], layout)
    arguments = ranks, number_of_call(ranks), parts, rows
    found: Tensor = _Gather.apply(*arguments)  # type: ignore[no-untyped-call]
    return found.movedim(0, dim)


def dimensions_of(function: str, group: Group) -> list[Ranks]:
    """The ranks of a group, or those of the two dimensions of a mesh: the ring, and the heads."""
    if isinstance(group, DeviceMesh) and group.ndim == 2:
        return [ranks_of(function, group.get_group(dimension)) for dimension in (0, 1)]
    return [ranks_of(function, group)]


def _own_part(function: str, n: int, group: Group, layout: str) -> Held:
    """The positions of this rank."""
    check_layout(layout)
    ring, *heads = dimensions_of(function, group)
    part = rank_positions(n, ranks=ring.size, rank=ring.rank, layout=layout)
    return cut(part, ranks=heads[0].size, rank=heads[0].rank) if heads else part


class _Gather(torch.autograd.Function):
    """Rows of all ranks, put in order; and gradients of all ranks, added up."""

    @staticmethod
    def forward(ctx: Any, ranks: Ranks, number: int, parts: list[Held], rows: Tensor) -> Tensor:
        ctx.ranks, ctx.number, ctx.parts = ranks, number, parts
        shapes = [(length(part), *rows.shape[1:]) for part in parts]
        pieces = collect(ranks, rows, shapes, what="the parts of a sequence")
        return restore_order(pieces, parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ranks, parts = ctx.ranks, ctx.parts
        agree_backward(ranks, ctx.number)
        pieces = [grad[indices(part, grad.device)] for part in parts]
        shapes = [pieces[ranks.rank].shape] * ranks.size
        mine = swap(ranks, pieces, shapes, what="the gradients of parts of a sequence")
        return None, None, None, torch.stack(mine).sum(0)


def all_rank_positions(name: str, ranks: Ranks, counts: Sequence[int], layout: str) -> list[Held]:
    """The positions of each rank, whose counts must be what the layout makes of their sum."""
    n, ranked = sum(counts), range(ranks.size)
    found = [rank_positions(n, ranks=ranks.size, rank=rank, layout=layout) for rank in ranked]
    if (expected := [length(part) for part in found]) != list(counts):
        raise ValueError(
            f"{name}: expected the parts of {n} positions in the layout {layout!r}, of lengths "
            f"{_list_counts(expected)}, got {_list_counts(counts)}. Cut them with "
            f"attnref.distributed.shard(..., layout={layout!r})."
        )
    return found


def _list_counts(counts: Sequence[int]) -> str:
    """As many as fit a line."""
    return f"{', '.join(map(str, counts[:16]))}{', …' if len(counts) > 16 else ''} by rank"


def restore_order(pieces: Sequence[Tensor], parts: Sequence[Held]) -> Tensor:
    """The rows of each part, ``(n_r, ...)``, at their positions, ``(n, ...)``."""
    whole = pieces[0].new_empty(sum(map(length, parts)), *pieces[0].shape[1:])
    for piece, part in zip(pieces, parts, strict=True):
        whole[indices(part, whole.device)] = piece
    return whole


def indices(part: Held, device: torch.device) -> Tensor:
    """The positions as an index, ``(n_r,)``."""
    pieces = [torch.arange(x.start, x.stop, x.step, device=device) for x in part]
    return torch.cat([torch.arange(0, device=device), *pieces])
