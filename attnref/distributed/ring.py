r"""Ring attention: each rank keeps its queries, and the keys of all travel past them in a ring.

On rank r of p, after t steps the keys of rank r - t are here. Attention to each block merges with
that to those before it, by the log-sum-exp; the backward pass lets the gradients of a block travel
with it until they are home.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attnref.distributed._agreement import agree_backward, share
from attnref.distributed._blocks import Block, attend_blocks, pull_back
from attnref.distributed._call import Shared, enter_shared
from attnref.distributed._messages import Posted, pass_on
from attnref.distributed._ranks import Group, ranks_of
from attnref.masks import Mask
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.softmax import Partial


def ring_attention(
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
    r"""Softmax attention over a sequence of which each rank holds a part, in memory of that part.

        o_i = Σ_t ℓ_t e^(μ_t - μ) o_(i,t) / (Σ_t ℓ_t e^(μ_t - μ))
        μ = max_t μ_t

    with ``o_(i,t)``, ``μ_t`` and ``ℓ_t`` output, maximum and normaliser of query
    i over the keys that are here in step t. The same function as
    :func:`attnref.scaled_dot_product_attention` of the whole sequence, forward and backward, for
    the loss that is the sum of those of all ranks. Each step sends the keys and values on before
    it computes with them. All ranks call it alike: they compare first what they were given, which
    pairs the masks allow included, and a difference is an error on all of them.

    Args:
        query: ``(..., n_r, d_k)``, this rank's part of n, as :func:`shard` cuts it; any floating
            dtype of 16 bits or more.
        key: ``(..., m_r, d_k)``, this rank's part of m, same dtype and device.
        value: ``(..., m_r, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks` over the whole ``(..., n, m)``, the same on all
            ranks, such as ``masks.packed(lengths)``. What no query of a rank sees is not
            computed, and a step in which no rank sees anything is not sent. Of a mask with a rule
            of your own, each rank first looks at all pairs, to compare them.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i, by their positions in the whole sequence.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head; only
            the key heads travel.
        group: the ranks in the order of the ring, or a mesh of one dimension; None means all.
        layout: which positions a rank holds: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.

    Returns:
        ``(..., n_r, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does; for lengths that are not those of the layout;
            on all ranks, naming what differs, when their calls differ or one of them refuses its
            own.
        torch.distributed.DistError: when a rank has died or is later than the group's timeout.

    A NaN or inf reaches queries that may not attend to it, as in
    :func:`attnref.blockwise_attention`.

    Exact up to rounding, in float32 or wider. A rank computes ``4 n² d h / p`` operations,
    half of it if causal: the same on all ranks under zigzag, nearly so when striped, while
    contiguous leaves the last rank with twice the mean. It sends
    ``(p-1) h_kv n/p (d_k+d_v)`` numbers forward, and backward as many again and their
    gradients; memory ``O(n/p (d_k+d_v))``, for two blocks beside its own part. See
    :func:`attnref.cost.ring`. First derivatives only, by ``backward()``: with
    ``create_graph=True`` it raises RuntimeError, inside ``torch.func`` the call itself TypeError.

    Source: Liu et al. 2023, arXiv 2310.01889; striped: Brandon et al. 2023, arXiv 2311.09431;
    zigzag: Zhu, https://github.com/zhuzilin/ring-flash-attention.

    Examples:
        A ring of one rank; ``torchrun --nproc-per-node 4`` starts one of four:

        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> query, value = torch.zeros(3, 2), torch.tensor([[3.0], [5.0], [10.0]])
        >>> ring_attention(query, query, value, is_causal=True).flatten()
        tensor([3., 4., 6.])
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of("ring_attention", group)
    call = enter_shared(
        ranks, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, layout
    )
    return ring(call, query, key, value, is_masked=attn_mask is not None)


def ring(call: Shared, query: Tensor, key: Tensor, value: Tensor, *, is_masked: bool) -> Tensor:
    """The output of this rank's queries; only a mask leaves steps without any pair."""
    ranks, stages = call.ranks, list(range(call.ranks.size))
    if is_masked:
        rows = share([bool(tiles) for tiles in call.tiles.by_source], ranks)
        stages = [
            t for t in stages if t == 0 or any(row[rank - t] for rank, row in enumerate(rows))
        ]
    query = query.expand(*call.lead, *query.shape[-2:])
    arguments = call, stages, query, key, value
    output: Tensor = _Ring.apply(*arguments)  # type: ignore[no-untyped-call]
    return output


class _Ring(torch.autograd.Function):
    """Attention in the ring, and the gradients in another one."""

    @staticmethod
    def forward(
        ctx: Any, call: Shared, stages: list[int], query: Tensor, key: Tensor, value: Tensor
    ) -> Tensor:
        found = attend_blocks(call.tiles, query, value.shape[-1], _travel(call, stages, key, value))
        ctx.call, ctx.stages = call, stages
        ctx.save_for_backward(query, key, value, *found)
        return found.output.to(query.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        call, ranks, stages = ctx.call, ctx.call.ranks, ctx.stages
        query, key, value, *rest = ctx.saved_tensors
        found = Partial(*rest)
        agree_backward(ranks, call.number)
        d_query = torch.zeros_like(query, dtype=found.output.dtype)
        grad = grad.to(found.output.dtype)
        carried: Posted | None = None  # what the ranks behind have added to the block that is here
        after = dict(pairwise([*stages, ranks.size]))  # in step p, a block is home again
        for source, keys, values in _travel(call, stages, key, value):
            stage = (ranks.rank - source) % ranks.size
            mine = pull_back(call.tiles, source, grad, query, keys, values, found, d_query)
            if stage == 0:
                home = mine  # of this rank's block; they wait for those of the others
            else:
                _add(mine, carried)
                carried = None  # or what was added would be kept beside what comes next
                hop, shapes = after[stage] - stage, call.shapes(ranks.rank - after[stage], *mine)
                carried = pass_on(ranks, mine, shapes, hop=hop, what="gradients of keys and values")
            del keys, values, mine  # or the next ones would come while these are here
        _add(home, carried)
        d_key, d_value = home
        return None, None, d_query.to(query.dtype), d_key.to(key.dtype), d_value.to(value.dtype)


def _add(mine: tuple[Tensor, Tensor], carried: Posted | None) -> None:
    """What comes from the rank behind, if any does, to what was found here."""
    if carried is not None:
        for own, other in zip(mine, carried.wait(), strict=True):
            own += other


def _travel(call: Shared, stages: list[int], key: Tensor, value: Tensor) -> Iterator[Block]:
    """Step by step the block that is here, while the next one is on its way."""
    ranks = call.ranks
    for stage, following in pairwise(stages):
        shapes = call.shapes(ranks.rank - following, key, value)
        hop, what = following - stage, "keys and values"
        posted = pass_on(ranks, (key, value), shapes, hop=hop, what=what)
        yield (ranks.rank - stage) % ranks.size, key, value
        key, value = posted.wait()
        del posted  # and the block that has left
    yield (ranks.rank - stages[-1]) % ranks.size, key, value


METHOD = Method(
    function=ring_attention,
    page="variants/ring",
    formula=scaled_dot_product_attention,
    derivatives=1,
    dimensions=2,
    masks="objects",
    isolates=(),
)
