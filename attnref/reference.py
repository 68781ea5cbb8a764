r"""Scaled dot-product attention: the definition that everything else is compared with.

    O = softmax(c QKᵀ)V
    c = 1/√(d_k)

It is written to be right and to be read; the price is that it holds all
``n × m`` weights and multiplies more than the fused kernels do.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, enter
from attnref.masks import Mask
from attnref.masks.tensors import cast_mask
from attnref.record import Method

__all__ = ["Attention", "attend", "attention_weights", "scaled_dot_product_attention"]

# Products of half-precision numbers are formed in the next type that holds each of them:
# float32 for float16, but float64 for bfloat16, whose exponents reach as far as float32's.
COMPUTE_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float64}


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""Each query's average of the values, weighted by how well it matches the keys.

        o_i = Σ_j p_ij v_j
        p_ij = e^(s_ij) / (Σ_l e^(s_il))
        s_ij = c q_i·k_j + b_ij

    The sums run over the keys that the mask allows. Same arguments and same meaning as
    ``torch.nn.functional.scaled_dot_product_attention``, and safe where that one is a trap:

    - a query that may attend to no key gives zeros, and finite gradients;
    - NaN or inf in a query, key or value stays out of every row that may not attend to it, in
      outputs and gradients (PyTorch multiplies it by a zero weight, which gives NaN); a row
      that may attend to it gets it, as in any sum, as a constant without gradient;
    - ``attn_mask`` and ``is_causal`` together mean both (PyTorch raises, or does the same,
      depending on the kernel that it chooses);
    - scores are formed in float32 for float16 and in float64 for bfloat16, so that nothing
      overflows whose result is finite, under ``torch.autocast`` too.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend.
        dropout_p: share of the weights set to 0, the others multiplied by ``1/(1 - p)``;
            applied whenever it is not 0, so pass 0.0 in evaluation. Uses PyTorch's global
            generator.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        softcap: bounds the scaled scores before the mask, ``softcap * tanh(score / softcap)``;
            None means no bound.
        sink: the score ``σ`` of one more key for each head, whose value is zero: it adds
            ``e^σ`` to the sum below the fraction. A number, or a tensor of any floating
            dtype that broadcasts to the leading dimensions of the scores, ``(h,)`` for one of
            each head; with a gradient, neither scaled nor bounded by ``softcap``. None means
            none.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``. The weights, too, are given
        by :func:`attend`.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding. bfloat16 needs a device that has float64, which Apple's MPS does not have.
    Time ``2 n m (2 d_k + 4 d_v)`` operations, which is above the plain
    formula's ``2 n m (d_k + d_v)`` because NaN and inf are traced; memory ``O(n m)``.

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1; softcap: Gemma Team 2024,
    arXiv 2408.00118, section 2; sink: OpenAI 2025, arXiv 2508.10925, section 2.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> value = torch.tensor([[10.0], [20.0]])
        >>> scaled_dot_product_attention(query, key, value)
        tensor([[13.3024]])
    """
    options = (attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return attend(query, key, value, *options, softcap=softcap, sink=sink).output


class Attention(NamedTuple):
    r"""What attention computes, and what it went through; see :func:`attend`.

    Attributes:
        output: ``(..., n, d_v)`` in the dtype of ``query``.
        weights: ``(..., n, m)`` in the dtype of ``query``, as they multiplied the values: after
            dropout.
        lse: the log-sum-exp of each row, ``log Σ_j e^(s_ij)``, ``(..., n)``, by which
            partial results merge; in the dtype of computation, -inf where the mask allows no key.
            A sink is one of its terms.

    Examples:
        >>> Attention._fields
        ('output', 'weights', 'lse')
    """

    output: Tensor
    weights: Tensor
    lse: Tensor


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sink: Tensor | float | None = None,
) -> Attention:
    r"""Attention with its weights, and the logarithm of what they were divided by.

        o_i = Σ_j p_ij v_j
        p_ij = e^(s_ij - ℓ_i)
        ℓ_i = log Σ_j e^(s_ij)

    Arguments, errors, exactness, cost and source as in :func:`scaled_dot_product_attention`.

    Returns:
        The :class:`Attention`.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> output, weights, lse = attend(query, key, torch.tensor([[10.0], [20.0]]))
        >>> output, weights, lse
        (tensor([[13.3024]]), tensor([[0.6698, 0.3302]]), tensor([1.1079]))
    """
    call = enter(query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa, sink=sink)
    checks.check_dropout(dropout_p)
    checks.check_softcap(softcap)
    with own_precision(query.device):
        weights, allowed, lse, shared = softmax_weights(call, softcap)
        if dropout_p:
            weights = torch.nn.functional.dropout(weights, dropout_p)  # (..., n, m)
        output = _average(weights, allowed, shared)  # (..., n, d_v)
    return Attention(output.to(query.dtype), weights.to(query.dtype), lse)


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""How much each query attends to each key: the rows of the softmax.

        P = softmax(c QKᵀ + B)

    Arguments as in :func:`scaled_dot_product_attention`.

    Returns:
        ``(..., n, m)`` in the dtype of ``query``: each row sums to 1 up to rounding, to less
        with a sink, or is all zeros where the mask allows no key.

    Raises, exactness, cost ``O(n m d_k)`` and source as there.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> attention_weights(query, key)
        tensor([[0.6698, 0.3302]])
    """
    call = enter(query, key, key, attn_mask, 0.0, is_causal, scale, enable_gqa, sink=sink)
    checks.check_softcap(softcap)
    with own_precision(query.device):
        return softmax_weights(call, softcap)[0].to(query.dtype)


def softmax_weights(
    call: Call, softcap: float | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights, which pairs were allowed, log-sum-exp and value, in the dtype of computation."""
    dtype = COMPUTE_DTYPE.get(call.query.dtype, call.query.dtype)
    query, key, value = call.tensors(dtype)
    scores = _scores(query, key, call.scale)  # (..., n, m)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)

    allowed = torch.ones(call.shape, dtype=torch.bool, device=query.device)  # (..., n, m)
    if call.is_causal:
        allowed = allowed.tril()
    attn_mask = call.mask_tensor()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        allowed = allowed & (attn_mask != -torch.inf)
        scores = scores + cast_mask(attn_mask, dtype)
    if call.sink is not None:  # one more key, whose value is zero
        sink = call.sink.to(dtype).expand(*call.shape[:-1], 1)  # (..., n, 1)
        scores = torch.cat([scores, sink], -1)  # (..., n, m + 1)
        allowed = torch.cat([allowed, sink != -torch.inf], -1)

    # A row of -inf alone, or one with NaN or inf, has no softmax. It computes on zeros, so that
    # its gradients are zeros too, and gets what it should hold afterwards.
    scores = scores.masked_fill(~allowed, -torch.inf)
    total = torch.logsumexp(scores.detach(), dim=-1)  # (..., n)
    sound = total.isfinite()  # (..., n)
    scores = scores.masked_fill(~sound[..., None], 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)  # (..., n, m)
    weights = weights.masked_fill(allowed & ~sound[..., None], torch.nan)
    lse = torch.where(sound, torch.logsumexp(scores, dim=-1), total)  # (..., n)
    m = call.shape[-1]
    return weights[..., :m], allowed[..., :m], lse, value


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """``scale * query @ key.mT``, ``(..., n, m)``.

    A score that is not finite keeps its value, but sends no gradient: behind a mask 0 * NaN
    would otherwise poison the gradients of all the others.
    """
    query = query * scale  # first: these are the smaller numbers
    exact = query.detach() @ key.detach().mT  # (..., n, m)
    return torch.where(
        exact.isfinite(), _replace_nonfinite(query) @ _replace_nonfinite(key).mT, exact
    )  # (..., n, m)


def _average(weights: Tensor, allowed: Tensor, value: Tensor) -> Tensor:
    """``weights @ value``, NaN and inf reaching just the rows that may attend to them."""
    broken = torch.cat([value.isnan(), value == torch.inf, value == -torch.inf], dim=-1)
    seen = allowed.to(weights.dtype) @ broken.to(weights.dtype) > 0  # (..., n, 3 d_v)
    nan, plus, minus = seen.chunk(3, dim=-1)
    nan = nan | weights.isnan().any(dim=-1, keepdim=True) | (plus & minus)  # inf - inf
    average = _replace_nonfinite(weights) @ _replace_nonfinite(value)  # (..., n, d_v)
    average = average.masked_fill(plus, torch.inf).masked_fill(minus, -torch.inf)
    return average.masked_fill(nan, torch.nan)


def _replace_nonfinite(tensor: Tensor) -> Tensor:
    return torch.where(tensor.isfinite(), tensor, 0.0)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    sink: Tensor | float | None = None,
) -> Tensor:
    """Exponentials over their sum, as they stand in the formula: for scores of some tens."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)  # (..., n, m)
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    if is_causal:
        allowed = allowed.tril()
    if isinstance(attn_mask, Mask):
        attn_mask = attn_mask.dense(scores.device)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = allowed & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.exp().masked_fill(~allowed, 0.0)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = (
            total
            + torch.as_tensor(sink, dtype=total.dtype, device=total.device)[..., None, None].exp()
        )
    return weights / total.masked_fill(total == 0, 1.0) @ value


METHOD = Method(
    function=scaled_dot_product_attention,
    page="foundations/matrix-form",
    formula=_formula,
    neutral=(),
    constants=(),
)
