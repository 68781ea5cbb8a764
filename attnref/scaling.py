r"""Scale factors: the number that multiplies :math:`q\cdot k` before the softmax.

One convention holds for all of them: **a factor multiplies the query**.

- A factor that is one number for the whole call is a ``float``: pass it as ``scale``.
- A factor that differs between heads, rows or samples is a tensor that broadcasts to
  ``(..., n, 1)``: multiply the query by it with :func:`scale_query` and pass ``scale=1.0``.

What a factor :math:`c` does to a row of n keys, when all components of queries and keys are
independent with mean 0 and variance 1 (the picture at initialisation, not after training):

- the variance of the logits :math:`c\,q\cdot k` is :math:`c^2 d_k`;
- the entropy of the weights is about :math:`\ln n - c^2d_k/2` while
  :math:`c^2 d_k \ll 2\ln n`; beyond, a few keys hold most of the weight;
- the gradient is :math:`\partial L/\partial q = c\,K^\top J u` with
  :math:`J=\mathrm{diag}(p)-pp^\top` and :math:`u=\partial L/\partial p`. Flat weights leave it
  at about :math:`c\sqrt{d_k/n}` for a unit Gaussian u; where one weight comes near 1, J
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

__all__ = [
    "LearnedTemperature",
    "inverse",
    "inverse_sqrt",
    "log_length",
    "per_head",
    "scale_query",
    "unscaled",
    "yarn",
]


def unscaled(head_dim: int) -> float:
    r"""No scaling, :math:`c=1`: the score variance stays :math:`d_k`.

    Entropy: once :math:`d_k > 2\ln n` a few keys hold most of the weight (not one key: with
    64 keys and :math:`d_k=64` the largest weight is 0.8 on average). Gradient: most rows get
    next to none and some a large one, so that its mean hides what its median shows.

    T5 and GPT-Neo do without it; T5 puts the missing factor into the initialisation of the
    query projection (Raffel et al. 2019, arXiv 1910.10683).

    Examples:
        >>> unscaled(64)
        1.0
    """
    _check_head_dim(head_dim)
    return 1.0


def inverse_sqrt(head_dim: int) -> float:
    r"""The usual factor, :math:`c=1/\sqrt{d_k}`: the score variance becomes 1 for every width.

    Entropy: about :math:`\ln n - 1/2`, as if six keys in ten had equal weights. Gradient to the
    query: the same for every width, which neither of the two other powers of :math:`d_k` gives.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.

    Examples:
        >>> inverse_sqrt(64)
        0.125
    """
    _check_head_dim(head_dim)
    return float(head_dim**-0.5)


def inverse(head_dim: int) -> float:
    r"""The factor of maximal update parametrisation, :math:`c=1/d_k`: variance :math:`1/d_k`.

    Entropy: :math:`\ln n - 1/(2d_k)`, nearly uniform. Gradient to the query: about
    :math:`1/\sqrt{n d_k}`, smaller for wider heads. Once training has correlated queries with
    keys, :math:`E[q\cdot k]=\rho d_k`, it is the factor that keeps the scores independent of
    the width.

    Source: Yang et al. 2022, arXiv 2203.03466.

    Examples:
        >>> inverse(64)
        0.015625
    """
    _check_head_dim(head_dim)
    return 1.0 / head_dim


def yarn(head_dim: int, *, stretch: float) -> float:
    r"""The factor for a context stretched s times: the usual one times a slow function of s.

    .. math:: c = \frac{(0.1\ln s + 1)^2}{\sqrt{d_k}}

    YaRN multiplies the cosines and sines of the rotary positions by :math:`0.1\ln s+1`, hence
    both query and key, hence their product by the square. Do one or the other.

    The score variance grows to :math:`(0.1\ln s+1)^4`, so that the entropy falls by half of
    what the variance gains: 0.34 nats at s = 4, a part of the :math:`\ln s` that a row s times as
    long adds. The gradient of flat weights grows with the factor.

    Args:
        head_dim: :math:`d_k`.
        stretch: s, the new context length over the one trained on, at least 1.

    Raises:
        ValueError: for a width or a stretch out of range.

    Exact up to rounding.

    Source: Peng et al. 2023, arXiv 2309.00071.

    Examples:
        >>> round(yarn(64, stretch=4) / inverse_sqrt(64), 6)
        1.296477
    """
    advice = "It is the new context length divided by the one trained on."
    stretch = checks.check_number("stretch", stretch, advice)
    if not 1.0 <= stretch < math.inf:
        raise ValueError(
            f"stretch: expected a number of at least 1, got {stretch!r}. {advice} Without "
            "stretching use inverse_sqrt."
        )
    return inverse_sqrt(head_dim) * (0.1 * math.log(stretch) + 1.0) ** 2


def log_length(head_dim: int, visible: Tensor) -> Tensor:
    r"""A factor that grows with the number of keys, so that long rows stay as sharp as short ones.

    .. math:: c_i = \frac{\ln n_i}{\sqrt{d_k}}

    Here :math:`n_i` is the number of keys that query i *may attend to*, not the length of the
    tensor: padding does not count, and under a causal mask each row has its own. So a row has
    the same factor in training and when it is decoded from a cache.

    The logit variance is :math:`(\ln n_i)^2`. A key that leads all others by :math:`\Delta` in
    :math:`q\cdot k/\sqrt{d_k}` keeps at least the weight :math:`1/(1+n_i^{1-\Delta})`, near 1 for
    :math:`\Delta>1`; under a constant factor a lead of fixed size is lost in a long enough row.
    For random scores the bare :math:`\ln n` is steep: entropy and gradient are those of a few
    keys. Scalable-Softmax therefore multiplies it by a learned s per head,
    ``s * log_length(…)``; with ``1 / math.log(n_0)`` it is the usual factor at the length
    :math:`n_0`.

    Args:
        head_dim: :math:`d_k`.
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
    # A row without keys would multiply its query by ln 0, which is -inf.
    return (visible.clamp(min=1).log() * inverse_sqrt(head_dim))[..., None]  # (..., n, 1)


def per_head(factors: Tensor) -> Tensor:
    r"""One factor for each head, in the shape that :func:`scale_query` takes.

    .. math:: s^{(h)}_{ij} = c_h\, q^{(h)}_i\cdot k^{(h)}_j

    Each head has the variance, entropy and gradient of its own factor: small ones start as
    averages, large ones as look-ups. No function is gained, for :math:`c_h` can be absorbed by
    the head's query projection: :math:`(x W_q)c_h = x(W_q c_h)`. What changes is where training
    starts and how fast the head learns; only for normalised queries and keys
    (:mod:`attnref.bounded_scores`) is it a parameter of its own.

    Args:
        factors: ``(h,)``, one number per head.

    Returns:
        ``(h, 1, 1)``, which broadcasts over ``(..., h, n, d_k)``; a view.

    Raises:
        ValueError: unless there is one dimension.

    Examples:
        >>> per_head(torch.tensor([0.5, 0.125])).shape
        torch.Size([2, 1, 1])
    """
    if factors.dim() != 1:
        raise ValueError(
            f"factors: expected one number per head, shape (h,), got {tuple(factors.shape)}. "
            "Flatten it, or give scale_query the tensor as it is."
        )
    return factors[:, None, None]  # (h, 1, 1)


class LearnedTemperature(nn.Module):
    r"""A learned factor per head, kept positive by its logarithm and below a ceiling of 100.

    .. math:: \tau_h = \exp(\min(\lambda_h, \ln 100))

    Made for unit vectors (:func:`attnref.bounded_scores.qk_unit_norm`), whose products lie in
    :math:`[-1,1]`: the logits then stay within :math:`\pm\tau_h`, their variance starts at
    :math:`\tau_h^2/d_k`, the entropy near :math:`\ln n-\tau_h^2/(2d_k)`, and no weight exceeds
    :math:`1/(1+(n-1)e^{-2\tau_h})`. The logarithm makes a gradient step multiply the temperature
    instead of moving it. Above the ceiling :math:`\lambda_h` gets no gradient.

    Args:
        num_heads: h.
        init: the temperature of every head at the start, above 0 and at most 100.

    Raises:
        ValueError: for a number of heads or an ``init`` out of range.

    Calling it returns the factors, ``(h, 1, 1)``, for :func:`scale_query`.

    Source: Liu et al. 2021 (Swin V2), arXiv 2111.09883: its :math:`\tau\ge 0.01` divides and
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
        return per_head(self.log_temperature.clamp(max=math.log(self._CEILING)).exp())  # (h, 1, 1)


def scale_query(query: Tensor, factor: Tensor | float) -> Tensor:
    r"""The query times a factor, for attention with ``scale=1.0``.

    .. math:: (c_i q_i)\cdot k_j = c_i\,(q_i\cdot k_j)

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
        >>> scale_query(query, per_head(torch.tensor([0.5, 0.125])))[:, 0, 0]
        tensor([0.5000, 0.1250])
    """
    check_tensors(query=query)
    if not isinstance(factor, Tensor):
        advice = "One a head is a tensor (h, 1, 1): per_head makes it."
        checks.check_number("factor", factor, advice, most="a number or a tensor")
    else:
        rows = (*query.shape[:-1], 1)
        if checks.broadcast_shape(factor.shape, rows) != rows:
            raise ValueError(
                f"factor: expected a shape that broadcasts to {rows}, one number per row of query, "
                f"got {tuple(factor.shape)}. One a head has shape (h, 1, 1): per_head makes it; "
                "one a row has shape (n, 1)."
            )
    # A float32 factor must not turn a half-precision query into a float32 one.
    wide = torch.promote_types(query.dtype, torch.float32)
    return (query.to(wide) * factor).to(query.dtype)  # (..., n, d_k)


def _check_head_dim(head_dim: int) -> None:
    advice = "It is d_k, the size of one query or key: query.shape[-1]."
    checks.check_integer("head_dim", head_dim, 1, advice)
