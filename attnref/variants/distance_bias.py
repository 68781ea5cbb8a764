r"""Attention whose scores get a number for the distance of query and key, learned or fixed.

    s_ij = c q_i·k_j + b_(j-i)

The distances of n queries and m keys are the ``n+m-1`` diagonals of the table of scores, so
that this many numbers per head say all. A block of the table is spread out of the stretch of them
that it needs: with the queries in reverse, it is a view of them. In the backward pass, the gradient
of ``b_t`` is the sum of the scores' gradients along diagonal t, taken block by block.
"""

import math
from typing import Any

import torch
from torch import Tensor

from attnref import checks
from attnref._door import Call, check_without_gradient, enter
from attnref.masks import Mask
from attnref.masks.tensors import cast_mask, combine_masks
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._kernels import call_fused
from attnref.variants._tiled import attention, is_derived
from attnref.variants.blockwise import Masked

__all__ = ["distance_bias_attention"]


def distance_bias_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Softmax attention with a bias for each head and each distance, and the bias's gradient.

        o_i = Σ_j p_ij v_j
        p_ij ∝ exp(c q_i·k_j + b_(j-i))
        ∂L/∂b_t = Σ_(j-i=t)∂L/∂s_ij

    The same function as :func:`attnref.scaled_dot_product_attention` with the table
    ``B_ij=b_(j-i)`` as its ``attn_mask``, forward and backward; the table is never held.
    Where ``bias`` comes from is open, and gradients flow on to it: a table of buckets
    (:func:`attnref.positions.relative_buckets`), slopes times distances
    (:func:`attnref.positions.distances`), or another function of them.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        bias: ``(h, n + m - 1)``, or another shape whose leading dimensions broadcast with those
            of the scores: b from the distance -(n - 1), of the last query and the first key, to
            m - 1, of the first query and the last key. Any floating dtype; -inf = may not attend.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``. T5 has 1.0.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in float32 or wider. A single query without gradients goes to PyTorch's
    kernel. A query that may attend to no key gives zeros and finite gradients. A NaN or inf
    reaches queries that may not attend to it, as in
    :func:`attnref.blockwise_attention`. Time ``2 p (d_k + d_v)`` operations
    forward and ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in blocks that are not empty.
    Memory ``O((n + m) (d_k + d_v))``, 512 rows of the mask, and 16 MiB of it as bools while it is
    asked; second and forward-mode derivatives hold all n × m weights.

    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1; ALiBi: Press, Smith, Lewis 2021,
    arXiv 2108.12409; other functions of the distance: Chi et al. 2022, arXiv 2205.09921.

    Examples:
        >>> query = torch.zeros(1, 3, 2)
        >>> bias = torch.tensor([[0.0, 0.0, 0.0, 50.0, 0.0]])  # for the distances -2, -1, 0, 1, 2
        >>> value = torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> distance_bias_attention(query, query, value, bias).flatten()
        tensor([2., 6., 3.])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    check_without_gradient(attn_mask)
    *lead, n, m = call.shape
    _check_bias(bias, query, call.shape)
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(query.dtype))
    if math.prod(call.shape) == 0 or v.shape[-1] == 0:
        return q @ (k.mT @ v) + bias[..., :0].sum().to(query.dtype)  # sums of nothing: zeros
    bias = bias.expand(*lead, n + m - 1).unsqueeze(-2)  # (..., 1, n + m - 1)
    if n == 1 and not is_derived(q, k, v, bias):
        return _step(call, bias)
    plan, masks = Masked.from_call(call, diagonals=True)
    return attention(plan, call.scale, q, k, v, *masks, diagonals=bias.mT).to(query.dtype)


def _step(call: Call, bias: Tensor) -> Tensor:
    """The row of a single query, whose bias is a mask as it is, by the fused kernel."""
    mask = call.mask_tensor()
    added = cast_mask(bias, call.dtype)  # (..., 1, m)
    query, key, value = (x.to(call.dtype) for x in call[:3])
    one = call._replace(
        query=query,
        key=key,
        value=value,
        attn_mask=added if mask is None else combine_masks(added, mask),
    )
    return call_fused(one).to(call.query.dtype)


def _check_bias(bias: Tensor, query: Tensor, shape: checks.Shape) -> None:
    *lead, n, m = shape
    if not isinstance(bias, Tensor):
        raise TypeError(
            f"bias: expected a torch.Tensor, got {type(bias).__name__}. Convert it with "
            "torch.as_tensor(bias)."
        )
    if not bias.is_floating_point():
        raise TypeError(
            f"bias: expected a floating dtype, got {bias.dtype}. The numbers of buckets are an "
            "index: take table[:, buckets]."
        )
    if bias.device != query.device:
        raise ValueError(
            f"bias: expected device {query.device}, where query is, got {bias.device}. Move it "
            "with bias.to(query.device)."
        )
    distances = max(n + m - 1, 0)
    own = bias.shape[:-1] if bias.dim() else ()
    if (
        bias.dim() == 0
        or bias.shape[-1] != distances
        or checks.broadcast_shape(own, lead) != (*lead,)
    ):
        raise ValueError(
            f"bias: expected shape (..., {distances}), a number for each distance of {n} queries "
            f"and {m} keys, with leading dimensions that broadcast to {(*lead,)}, got "
            f"{tuple(bias.shape)}. A table of all pairs goes into attn_mask; "
            f"attnref.positions.distances({n}, {m}) names the distances in their order."
        )


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    bias: Tensor,
    **options: Any,
) -> Tensor:
    """The definition with the table of all pairs as its mask."""
    n, m = query.shape[-2], key.shape[-2]
    place = torch.arange(m, device=bias.device) - torch.arange(n, device=bias.device)[:, None]
    table = bias[..., place + n - 1]  # (..., n, m)
    if isinstance(attn_mask, Mask):
        attn_mask = attn_mask.dense(query.device)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        table = table.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        table = table + attn_mask
    return scaled_dot_product_attention(query, key, value, table.to(query.dtype), **options)


def _distances(given: Example) -> dict[str, Any]:
    return {"bias": given.randn(max(0, given.n + given.m - 1))}


METHOD = Method(
    function=distance_bias_attention,
    page="variants/distance-bias",
    formula=_formula,
    example=_distances,
    plain=lambda given: {"bias": given.query.new_zeros(max(0, given.n + given.m - 1))},
    isolates=(),
    tasks=("distance",),
)
