r"""Scores kept in an interval: vectors normalised before the product, or scores capped after it.

No factor can promise that, because training grows the vectors that it multiplies. With logits
within ``± b`` no weight of n keys exceeds ``1/(1+(n-1)e^(-2b))``, and none vanishes.
"""

import math

import torch
from torch import Tensor

from attnref._door import check_tensors
from attnref.checks import check_number

__all__ = ["qk_rms_norm", "qk_unit_norm", "softcap"]


def qk_unit_norm(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    r"""Query and key as unit vectors: their product is a cosine.

        q̂ = q/|q|
        k̂ = k/|k|
        q̂·k̂ = cos∠(q,k) ∈ [-1,1]

    The factor that follows is a temperature ``τ``, as
    :class:`attnref.scaling.LearnedTemperature` gives it, and the logits stay within
    ``± τ``. For random directions their variance is ``τ²/d_k``. However training
    grows the projections, the entropy cannot collapse: no weight exceeds
    ``1/(1+(n-1)e^(-2τ))``. The gradient to q is orthogonal to q and goes as
    ``1/|q|``.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``.

    Returns:
        Both, each in its shape and dtype. A vector of zeros stays one, and has a gradient of zeros.

    Raises:
        TypeError, ValueError: for anything but a floating tensor, for two of different kinds or
            widths, and for vectors without components.

    Exact up to rounding for vectors of any length; norms are formed in float32 at least. Time and
    memory ``O((n + m) d_k)``.

    Source: Henry et al. 2020, arXiv 2010.04245; Liu et al. 2021, arXiv 2111.09883.

    Examples:
        >>> qk_unit_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]]))
        (tensor([[0.6000, 0.8000]]), tensor([[0., 1.]]))
    """
    _check_vectors(query, key)
    return _unit(query), _unit(key)


def _unit(vectors: Tensor) -> Tensor:
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    largest = wide.detach().abs().amax(-1, keepdim=True)  # (..., 1)
    zero = largest == 0
    # Divided first, for squares overflow and vanish; the result does not depend on the divisor.
    wide = wide / largest.masked_fill(zero, 1.0)
    norm: Tensor = torch.linalg.vector_norm(wide.masked_fill(zero, 1.0), dim=-1, keepdim=True)
    return (wide / norm).masked_fill(zero, 0.0).to(vectors.dtype)


def qk_rms_norm(query: Tensor, key: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    r"""Query and key with mean square 1, so that ``1/√(d_k)`` finds what it supposes.

        q̂ = q/√(|q|²/d_k + ε)
        k̂ = k/√(|k|²/d_k + ε)

    The unit vectors of :func:`qk_unit_norm` times ``√(d_k)``, except for
    ``ε``. With the factor ``1/√(d_k)`` random directions have logit variance
    1 and entropy near ``ln n-1/2``, whatever the initialisation; the logits stay within
    ``± √(d_k)``, and the gradient to q is orthogonal to q except for ``ε``.

    Models that learn a gain per component multiply the results by it (Qwen3, OLMo 2, Gemma 3),
    which gives up the bound.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``.
        eps: ``ε``, above 0.

    Returns:
        Both, each in its shape and dtype. A vector of zeros stays one.

    Raises:
        TypeError, ValueError: for an ``eps`` that is not above 0; as in :func:`qk_unit_norm`.

    Exact up to rounding, in float32 or wider, for vectors of any length. Time and
    memory ``O((n + m) d_k)``.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467; on query and key, as a LayerNorm: Dehghani
    et al. 2023, arXiv 2302.05442.

    Examples:
        >>> query, _ = qk_rms_norm(torch.tensor([[3.0, 4.0]]), torch.ones(1, 2))
        >>> query
        tensor([[0.8485, 1.1314]])
    """
    _check_vectors(query, key)
    advice = "It keeps a vector of zeros from being divided by zero; 1e-6 is usual."
    if not check_number("eps", eps, advice) > 0.0:
        raise ValueError(f"eps: expected a number above 0, got {eps!r}. {advice}")
    return _rms_one(query, eps), _rms_one(key, eps)


def _rms_one(vectors: Tensor, eps: float) -> Tensor:
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    root = max(math.sqrt(eps), torch.finfo(wide.dtype).tiny)
    # Divided first, by the larger of the two terms: neither square overflows.
    size = wide.detach().abs().amax(-1, keepdim=True).clamp(min=root)  # (..., 1)
    wide = wide / size
    mean_square = wide.square().mean(-1, keepdim=True)
    return (wide * (mean_square + (root / size).square()).rsqrt()).to(vectors.dtype)


def _check_vectors(query: Tensor, key: Tensor) -> None:
    """Vectors of one width, which is what a product needs."""
    check_tensors(query=query, key=key)
    for name, tensor in (("query", query), ("key", key)):
        if tensor.dim() == 0 or tensor.shape[-1] == 0:
            raise ValueError(
                f"{name}: expected shape (..., d_k) with d_k of at least 1, got "
                f"{tuple(tensor.shape)}. Its last dimension holds the components of a vector."
            )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key: expected last dimension {query.shape[-1]}, as query has, got shape "
            f"{tuple(key.shape)}. Project both to the same d_k."
        )


def softcap(scores: Tensor, *, cap: float) -> Tensor:
    r"""Scores squeezed smoothly into ``(-cap, cap)``; small ones stay as they are.

        s̃ = cap·tanh(s/cap)

    It comes **before the mask**: after it, ``-∞`` would become ``-cap``, and a
    forbidden key would get weight. The variance stays below ``cap²``, no weight exceeds
    ``1/(1+(n-1)e^(-2cap))``, and the order of the keys is kept. The gradient to a score is
    multiplied by ``1-(s̃/cap)² ≤ 1``: one that has reached the cap learns no more.

    Attention has no argument for it, but a float mask can carry the scores when a factor of 0
    silences the product: fill forbidden pairs of the capped scores with ``-inf`` and pass them as
    ``attn_mask``, with ``scale=0.0``.

    Args:
        scores: ``(..., n, m)``, already scaled.
        cap: the bound, above 0: 50 in Gemma 2, 30 in Grok-1.

    Returns:
        ``(..., n, m)`` in the dtype of ``scores``.

    Raises:
        TypeError, ValueError: for scores that are not a floating tensor, or a cap not above 0.

    Exact up to rounding; half precision is computed in float32. Time and memory ``O(n m)``.

    Source: Gemma Team 2024, arXiv 2408.00118, section 2.

    Examples:
        >>> softcap(torch.tensor([1.0, 100.0]), cap=50.0)
        tensor([ 0.9999, 48.2014])
    """
    check_tensors(scores=scores)
    advice = "Without a cap, leave the scores as they are."
    if not 0.0 < check_number("cap", cap, advice) < math.inf:
        raise ValueError(f"cap: expected a finite number above 0, got {cap!r}. {advice}")
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return (cap * torch.tanh(wide / cap)).to(scores.dtype)  # (..., n, m)
