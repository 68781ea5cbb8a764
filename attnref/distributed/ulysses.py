r"""Ulysses: parts of a sequence become heads, so that each rank attends in a few heads alone.

An all-to-all sends to each rank its heads of the part that is here; then a rank has the whole
sequence in ``h/p`` heads, attends as on one device, and a second all-to-all brings the outputs
back. What a rank sends shrinks as ranks are added, but there can be no more ranks than key heads.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref._door import Call, enter
from attnref.distributed._agreement import Terms, agree, agree_backward, number_of_call
from attnref.distributed._call import check_mask_of_all, query_and_key_positions, terms
from attnref.distributed._messages import swap
from attnref.distributed._ranks import Group, Ranks, ranks_of
from attnref.distributed.layouts import indices, restore_order
from attnref.layouts import Held, length
from attnref.masks import Mask
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants.blockwise import blockwise


def ulysses_attention(
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
    r"""Softmax attention over a shared sequence, with the heads divided among the ranks meanwhile.

        (h, n/p, d) → (h/p, n, d) → attention → (h/p, n, d_v) → (h, n/p, d_v)

    The same function as :func:`ring_attention`, forward and backward, with the same arguments.
    Each rank computes whole heads, so any layout is balanced.

    Args:
        query: ``(..., h, n_r, d_k)``, this rank's part of n, as :func:`shard` cuts it; any floating
            dtype of 16 bits or more; h a multiple of the number of ranks.
        key: ``(..., h_kv, m_r, d_k)``, this rank's part of m, same dtype and device; the number of
            ranks divides its heads, too.
        value: ``(..., h_kv, m_r, d_v)``, same dtype and device.
        attn_mask: a mask of :mod:`attnref.masks` over the whole ``(..., n, m)``, the same on all
            ranks and for all heads.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i, by their positions in the whole sequence.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: consecutive query heads share a key head.
        group: the ranks, or a mesh of one dimension; None means all.
        layout: which positions a rank holds: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.

    Returns:
        ``(..., h, n_r, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError, torch.distributed.DistError: as :func:`ring_attention`, and for heads
            that the number of ranks does not divide.

    Exact up to rounding; NaN and inf as in the ring. A rank computes
    ``4 n² d h / p`` operations, half of it if causal, and sends ``(p-1)/p`` of its
    part of query, key, value and output, and backward of their gradients; memory that of its part,
    which is as many numbers. See :func:`attnref.cost.sent`. First derivatives only, by
    ``backward()``: with ``create_graph=True`` it raises RuntimeError, inside ``torch.func`` the
    call itself TypeError.

    Source: Jacobs et al. 2023, arXiv 2309.14509.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> query, value = torch.zeros(1, 3, 2), torch.tensor([[[3.0], [5.0], [10.0]]])
        >>> ulysses_attention(query, query, value, is_causal=True).flatten()
        tensor([3., 4., 6.])
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of("ulysses_attention", group)

    def check() -> tuple[Call, Terms]:
        call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
        found = terms(call, attn_mask, layout)
        check_heads(ranks, call, attn_mask)
        return call, found

    call, lengths = agree(check, ranks)
    turn = Turn(ranks, *query_and_key_positions(ranks, lengths, layout), number_of_call(ranks))
    check_mask_of_all(call, lengths, attn_mask, ranks)
    q, k, v = turn.to_heads(query, key, value)
    shape = (*call.shape[:-3], call.shape[-3] // ranks.size, q.shape[-2], k.shape[-2])
    return turn.to_parts(blockwise(Call(q, k, v, attn_mask, *call[4:7], shape)))


def check_heads(ranks: Ranks, call: Call, attn_mask: Mask | None) -> None:
    """Each rank gets as many heads, of the queries and of the keys that they attend to."""
    for name, tensor in (("query", call.query), ("key", call.key)):
        if tensor.dim() < 3 or tensor.shape[-3] % ranks.size:
            raise ValueError(
                f"{name}: expected a number of heads (dimension -3) that {ranks.size} ranks "
                f"divide, got shape {tuple(tensor.shape)}. Take fewer ranks for the heads, in a "
                "mesh with mesh_attention, or ring_attention, which leaves heads alone."
            )
    if attn_mask is not None and len(attn_mask.shape) > 2 and attn_mask.shape[-3] != 1:
        raise ValueError(
            f"attn_mask: expected one mask for all heads, got shape {attn_mask.shape}. With a "
            "mask of its own for each head, call ring_attention."
        )


class Turn(NamedTuple):
    """The way from parts of the sequence in all heads to the whole sequence in a part of them."""

    ranks: Ranks
    queries: list[Held]
    keys: list[Held]
    number: int

    def to_heads(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor]
        found = _ToHeads.apply(self, query, key, value)  # type: ignore[no-untyped-call]
        return found

    def to_parts(self, output: Tensor) -> Tensor:
        found: Tensor = _ToParts.apply(self, output)  # type: ignore[no-untyped-call]
        return found


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, turn: Turn, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.turn = turn
        parts = (turn.queries, turn.keys, turn.keys)
        tensors = zip((query, key, value), parts, strict=True)
        return tuple(_heads_of(turn.ranks, x, own) for x, own in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        turn: Turn = ctx.turn
        parts = (turn.queries, turn.keys, turn.keys)
        tensors = zip(grads, parts, strict=True)
        return None, *(_parts_of(turn.ranks, x, own) for x, own in tensors)


class _ToParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, turn: Turn, output: Tensor) -> Tensor:
        ctx.turn = turn
        return _parts_of(turn.ranks, output, turn.queries)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        turn: Turn = ctx.turn
        agree_backward(turn.ranks, turn.number)
        return None, _heads_of(turn.ranks, grad, turn.queries)


def _heads_of(ranks: Ranks, tensor: Tensor, parts: list[Held]) -> Tensor:
    """Of ``(..., h, n_r, d)`` on each rank, ``(..., h / p, n, d)`` in the order of positions."""
    *lead, heads, _, d = tensor.shape
    shapes = [(*lead, heads // ranks.size, length(part), d) for part in parts]
    found = swap(ranks, tensor.chunk(ranks.size, -3), shapes, what="parts of all heads")
    return restore_order([x.movedim(-2, 0) for x in found], parts).movedim(0, -2)


def _parts_of(ranks: Ranks, tensor: Tensor, parts: list[Held]) -> Tensor:
    """Of ``(..., h / p, n, d)`` on each rank, ``(..., h, n_r, d)``."""
    pieces = [tensor.index_select(-2, indices(part, tensor.device)) for part in parts]
    shapes = [pieces[ranks.rank].shape] * ranks.size
    return torch.cat(swap(ranks, pieces, shapes, what="heads of all parts"), -3)


METHOD = Method(
    function=ulysses_attention,
    page="variants/ring",
    formula=scaled_dot_product_attention,
    derivatives=1,
    dimensions=3,
    masks="objects",
    isolates=(),
)
