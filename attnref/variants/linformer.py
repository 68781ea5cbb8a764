r"""Linformer: attention over a fixed number of mixtures of the keys.

    O = softmax(c Q (EK)ᵀ) F V

where E and F mix the m keys and values into r of each.
"""

from typing import Any

import torch
from torch import Tensor

from attnref._autocast import own_precision
from attnref._door import Call, check_neutral, check_tensors, enter
from attnref.checks import broadcast_shape, check_drawn, check_integer
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants.blockwise import blockwise

__all__ = ["linformer_attention", "mean_projection"]

_RANK = 256  # where no projection is given


def linformer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    key_projection: Tensor | None = None,
    value_projection: Tensor | None = None,
) -> Tensor:
    r"""Attention whose m keys and values were first mixed into r of each.

        O = softmax(c Q (EK)ᵀ) F V
        E, F ∈ ℝ^(r × m)

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: which keys count, bool or a mask of :mod:`attnref.masks`, ``(..., 1, m)``, such
            as ``masks.padding(lengths, m)``: the others
            are left out of the mixtures, and so is a mixture of none.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: False, likewise.
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        key_projection: the E, ``(r, m)`` or ``(..., r, m)`` with leading dimensions that
            broadcast, same dtype and device. A parameter of the model, as is F. None takes the
            means of 256 runs of keys, by :func:`mean_projection`, or all keys if there are fewer.
        value_projection: the F, same shape; None shares E.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Another function than attention over the m keys; equal to it for E = F = a permutation. The
    rank of random projections that suffices for given matrices does not grow with m, but what
    the error is with learned ones, training decides. Rows of E that mix past and future leave no
    causal form, and nothing that a cache could keep; its m columns fix the length. A NaN or inf
    reaches every query, unless the mask leaves it out.

    Time ``2 r m (d_k + d_v) + 2 n r (d_k + d_v)`` operations; memory ``O((n + r) (d_k + d_v))``,
    for no weights are held.

    Source: Wang et al. 2020, arXiv 2006.04768, equation 7.

    Examples:
        >>> tokens, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> pairs = mean_projection(2, 4)
        >>> linformer_attention(tokens, tokens, value, key_projection=pairs, value_projection=pairs)
        tensor([[4.],
                [4.],
                [4.],
                [4.]])
    """
    advice = "A mixture of keys has past and future in it."
    check_neutral(advice, is_causal=is_causal)
    call = enter(query, key, value, attn_mask, dropout_p, False, scale, enable_gqa)
    if key_projection is None:
        if value_projection is not None:
            raise ValueError(
                "key_projection: expected a tensor beside value_projection, got None. Pass both, "
                "or key_projection alone to share it."
            )
        key_projection = _means_of(key)
    if value_projection is None:
        value_projection = key_projection
    _check_projections(call, key_projection, value_projection)
    return _attend(call, key_projection, value_projection)


def _means_of(key: Tensor) -> Tensor:
    """The projection that is taken where none is given, ``(r, m)``."""
    m = key.shape[-2]
    if m == 0:
        return key.new_zeros(1, 0)
    return mean_projection(min(_RANK, m), m, dtype=key.dtype, device=key.device)


def _attend(call: Call, key_projection: Tensor, value_projection: Tensor) -> Tensor:
    _, key, value = call.tensors(call.query.dtype)  # (..., m, d_k), (..., m, d_v)
    mixed, counts = None, call.key_mask()  # (..., m, 1)
    if counts is not None:
        key, value = key.masked_fill(~counts, 0.0), value.masked_fill(~counts, 0.0)
        mixed = ((key_projection != 0) & counts.mT).any(-1)[..., None, :]  # (..., 1, r)
    with own_precision(call.query.device):
        key = key_projection @ key  # (..., r, d_k)
        value = value_projection @ value  # (..., r, d_v)
    shape = (*call.shape[:-1], key.shape[-2])  # (..., n, r)
    return blockwise(
        call._replace(key=key, value=value, attn_mask=mixed, shape=shape, enable_gqa=False)
    )


def _check_projections(call: Call, key_projection: Tensor, value_projection: Tensor) -> None:
    lead, m = call.shape[:-2], call.shape[-1]
    check_tensors(
        query=call.query, key_projection=key_projection, value_projection=value_projection
    )
    for name, projection in (
        ("key_projection", key_projection),
        ("value_projection", value_projection),
    ):
        if (
            projection.dim() < 2
            or projection.shape[-1] != m
            or broadcast_shape(projection.shape[:-2], lead) != lead
        ):
            raise ValueError(
                f"{name}: expected shape (..., r, {m}), a column for each key, with leading "
                f"dimensions that broadcast to {lead}, got {tuple(projection.shape)}. It is made "
                "for one length: pad or cut key and value."
            )
    if key_projection.shape[-2] != value_projection.shape[-2]:
        raise ValueError(
            f"value_projection: expected {key_projection.shape[-2]} rows, as key_projection has, "
            f"got {value_projection.shape[-2]}. Each mixed key needs a mixed value."
        )


def mean_projection(
    rank: int,
    length: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""The projection that takes the mean of each of ``rank`` runs of consecutive tokens.

    Args:
        rank: the number r of runs, from 1 to ``length``.
        length: the number m of tokens; runs differ by one where r does not divide it.
        dtype, device: of the result.

    Returns:
        ``(rank, length)``, rows of sum 1.

    Raises:
        TypeError, ValueError: for a dtype of integers, or a rank out of range.

    Keys and values that change slowly along the sequence lose little by it, others much.

    Source: Wang et al. 2020, arXiv 2006.04768, section 4.

    Examples:
        >>> mean_projection(2, 3)
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    length = check_integer("length", length, 1, "It is the number of keys that are mixed.")
    rank = check_integer("rank", rank, 1, "It is the number of mixtures of keys.", most=length)
    check_drawn(dtype=dtype)
    run = torch.arange(length, device=device) * rank // length  # (length,)
    member = run == torch.arange(rank, device=device)[:, None]  # (rank, length)
    member = member.to(dtype)
    return member / member.sum(-1, keepdim=True)  # (rank, length)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    key_projection: Tensor,
    value_projection: Tensor,
    **options: Any,
) -> Tensor:
    """The definition over the mixtures; one that holds no key is left out."""
    some = None
    if attn_mask is not None:
        seen = attn_mask.dense(query.device) if isinstance(attn_mask, Mask) else attn_mask
        key_projection, value_projection = (
            x.masked_fill(~seen, 0.0) for x in (key_projection, value_projection)
        )
        some = (key_projection != 0).any(-1)[..., None, :]  # (..., 1, r)
        key, value = (x.masked_fill(~seen.mT, 0.0) for x in (key, value))
    mixed = key_projection @ key, value_projection @ value
    return scaled_dot_product_attention(query, *mixed, some, **options)


def _means(given: Example) -> dict[str, Any]:
    rank = max(1, min(256, given.m // 2))
    means = mean_projection(rank, given.m) if given.m else torch.zeros(rank, 0)
    means = means.to(given.query)
    return {"key_projection": means, "value_projection": means}


def _identity(given: Example) -> dict[str, Any]:
    identity = torch.eye(min(given.m, given.all_keys), given.m).to(given.key)
    return {"key_projection": identity, "value_projection": identity}


METHOD = Method(
    function=linformer_attention,
    page="variants/linformer",
    formula=_formula,
    neutral=("is_causal", "dropout_p"),
    example=_means,
    plain=_identity,
    peers=("linformer",),
    masks="keys",
)
