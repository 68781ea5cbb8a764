r"""Scaled dot-product attention: the definition that everything else is compared with.

.. math:: O = \mathrm{softmax}\!\left(c\,QK^\top\right)V, \qquad c = 1/\sqrt{d_k}

It is written to be right and to be read; the price is that it holds all
:math:`n\times m` weights and multiplies more than the fused kernels do.
"""

from typing import Literal, overload

import torch
from torch import Tensor

from attnref import checks

__all__ = ["attention_weights", "scaled_dot_product_attention"]

# Products of half-precision numbers are formed in the next type that holds each of them:
# float32 for float16, but float64 for bfloat16, whose exponents reach as far as float32's.
COMPUTE_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float64}


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    softcap: float | None = ...,
    return_weights: Literal[False] = ...,
    return_lse: Literal[False] = ...,
) -> Tensor: ...


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    softcap: float | None = ...,
    return_weights: Literal[True],
    return_lse: Literal[False] = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    softcap: float | None = ...,
    return_weights: Literal[False] = ...,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    softcap: float | None = ...,
    return_weights: Literal[True],
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor, Tensor]: ...


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]:
    r"""Each query's average of the values, weighted by how well it matches the keys.

    .. math:: o_i = \sum_j p_{ij} v_j, \qquad
              p_{ij} = \frac{e^{s_{ij}}}{\sum_{l} e^{s_{il}}}, \qquad
              s_{ij} = c\, q_i \cdot k_j + b_{ij}

    The sums run over the keys that the mask allows. Same arguments and same meaning as
    ``torch.nn.functional.scaled_dot_product_attention``, and safe where that one is a trap:

    - a query that may attend to no key gives zeros, and finite gradients;
    - NaN or inf in a query, key or value stays out of every row that may not attend to it, in
      outputs and gradients (PyTorch multiplies it by a zero weight, which gives NaN); a row
      that may attend to it gets it, as in any sum, as a constant without gradient;
    - ``attn_mask`` and ``is_causal`` together mean both (PyTorch raises, or does the same,
      depending on the kernel that it chooses);
    - scores are formed in float32 for float16 and in float64 for bfloat16, so that nothing
      overflows whose result is finite.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: broadcasts to ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to
            the scores, ``-inf`` = may not attend.
        dropout_p: share of the weights set to 0, the others multiplied by ``1/(1 - p)``;
            applied whenever it is not 0, so pass 0.0 in evaluation. Uses PyTorch's global
            generator.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        softcap: bounds the scaled scores before the mask, ``softcap * tanh(score / softcap)``;
            None means no bound.
        return_weights: also return the weights.
        return_lse: also return the log-sum-exp of each row, by which partial results merge.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``, followed by what was
        asked for, in this order: the weights ``(..., n, m)`` that multiplied the values (after
        dropout), and :math:`\log\sum_j e^{s_{ij}}`, ``(..., n)``, in the dtype of computation,
        -inf where the mask allows no key.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and the mend.

    Exact up to rounding. Time ``2 n m (2 d_k + 4 d_v)`` operations, which is above the plain
    formula's ``2 n m (d_k + d_v)`` because NaN and inf are traced; memory ``O(n m)``.

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1; softcap: Gemma Team 2024,
    arXiv 2408.00118, section 2.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> value = torch.tensor([[10.0], [20.0]])
        >>> scaled_dot_product_attention(query, key, value)
        tensor([[13.3024]])
    """
    check_tensors(query=query, key=key, value=value)
    checks.check_value(key.shape, value.shape)
    checks.check_dropout(dropout_p)
    weights, allowed, lse = _weights(query, key, attn_mask, is_causal, scale, enable_gqa, softcap)
    if dropout_p:
        weights = torch.nn.functional.dropout(weights, dropout_p)  # (..., n, m)
    if enable_gqa:
        value = _share_heads(value, query.shape[-3])
    output = _average(weights, allowed, value).to(query.dtype)  # (..., n, d_v)
    if return_weights and return_lse:
        return output, weights.to(query.dtype), lse
    if return_weights:
        return output, weights.to(query.dtype)
    return (output, lse) if return_lse else output


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
) -> Tensor:
    r"""How much each query attends to each key: the rows of the softmax.

    .. math:: P = \mathrm{softmax}(c\,QK^\top + B)

    Arguments as in :func:`scaled_dot_product_attention`.

    Returns:
        ``(..., n, m)`` in the dtype of ``query``: each row sums to 1 up to rounding, or is
        all zeros where the mask allows no key.

    Raises, exactness, cost ``O(n m d_k)`` and source as there.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> attention_weights(query, key)
        tensor([[0.6698, 0.3302]])
    """
    check_tensors(query=query, key=key)
    weights, *_ = _weights(query, key, attn_mask, is_causal, scale, enable_gqa, softcap)
    return weights.to(query.dtype)


def _weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    softcap: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights, which pairs were allowed, and the log-sum-exp, in the dtype of computation."""
    shape = checks.scores_shape(query.shape, key.shape, enable_gqa=enable_gqa)
    scale = checks.check_scale(scale, query.shape[-1])
    checks.check_softcap(softcap)
    if attn_mask is not None:
        check_mask_tensor(attn_mask, query, shape)
    if enable_gqa:
        key = _share_heads(key, query.shape[-3])
    scores = _scores(query, key, scale)  # (..., n, m)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)

    allowed = torch.ones(shape, dtype=torch.bool, device=query.device)
    if is_causal:
        allowed = allowed.tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        allowed = allowed & (attn_mask != -torch.inf)
        scores = scores + attn_mask.to(scores.dtype)

    # A row of -inf alone, or one with NaN or inf, has no softmax. It computes on zeros, so that
    # its gradients are zeros too, and gets what it should hold afterwards.
    scores = scores.masked_fill(~allowed, -torch.inf)
    total = torch.logsumexp(scores.detach(), dim=-1)  # (..., n)
    sound = total.isfinite()
    scores = scores.masked_fill(~sound[..., None], 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)
    weights = weights.masked_fill(allowed & ~sound[..., None], torch.nan)
    return weights, allowed, torch.where(sound, torch.logsumexp(scores, dim=-1), total)


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """``scale * query @ key.mT`` in the dtype of computation, ``(..., n, m)``.

    A score that is not finite keeps its value, but sends no gradient: behind a mask 0 * NaN
    would otherwise poison the gradients of all the others.
    """
    dtype = COMPUTE_DTYPE.get(query.dtype, query.dtype)
    query, key = query.to(dtype) * scale, key.to(dtype)  # scaled first: the smaller numbers
    exact = query.detach() @ key.detach().mT
    return torch.where(exact.isfinite(), _finite(query) @ _finite(key).mT, exact)


def _average(weights: Tensor, allowed: Tensor, value: Tensor) -> Tensor:
    """``weights @ value``, NaN and inf reaching just the rows that may attend to them."""
    value = value.to(weights.dtype)
    broken = torch.cat([value.isnan(), value == torch.inf, value == -torch.inf], dim=-1)
    seen = allowed.to(weights.dtype) @ broken.to(weights.dtype) > 0  # (..., n, 3 d_v)
    nan, plus, minus = seen.chunk(3, dim=-1)
    nan = nan | weights.isnan().any(dim=-1, keepdim=True) | (plus & minus)  # inf - inf
    average = _finite(weights) @ _finite(value)  # (..., n, d_v)
    average = average.masked_fill(plus, torch.inf).masked_fill(minus, -torch.inf)
    return average.masked_fill(nan, torch.nan)


def _finite(tensor: Tensor) -> Tensor:
    return torch.where(tensor.isfinite(), tensor, 0.0)


def _share_heads(tensor: Tensor, heads: int) -> Tensor:
    """Repeat each head of ``(..., shared, m, d)`` side by side until there are ``heads``."""
    return tensor.repeat_interleave(heads // tensor.shape[-3], dim=-3)  # (..., heads, m, d)


def check_tensors(**tensors: Tensor) -> None:
    """Tensors of one floating dtype, on one device; ``query`` comes first and sets both."""
    query = tensors["query"]
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}: expected a torch.Tensor, got {type(tensor).__name__}. "
                f"Convert it with torch.as_tensor({name})."
            )
        if not tensor.is_floating_point() or tensor.itemsize == 1:
            raise TypeError(
                f"{name}: expected a floating dtype of 16 bits or more, got {tensor.dtype}. "
                f"Convert it with {name}.float()."
            )
        if tensor.dtype != query.dtype:
            raise TypeError(
                f"{name}: expected {query.dtype}, the dtype of query, got {tensor.dtype}. "
                f"Convert one of them, for example {name}.to(query.dtype)."
            )
        if tensor.device != query.device:
            raise ValueError(
                f"{name}: expected device {query.device}, where query is, got {tensor.device}. "
                f"Move it with {name}.to(query.device)."
            )


def check_mask_type(attn_mask: Tensor) -> None:
    """A tensor of bools or of numbers to add."""
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"attn_mask: expected a torch.Tensor, got {type(attn_mask).__name__}. A mask of "
            "attnref.masks becomes one with mask.dense(device=query.device)."
        )
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask: expected bool (True = may attend) or a floating dtype (added to the "
            f"scores), got {attn_mask.dtype}. If 1 means may attend, pass attn_mask.bool()."
        )


def check_mask_tensor(attn_mask: Tensor, query: Tensor, scores_shape: checks.Shape) -> None:
    check_mask_type(attn_mask)
    if attn_mask.device != query.device:
        raise ValueError(
            f"attn_mask: expected device {query.device}, where query is, got {attn_mask.device}. "
            "Move it with attn_mask.to(query.device)."
        )
    checks.check_mask(attn_mask.shape, scores_shape)
