r"""Multi-head latent attention: keys and values of all heads are read out of one short vector.

A token keeps the latent ``c_j`` and a key ``r_j`` that carries its position, one for all
heads. Head h reads its key and its value out of the latent, and its scores are

    s_ij = κ (q_i·U c_j + ϱ_i·r_j)
    o_i = Σ_j p_ij W c_j

Products can be taken in another order, with the matrices on the side of the query:

    q_i·U c_j = Uᵀ q_i·c_j
    Σ_j p_ij W c_j = W Σ_j p_ij c_j

so that no key and no value of a head need ever be made: the heads are then queries of one head
whose keys and values are the latents.
"""

from typing import Any

import torch
from torch import Tensor

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, check_neutral, check_tensors, check_without_gradient, enter
from attnref.masks import Mask, causal
from attnref.masks.tensors import combine_masks
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._kernels import call_fused
from attnref.variants._tiled import is_derived
from attnref.variants.blockwise import blockwise

__all__ = ["latent_attention"]


def latent_attention(
    query: Tensor,
    latent: Tensor,
    key_up: Tensor,
    value_up: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    query_rotary: Tensor | None = None,
    key_rotary: Tensor | None = None,
    absorb: bool | None = None,
) -> Tensor:
    r"""Softmax attention whose keys and values are linear functions of one latent per token.

        o_i^h = Σ_j p_ij^h W_h c_j
        p_ij^h ∝ exp κ(q_i^h·U_h c_j + ϱ_i^h·r_j)

    The same function as :func:`attnref.scaled_dot_product_attention` of the queries
    ``[q^h, ϱ^h]``, the keys ``[U_h c, r]`` and the values ``W_h c``, forward
    and backward. What it offers is the choice of the order: ``absorb=False`` makes keys and
    values of all heads, as training does; ``absorb=True`` takes the matrices to the query and to
    the output, as decoding does, where the latents are all that is kept and read.

    Args:
        query: ``(..., h, n, d_k)``, the part without position; any floating dtype of 16 bits or
            more.
        latent: ``(..., m, d_c)``, one vector per token, of all heads; same dtype and device.
        key_up: ``(h, d_k, d_c)``, U: what makes a head's key of a latent.
        value_up: ``(h, d_v, d_c)``, W: what makes a head's value of it.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., h, n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor ``κ`` on the scores; None means ``1/sqrt(d_k + d_r)``.
        enable_gqa: False, likewise.
        query_rotary: ``(..., h, n, d_r)``, the part that carries the position, rotated already.
        key_rotary: ``(..., m, d_r)``, one for all heads, rotated already; None where
            ``query_rotary`` is.
        absorb: whether the matrices go to the query and to the output; None takes the order that
            needs fewer operations.

    Returns:
        ``(..., h, n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in both orders. In half precision each rounds what it makes once: keys
    and values, or queries and averages of latents. A query that may attend to no key gives
    zeros and finite gradients. A NaN or inf reaches queries that may not attend to it, as in
    :func:`attnref.blockwise_attention`. In float16 an absorbed query can
    overflow where keys that are made do not.

    With P pairs of a query and a key, making keys and values takes
    ``2 h (m d_c (d_k + d_v) + P (d_k + d_r + d_v))`` operations, and memory for
    ``h m (d_k + d_r + d_v)`` numbers; absorbing takes
    ``2 h (n d_c (d_k + d_v) + P (2 d_c + d_r))``, and memory for ``h n (2 d_c + d_r)`` and for a
    mask of ``h n m``, if there is one. So a prompt is cheaper without absorbing, and a step of
    decoding with it, which reads ``m (d_c + d_r)`` numbers, however many heads there are.

    Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1 and appendix C.

    Examples:
        >>> query, latent = torch.zeros(3, 1, 2), torch.tensor([[1.0], [2.0], [6.0]])
        >>> key_up, value_up = torch.zeros(3, 2, 1), torch.ones(3, 1, 1)
        >>> latent_attention(query, latent, key_up, value_up).flatten()
        tensor([3., 3., 3.])
    """
    advice = "All heads share the latents, whatever their number."
    check_neutral(advice, enable_gqa=enable_gqa)
    rotary = _check_inputs(query, latent, key_up, value_up, query_rotary, key_rotary)
    check_without_gradient(attn_mask)
    _, d_k, d_c = key_up.shape
    n, m, d_v = query.shape[-2], latent.shape[-2], value_up.shape[-2]
    d_r = rotary[0].shape[-1] if rotary else 0
    if absorb is None:
        making, pairs = d_c * (d_k + d_v), n * m
        absorb = n * making + pairs * (2 * d_c + d_r) < m * making + pairs * (d_k + d_r + d_v)
    elif not isinstance(absorb, bool):
        raise TypeError(
            f"absorb: expected True, False or None, got {type(absorb).__name__}. None takes the "
            "order that needs fewer operations."
        )
    scale = (d_k + d_r) ** -0.5 if scale is None else checks.check_scale(scale, d_k + d_r)
    latent = latent.unsqueeze(-3)  # (..., 1, m, d_c)
    with own_precision(query.device):
        if not absorb:
            key, value = latent @ key_up.mT, latent @ value_up.mT  # (..., h, m, d)
            if rotary:
                shared = rotary[1].unsqueeze(-3).expand(*key.shape[:-1], d_r)
                query, key = torch.cat([query, rotary[0]], -1), torch.cat([key, shared], -1)
            return blockwise(enter(query, key, value, attn_mask, dropout_p, is_causal, scale))

        query = query @ key_up  # (..., h, n, d_c)
        key = latent
        if rotary:
            query = torch.cat([query, rotary[0]], -1)  # (..., h, n, d_c + d_r)
            key = torch.cat([key, rotary[1].unsqueeze(-3)], -1)  # (..., 1, m, d_c + d_r)
        call = enter(query, key, key, attn_mask, dropout_p, is_causal, scale, enable_gqa=True)
        return _fold_heads(call)[..., :d_c] @ value_up.mT  # (..., h, n, d_v)


def _fold_heads(call: Call) -> Tensor:
    """The queries of all heads as queries of the one head of keys, which is read as it is."""
    *lead, heads, n, m = call.shape
    width = call.key.shape[-1]
    mask = call.mask_tensor()
    if call.is_causal:
        rows = causal(n, m, alignment="top-left").dense(call.query.device)
        mask = rows if mask is None else combine_masks(mask, rows)
    if mask is not None:
        mask = mask.broadcast_to(*mask.shape[:-3], heads, n, m)
        mask = mask.reshape(*mask.shape[:-3], 1, heads * n, m)
    one = call._replace(
        query=call.query.reshape(*call.query.shape[:-3], 1, heads * n, width),
        attn_mask=mask,
        is_causal=False,
        enable_gqa=False,
        shape=(*lead, 1, heads * n, m),
    )
    single = n == 1 and heads * m > 0 and not is_derived(*one[:3])
    averages = call_fused(one) if single else blockwise(one)
    return averages.reshape(*lead, heads, n, width)


def _check_inputs(
    query: Tensor,
    latent: Tensor,
    key_up: Tensor,
    value_up: Tensor,
    query_rotary: Tensor | None,
    key_rotary: Tensor | None,
) -> tuple[Tensor, Tensor] | None:
    """What :func:`enter` cannot know; the rotary parts, if there are any."""
    tensors = {"query": query, "latent": latent, "key_up": key_up, "value_up": value_up}
    if (query_rotary is None) != (key_rotary is None):
        missing = "query_rotary" if query_rotary is None else "key_rotary"
        raise ValueError(
            f"{missing}: expected a tensor beside the other rotary part, got None. A position "
            "shows in the product of both: pass the two, or neither."
        )
    rotary = None
    if query_rotary is not None and key_rotary is not None:
        rotary = query_rotary, key_rotary
        tensors |= {"query_rotary": query_rotary, "key_rotary": key_rotary}
    check_tensors(**tensors)
    for name, tensor, least in (("query", query, 3), ("latent", latent, 2)):
        if tensor.dim() < least:
            wanted = "(..., h, n, d_k)" if least == 3 else "(..., m, d_c)"
            raise ValueError(
                f"{name}: expected shape {wanted}, got {tuple(tensor.shape)}. Heads have a "
                "dimension of their own in the query, and share the latent."
            )
    heads, d_k, d_c = query.shape[-3], query.shape[-1], latent.shape[-1]
    for name, letter, size in (("query", "d_k", d_k), ("latent", "d_c", d_c)):
        if size == 0:
            raise ValueError(
                f"{name}: expected {letter} of at least 1, got 0. Without components there is "
                "nothing to compare."
            )
    if checks.broadcast_shape(query.shape[:-3], latent.shape[:-2]) is None:
        raise ValueError(
            f"latent: expected leading dimensions that broadcast with {tuple(query.shape[:-3])}, "
            f"those of query before its heads, got {tuple(latent.shape[:-2])}. Latents have no "
            "dimension of heads."
        )
    d_v = value_up.shape[-2] if value_up.dim() == 3 else "d_v"
    for name, matrix, width in (("key_up", key_up, d_k), ("value_up", value_up, d_v)):
        if matrix.shape != (heads, width, d_c):
            raise ValueError(
                f"{name}: expected shape ({heads}, {width}, {d_c}), a matrix for each head of "
                f"query that reads latent, got {tuple(matrix.shape)}. A fused weight W of shape "
                f"(h d, d_c) becomes W.unflatten(0, ({heads}, -1))."
            )
    if rotary is None:
        return None
    d_r = rotary[0].shape[-1]
    for name, tensor, lead in (
        ("query_rotary", rotary[0], query.shape[:-1]),
        ("key_rotary", rotary[1], latent.shape[:-1]),
    ):
        if tensor.shape != (*lead, d_r):
            raise ValueError(
                f"{name}: expected shape {(*lead, d_r)}, got {tuple(tensor.shape)}. Each query "
                "has a rotary part, each latent a rotary key, and both are of one width."
            )
    return rotary


def _formula(
    query: Tensor,
    latent: Tensor,
    key_up: Tensor,
    value_up: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    query_rotary: Tensor | None = None,
    key_rotary: Tensor | None = None,
    absorb: bool | None = None,
    **options: Any,
) -> Tensor:
    """The definition of the keys and values that the latents make."""
    key, value = (latent[..., None, :, :] @ up.mT for up in (key_up, value_up))
    if query_rotary is not None and key_rotary is not None:
        rotary = key_rotary[..., None, :, :].expand(*key.shape[:-1], -1)
        query, key = torch.cat([query, query_rotary], -1), torch.cat([key, rotary], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask, **options)


def _latents(given: Example) -> dict[str, Any]:
    """Latents of six components, and a part of two with positions."""
    lead = given.query.shape[:-3]
    return {
        "latent": given.randn(*lead, given.m, 6),
        "key_up": given.randn(given.heads, given.d_k, 6),
        "value_up": given.randn(given.heads, given.value.shape[-1], 6),
        "query_rotary": given.randn(*lead, given.heads, given.n, 2),
        "key_rotary": given.randn(*lead, given.m, 2),
    }


def _full_latent(given: Example) -> dict[str, Any]:
    """A latent that holds the keys and values of all heads."""
    key, value = given.key, given.value
    heads, d_k = key.shape[-3], key.shape[-1]
    held = torch.cat([side.transpose(-3, -2).flatten(-2) for side in (key, value)], -1)
    pick = torch.eye(held.shape[-1], dtype=key.dtype, device=key.device)
    return {
        "latent": held,
        "key_up": torch.unflatten(pick[: heads * d_k], 0, (heads, d_k)),
        "value_up": torch.unflatten(pick[heads * d_k :], 0, (heads, value.shape[-1])),
    }


METHOD = Method(
    function=latent_attention,
    page="variants/latent",
    formula=_formula,
    neutral=("enable_gqa", "dropout_p"),
    example=_latents,
    plain=_full_latent,
    dimensions=3,
    ways={"absorb": (True, False)},
    isolates=(),
    tasks=("latent",),
)
