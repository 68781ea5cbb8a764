r"""What a scale factor does, measured: logits, weights and gradients of one attention call."""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref._door import enter
from attnref.masks import Mask
from attnref.reference import softmax_weights

__all__ = ["ScoreStatistics", "measure"]


class ScoreStatistics(NamedTuple):
    """One number per leading index, each ``(...)``; see :func:`measure`.

    Examples:
        >>> flat = torch.zeros(8, 4)
        >>> measure(flat[:1], flat, upstream=torch.ones(1, 8)).max_weight
        tensor(0.1250)
    """

    logit_mean: Tensor
    logit_variance: Tensor
    entropy: Tensor
    effective_keys: Tensor
    max_weight: Tensor
    jacobian_trace: Tensor
    score_gradient: Tensor
    query_gradient: Tensor


def measure(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    upstream: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> ScoreStatistics:
    r"""How spread the logits are, how peaked the weights, and how much gradient comes through.

        s_i = c K q_i + b_i
        p_i = softmax(s_i)
        J_i = diag(p_i) - p_i p_iᵀ
        ∂L/∂s_i = J_i u_i
        ∂L/∂q_i = c Kᵀ J_i u_i

    with ``u_i = ∂L/∂p_i``, the upstream gradient. Over the pairs that the
    mask allows:

    - ``logit_mean``, ``logit_variance``: of ``s_ij``, the variance divided by their number;

    and, each a mean over the queries that see any key:

    - ``entropy``: ``H_i = -Σ_j p_ij ln p_ij``, in nats;
    - ``effective_keys``: ``e^(H_i)``;
    - ``max_weight``: ``max_j p_ij``;
    - ``jacobian_trace``: ``tr J_i = 1-Σ_j p_ij²``;
    - ``score_gradient``: ``|∂L/∂s_i|_2``;
    - ``query_gradient``: ``|∂L/∂q_i|_2``, with respect to the
      query as it is passed in: if :func:`attnref.scaling.scale_query` has multiplied it by a
      factor before, multiply this number by that factor.

    Means hide heavy tails: for the distribution over queries, move them to a leading
    dimension, ``query[..., :, None, :]`` with ``key[..., None, :, :]``.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``, same dtype and device.
        attn_mask, is_causal, enable_gqa: as in :func:`attnref.scaled_dot_product_attention`; a
            float mask is ``b``.
        scale: the factor c; None means ``1/sqrt(d_k)``.
        upstream: ``(..., n, m)``, the gradient of the loss with respect to the weights. A
            gradient G of the output gives ``G @ value.mT``.
        generator: instead of ``upstream``: draw it, each entry from N(0, 1).

    Returns:
        :class:`ScoreStatistics` of tensors ``(...)``, the leading dimensions of the scores, in
        float32 or, for float64 input, float64. NaN where no query sees a key.

    Raises:
        TypeError, ValueError: naming the argument; also unless one of ``upstream`` and
            ``generator`` is given.

    Exact up to rounding, of numbers near 1: take float64 to see what is left of a row that has
    saturated. Half-precision weights are rounded to their dtype first; ``query.float()`` and
    ``key.float()`` avoid it. Time ``O(n m d_k)``, memory
    ``O(n m)``.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[8.0], [0.0]])
        >>> upstream = torch.tensor([[1.0, 0.0]])
        >>> measured = measure(query, key, scale=0.125, upstream=upstream)
        >>> measured.max_weight, measured.jacobian_trace
        (tensor(0.7311), tensor(0.3932))
    """
    call = enter(query, key, key, attn_mask, 0.0, is_causal, scale, enable_gqa)
    shape, scale = call.shape, call.scale
    wide = torch.promote_types(query.dtype, torch.float32)
    if (upstream is None) == (generator is None):
        raise ValueError(
            "upstream: expected either upstream or generator, got "
            f"{'neither' if upstream is None else 'both'}. Pass the gradient of the weights, or "
            "torch.Generator(query.device).manual_seed(0) to draw one."
        )
    if upstream is None:
        upstream = torch.randn(shape, generator=generator, dtype=wide, device=query.device)
    elif tuple(upstream.shape) != shape:
        raise ValueError(
            f"upstream: expected the shape of the weights {shape}, got {tuple(upstream.shape)}. "
            "From a gradient G of the output it is G @ value.mT."
        )
    weights, visible, *_ = softmax_weights(call)
    weights = weights.to(query.dtype).to(wide)  # (..., n, m)
    query, key, _ = call.tensors()
    logits = (query * scale) @ key.mT  # (..., n, m)
    mask = call.mask_tensor()
    if mask is not None and mask.dtype != torch.bool:
        logits = logits + mask
    seeing = visible.any(-1)  # (..., n)

    def pair_mean(numbers: Tensor) -> Tensor:
        return torch.where(visible, numbers, 0.0).sum((-2, -1)) / visible.sum((-2, -1))

    def row_mean(numbers: Tensor) -> Tensor:
        return torch.where(seeing, numbers, 0.0).sum(-1) / seeing.sum(-1)

    logit_mean = pair_mean(logits)  # (...)
    entropy = torch.special.entr(weights).sum(-1)  # (..., n)
    through = weights * (upstream - (weights * upstream).sum(-1, keepdim=True))  # (..., n, m)
    return ScoreStatistics(
        logit_mean=logit_mean,
        logit_variance=pair_mean((logits - logit_mean[..., None, None]).square()),
        entropy=row_mean(entropy),
        effective_keys=row_mean(entropy.exp()),
        max_weight=row_mean(weights.amax(-1)),
        jacobian_trace=row_mean(1.0 - weights.square().sum(-1)),
        score_gradient=row_mean(torch.linalg.vector_norm(through, dim=-1)),
        query_gradient=row_mean(torch.linalg.vector_norm(scale * through @ key, dim=-1)),
    )
