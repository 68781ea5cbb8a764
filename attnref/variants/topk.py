r"""Top-k attention: each query averages the values of its k best keys alone.

    p̃_ij = p_ij/(Σ_(l ∈ T_i) p_il) for j ∈ T_i
    p̃_ij = 0 otherwise

where the sum runs over the k keys with the largest scores.
"""

from typing import Any

import torch
from torch import Tensor

from attnref._autocast import own_precision
from attnref._door import enter
from attnref.checks import check_integer
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.reference import attention_weights, scaled_dot_product_attention, softmax_weights

__all__ = ["topk_attention"]


def topk_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    num_keys: int,
) -> Tensor:
    r"""Softmax over the ``num_keys`` largest scores of each row, and 0 for the others.

        o_i = Σ_(j ∈ T_i) p̃_ij v_j
        T_i = the k largest s_ij = c q_i·k_j + b_ij

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        num_keys: the number k of keys a query keeps, from 1 to m; where the mask allows fewer it
            keeps those. Between equal scores at the border one is taken, unspecified which.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros where the mask allows no key.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    With ``δ_i=Σ_(j∉ T_i) p_ij`` the dropped mass,
    ``|p_i-p̃_i|_1 = 2δ_i`` exactly, so that an output moves by at most
    ``δ_i`` times the largest distance between two values; no other k keys drop less.
    How much is dropped, the data decide. Gradients reach the kept keys only. A value that is NaN
    or inf reaches every row.

    It saves neither time nor memory: every score is needed to know the best, and selecting them
    costs more than a product that skips the zeros would save. Time ``O(n m (d_k + d_v))`` and
    the selection, memory ``O(n m)``, many times slower than the fused kernel. Half precision is
    computed in float32.

    Source: Gupta et al. 2021, arXiv 2106.06899.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0], [2.0]])
        >>> value = torch.tensor([[10.0], [20.0], [30.0]])
        >>> topk_attention(query, key, value, num_keys=2)
        tensor([[27.3106]])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    m = call.shape[-1]
    advice = "It is the number of keys that each query keeps."
    num_keys = min(m, check_integer("num_keys", num_keys, 1, advice, most=max(1, m)))
    with own_precision(query.device):
        weights, _, _, value = softmax_weights(call)  # weights: (..., n, m)
        best, places = weights.topk(num_keys)  # (..., n, k)
        mass = best.sum(-1, keepdim=True)  # (..., n, 1)
        best = best / mass.masked_fill(mass == 0, 1.0)
        kept = torch.zeros_like(weights).scatter(-1, places, best)  # (..., n, m)
        return (kept @ value).to(query.dtype)  # (..., n, d_v)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    num_keys: int,
    **options: Any,
) -> Tensor:
    """The definition under the mask of the keys whose weights are largest."""
    weights = attention_weights(query, key, attn_mask, **options)
    best = weights.topk(min(num_keys, weights.shape[-1])).indices  # any of those that are equal
    few = torch.full_like(weights, -torch.inf).scatter(-1, best, 0.0)
    few = few.masked_fill(weights == 0, -torch.inf)
    if isinstance(attn_mask, Mask):
        attn_mask = attn_mask.dense(query.device)
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        few = few + attn_mask
    return scaled_dot_product_attention(query, key, value, few, **options)


def _some_keys(given: Example) -> dict[str, Any]:
    return {"num_keys": max(1, min(64, given.m // 2))}


def _all_keys(given: Example) -> dict[str, Any]:
    return {"num_keys": max(1, given.m)}


METHOD = Method(
    function=topk_attention,
    page="variants/topk",
    formula=_formula,
    example=_some_keys,
    plain=_all_keys,
    isolates=(),
    tasks=("dense", "causal"),
)
