r"""Decoding from a cache that is divided among ranks: each attends to its keys, and they merge.

    o_i = Σ_r ℓ_r e^(μ_r-μ) o_(i,r) / Σ_r ℓ_r e^(μ_r-μ)

What is sent does not depend on how many keys there are: an output, a maximum and a normaliser for
each new token and head.
"""

import functools

import torch
from torch import Tensor

from attnref._door import Call, check_neutral, check_without_gradient, enter
from attnref.distributed._agreement import Terms, agree, check_untransformed
from attnref.distributed._messages import collect
from attnref.distributed._ranks import Group, ranks_of
from attnref.masks import Mask
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.softmax import Partial, merge
from attnref.variants._tiled import Inputs, compute_partial, is_derived
from attnref.variants.blockwise import Masked
from attnref.variants.kv_cache import _group_queries


def split_kv_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    group: Group = None,
) -> Tensor:
    r"""Softmax attention of new tokens to a cache of which each rank holds some of the keys.

    The same function as :func:`attnref.kv_cache_attention` of a single new token,
    for keys divided among the ranks in any way. Without gradients: it is for inference.

    Args:
        query: ``(..., n, d_k)``, the same on all ranks; any floating dtype of 16 bits or more.
        key: ``(..., m_r, d_k)``, the keys of this rank, m_r = 0 or more of them; same dtype and
            device.
        value: ``(..., m_r, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: over the keys of this rank alone, ``(..., n, m_r)``, as in
            :func:`attnref.scaled_dot_product_attention`: for samples of different lengths, and for
            several new tokens, which see each other causally; None means that all see all.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: False, likewise.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        group: the ranks, or a mesh of one dimension; None means all.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``, the same on all ranks.

    Raises:
        TypeError, ValueError: as the reference does, and for tensors that require gradients; on all
            ranks, naming what differs, when their calls differ.
        torch.distributed.DistError: when a rank has died or is later than the group's timeout.

    Exact up to rounding, in float32 or wider. Time ``2 h n m_r (d_k + d_v)`` operations; a rank
    sends ``(p-1) h n (d_v + 2)`` numbers. See :func:`attnref.cost.sent`.

    Source: Dao et al. 2023, Flash-Decoding, https://pytorch.org/blog/flash-decoding/; across
    devices: Shyam et al. 2024, arXiv 2408.04093.

    Examples:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> query, value = torch.zeros(1, 2), torch.tensor([[3.0], [5.0], [10.0]])
        >>> split_kv_attention(query, torch.zeros(3, 2), value)
        tensor([[6.]])
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of("split_kv_attention", group)

    def check() -> tuple[Call, Terms]:
        check_neutral("A new token sees all keys up to itself.", is_causal=is_causal)
        call = enter(query, key, value, attn_mask, dropout_p, False, scale, enable_gqa)
        check_untransformed(query=query, key=key, value=value)
        check_without_gradient(attn_mask)
        if is_derived(query, key, value):
            raise ValueError(
                "query: expected tensors without gradients, got one that requires them. Decode "
                "under torch.no_grad(), or train with ring_attention."
            )
        same = {
            "dtype": str(query.dtype),
            "shape of query": query.shape,
            **{
                f"shape of {name} (length apart)": [*x.shape[:-2], x.shape[-1]]
                for name, x in (("key", key), ("value", value))
            },
            "scale": call.scale,
            "enable_gqa": enable_gqa,
        }
        return call, Terms(same)

    call, _ = agree(check, ranks)
    own = _partial_attention(call if attn_mask is not None else _group_queries(call))
    packed = torch.cat([x.reshape(*call.shape[:-1], x.shape[-1]) for x in own], -1)
    parts = collect(ranks, packed, [packed.shape] * ranks.size, what="partial results")
    merged = functools.reduce(
        merge, (Partial(x[..., :-2], x[..., -2:-1], x[..., -1:]) for x in parts)
    )
    return merged.output.to(query.dtype)


def _partial_attention(call: Call) -> Partial:
    """Attention to the keys of this rank, with what it takes to merge it."""
    q, k, v = (x.expand(*call.shape[:-2], *x.shape[-2:]) for x in call.tensors())
    plan, masks = Masked.from_call(call)
    return compute_partial(plan, call.scale, Inputs(q, k, v), *masks)


METHOD = Method(
    function=split_kv_attention,
    page="variants/ring",
    formula=scaled_dot_product_attention,
    neutral=("dropout_p", "is_causal"),
    derivatives=0,
)
