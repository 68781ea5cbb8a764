r"""Scale factors: the number that multiplies ``q·k`` before the softmax.

One convention holds for all of them: **a factor multiplies the query**.

- A factor that is one number for the whole call is a ``float``: pass it as ``scale``. Without it
  an attention function takes the usual one, ``d_k**-0.5``; 1.0 is no scaling, and ``1 / d_k``
  the factor of maximal update parametrisation (Yang et al. 2022, arXiv 2203.03466).
- A factor that differs between heads, rows or samples is a tensor that broadcasts to
  ``(..., n, 1)``, for heads ``factors[:, None, None]``: multiply the query by it with
  :func:`scale_query` and pass ``scale=1.0``.

What a factor ``c`` does to a row of n keys, when all components of queries and keys are
independent with mean 0 and variance 1 (the picture at initialisation, not after training):

- the variance of the logits ``c q·k`` is ``c² d_k``;
- the entropy of the weights is about ``ln n - c²d_k/2`` while
  ``c² d_k ≪ 2 ln n``; beyond, a few keys hold most of the weight;
- the gradient is ``∂L/∂q = c Kᵀ J u`` with
  ``J=diag(p)-ppᵀ`` and ``u=∂L/∂p``. Flat weights leave it
  at about ``c√(d_k/n)`` for a unit Gaussian u; where one weight comes near 1, J
  vanishes.

:mod:`attnref.score_statistics` measures all three, :mod:`attnref.adaptive_scaling` reads the
factor off the queries and keys themselves, and :mod:`attnref.bounded_scores` keeps the scores in
an interval that no factor can promise.
"""

import math

import torch
from torch import Tensor, nn

from attnref import checks
from attnref._door import check_tensors

__all__ = ["LearnedTemperature", "log_length", "scale_query", "yarn"]


def yarn(head_dim: int, *, stretch: float) -> float:
    r"""The factor for a context stretched s times: the usual one times a slow function of s.

        c = (0.1 ln s + 1)² / √(d_k)

    YaRN multiplies the cosines and sines of the rotary positions by ``0.1 ln s+1``, hence
    both query and key, hence their product by the square. Do one or the other.

    The score variance grows to ``(0.1 ln s+1)^4``, so that the entropy falls by half of
    what the variance gains: 0.34 nats at s = 4, a part of the ``ln s`` that a row s times as
    long adds. The gradient of flat weights grows with the factor.

    Args:
        head_dim: ``d_k``.
        stretch: s, the new context length over the one trained on, at least 1.

    Raises:
        ValueError: for a width or a stretch out of range.

    Exact up to rounding.

    Source: Peng et al. 2023, arXiv 2309.00071.

    Examples:
        >>> round(yarn(64, stretch=4) / 64**-0.5, 6)
        1.296477
    """
    _check_head_dim(head_dim)
    advice = "It is the new context length divided by the one trained on."
    stretch = checks.check_number("stretch", stretch, advice)
    if not 1.0 <= stretch < math.inf:
        raise ValueError(
            f"stretch: expected a number of at least 1, got {stretch!r}. {advice} Without "
            "stretching it is 1."
        )
    return (0.1 * math.log(stretch) + 1.0) ** 2 / math.sqrt(head_dim)


def log_length(head_dim: int, visible: Tensor) -> Tensor:
    r"""A factor that grows with the number of keys, so that long rows stay as sharp as short ones.

        c_i = ln n_i / √(d_k)

    Here ``n_i`` is the number of keys that query i *may attend to*, not the length of the
    tensor: padding does not count, and under a causal mask each row has its own. So a row has
    the same factor in training and when it is decoded from a cache.

    The logit variance is ``(ln n_i)²``. A key that leads all others by ``Δ`` in
    ``q·k/√(d_k)`` keeps at least the weight ``1/(1+n_i^(1-Δ))``, near 1 for
    ``Δ>1``; under a constant factor a lead of fixed size is lost in a long enough row.
    For random scores the bare ``ln n`` is steep: entropy and gradient are those of a few
    keys. Scalable-Softmax therefore multiplies it by a learned s per head,
    ``s * log_length(…)``; with ``1 / math.log(n_0)`` it is the usual factor at the length
    ``n_0``.

    Args:
        head_dim: ``d_k``.
        visible: ``(..., n)`` counts of keys, or ``(..., 1)`` if all rows see the same: from a
            mask ``mask.sum(-1)``, for causal rows ``torch.arange(1, n + 1)``.

    Returns:
        ``(..., n, 1)`` for :func:`scale_query`, in the dtype of ``visible``, or PyTorch's
        default dtype if those are integers. A row that sees no key gets 0.

    Raises:
        TypeError: for anything but a tensor of counts.
        ValueError: for a wrong width.

    Exact up to rounding. Time and memory ``O(n)``.

    Source: Chiang and Cholak 2022, arXiv 2202.12172, equation 2; with s: Nakanishi 2025,
    arXiv 2501.19399.

    Examples:
        >>> log_length(4, torch.arange(1, 4)).flatten()
        tensor([0.0000, 0.3466, 0.5493])
    """
    if not isinstance(visible, Tensor) or visible.dtype == torch.bool:
        came = visible.dtype if isinstance(visible, Tensor) else type(visible).__name__
        raise TypeError(
            f"visible: expected a torch.Tensor of counts, got {came}. From a mask take "
            "mask.sum(-1), for causal rows torch.arange(1, n + 1)."
        )
    _check_head_dim(head_dim)
    # A row without keys would multiply its query by ln 0, which is -inf.
    return (visible.clamp(min=1).log() / math.sqrt(head_dim))[..., None]  # (..., n, 1)


class LearnedTemperature(nn.Module):
    r"""A learned factor per head, kept positive by its logarithm and below a ceiling of 100.

        τ_h = exp(min(λ_h, ln 100))

    Made for unit vectors (:func:`attnref.bounded_scores.qk_unit_norm`), whose products lie in
    ``[-1,1]``: the logits then stay within ``± τ_h``, their variance starts at
    ``τ_h²/d_k``, the entropy near ``ln n-τ_h²/(2d_k)``, and no weight exceeds
    ``1/(1+(n-1)e^(-2τ_h))``. The logarithm makes a gradient step multiply the temperature
    instead of moving it. Above the ceiling ``λ_h`` gets no gradient.

    Args:
        num_heads: h.
        init: the temperature of every head at the start, above 0 and at most 100.

    Raises:
        ValueError: for a number of heads or an ``init`` out of range.

    Calling it returns the factors, ``(h, 1, 1)``, for :func:`scale_query`.

    Source: Liu et al. 2021 (Swin V2), arXiv 2111.09883: its ``τ ≥ 0.01`` divides and
    starts at 0.1. A learned scale on unit vectors is from Henry et al. 2020, arXiv 2010.04245.

    Examples:
        >>> LearnedTemperature(2, init=10.0)().detach().flatten()
        tensor([10., 10.])
    """

    _CEILING = 100.0

    def __init__(self, num_heads: int, *, init: float = 10.0) -> None:
        super().__init__()
        checks.check_integer("num_heads", num_heads, 1, "It is query.shape[-3].")
        if not 0.0 < init <= self._CEILING:
            raise ValueError(
                f"init: expected a number above 0 and at most {self._CEILING:g}, got {init!r}. "
                "Larger ones are clamped and never learn; Swin V2 starts at 10."
            )
        self.log_temperature = nn.Parameter(torch.full((num_heads,), math.log(init)))  # (h,)

    def forward(self) -> Tensor:
        factors = self.log_temperature.clamp(max=math.log(self._CEILING)).exp()  # (h,)
        return factors[:, None, None]  # (h, 1, 1)


def scale_query(query: Tensor, factor: Tensor | float) -> Tensor:
    r"""The query times a factor, for attention with ``scale=1.0``.

        (c_i q_i)·k_j = c_i (q_i·k_j)

    It is also the safe order: in float16 a product of unscaled vectors overflows where the
    product with the scaled query does not.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        factor: a number or a tensor that broadcasts to ``(..., n, 1)``: ``(h, 1, 1)`` is one per
            head, ``(n, 1)`` one per row, ``(b, 1, 1, 1)`` one per sample.

    Returns:
        ``(..., n, d_k)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: when the query is not a floating tensor, or the factor neither a
            number nor a tensor that broadcasts to one number per row.

    Exact up to one rounding of each component to the query's dtype, which ``scale`` itself
    spares half-precision queries. Time and memory ``O(n d_k)``.

    Examples:
        >>> query = torch.ones(2, 3, 4)  # (heads, n, d_k)
        >>> scale_query(query, torch.tensor([0.5, 0.125])[:, None, None])[:, 0, 0]
        tensor([0.5000, 0.1250])
    """
    check_tensors(query=query)
    if not isinstance(factor, Tensor):
        advice = "One per head is a tensor of shape (h, 1, 1): factors[:, None, None]."
        checks.check_number("factor", factor, advice, most="a number or a tensor")
    else:
        rows = (*query.shape[:-1], 1)
        if checks.broadcast_shape(factor.shape, rows) != rows:
            raise ValueError(
                f"factor: expected a shape that broadcasts to {rows}, one number per row of query, "
                f"got {tuple(factor.shape)}. One per head has shape (h, 1, 1): "
                "factors[:, None, None]; one per row has shape (n, 1)."
            )
    # A float32 factor must not turn a half-precision query into a float32 one.
    wide = torch.promote_types(query.dtype, torch.float32)
    return (query.to(wide) * factor).to(query.dtype)  # (..., n, d_k)


def _check_head_dim(head_dim: int) -> None:
    advice = "It is d_k, the size of one query or key: query.shape[-1]."
    checks.check_integer("head_dim", head_dim, 1, advice)
