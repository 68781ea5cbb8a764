r"""Similarity: what a query and a key can be compared by.

The dot product, the cosine and the distance are three readings of one product:

    q·k = |q| |k|cos θ = 1/2(|q|² + |k|² - |q-k|²)

In a row of softmax the query's norm cancels, so attention by dot products is attention by
distances with a bias ``|k|²/2`` in favour of long keys; the two agree where all keys have
the same norm. Any of the scores becomes weights with :func:`attnref.softmax.stable`; those by
distances, scaled by ``1/2h²``, are the weights of kernel regression with the bandwidth h.
"""

import torch
from torch import Tensor

from attnref import checks
from attnref._door import check_tensors
from attnref.reference import COMPUTE_DTYPE

__all__ = ["cosine_scores", "dot_scores", "euclidean_scores"]


def dot_scores(query: Tensor, key: Tensor, *, scale: float | None = None) -> Tensor:
    r"""How far each query reaches along each key, and each key along the query.

        s_ij = c q_i·k_j = c |q_i| |k_j|cos θ_ij

    It measures length as well as direction: a vector need not be its own best match.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``, same dtype and device.
        scale: the factor c; None means ``1/sqrt(d_k)``.

    Returns:
        ``(..., n, m)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Time ``2 n m d_k`` operations; memory ``O(n m)``.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.

    Examples:
        >>> key = torch.tensor([[1.0, 0.0], [3.0, 3.0]])
        >>> dot_scores(torch.tensor([[1.0, 0.0]]), key, scale=1.0)
        tensor([[1., 3.]])
    """
    q, k = _prepare(query, key)
    return (checks.check_scale(scale, q.shape[-1]) * q @ k.mT).to(query.dtype)  # (..., n, m)


def cosine_scores(query: Tensor, key: Tensor, *, scale: float = 1.0) -> Tensor:
    r"""How far each query and key agree in direction, whatever their lengths.

        s_ij = c (q_i·k_j)/(|q_i| |k_j|) = c cos θ_ij

    Bounded by c, which therefore sets how sharp a softmax over them can be: no weight exceeds
    ``1/(1+(m-1)e^(-2c))``. Every vector is its own best match.

    Args:
        query: ``(..., n, d_k)``, any floating dtype. A zero vector scores 0.
        key: ``(..., m, d_k)``, same dtype and device.
        scale: the factor c.

    Returns:
        ``(..., n, m)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Gradients are finite everywhere. Time ``2 n m d_k + O((n + m) d_k)`` operations; memory
    ``O(n m)``.

    Source: Henry et al. 2020, arXiv 2010.04245.

    Examples:
        >>> cosine_scores(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 3.0]]))
        tensor([[1.0000, 0.7071]])
    """
    q, k = _prepare(query, key)
    factor = checks.check_scale(scale, q.shape[-1])
    return (factor * _direction(q) @ _direction(k).mT).to(query.dtype)  # (..., n, m)


def euclidean_scores(query: Tensor, key: Tensor, *, scale: float = 1.0) -> Tensor:
    r"""How near each query is to each key: the squared distance, negated.

        s_ij = -c |q_i-k_j|² = c (2 q_i·k_j - |q_i|² - |k_j|²)

    The right side costs one matrix product, as :func:`dot_scores` does, but it subtracts large
    numbers to obtain a small one: the absolute error of the distance is up to about
    ``1/2(d_k+3) ε (|q|+|k|)²``, and a distance of 0 may come out
    slightly negative. Points far from the origin lose nothing if a common vector, such as the
    mean of the keys, is first subtracted from queries and keys: distances do not change.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``, same dtype and device.
        scale: the factor c.

    Returns:
        ``(..., n, m)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Time ``2 n m d_k + O((n + m) d_k + n m)`` operations; memory ``O(n m)``.

    Examples:
        >>> euclidean_scores(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 3.0]]))
        tensor([[  0., -13.]])
    """
    q, k = _prepare(query, key)
    factor = checks.check_scale(scale, q.shape[-1])
    return (factor * _negative_squared_distance(q, k)).to(query.dtype)  # (..., n, m)


def _prepare(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Query and key, checked, in the dtype of computation."""
    check_tensors(query=query, key=key)
    checks.scores_shape(query.shape, key.shape)
    dtype = COMPUTE_DTYPE.get(query.dtype, query.dtype)
    return query.to(dtype), key.to(dtype)


def _direction(vectors: Tensor) -> Tensor:
    """Each vector over its norm; a zero vector stays zero, with the gradient of the identity."""
    # Sized to 1 first: squares of very long or short vectors would overflow or vanish.
    largest = vectors.detach().abs().amax(-1, keepdim=True)  # (..., n, 1)
    sized = vectors / torch.where(largest > 0, largest, 1.0)  # (..., n, d_k)
    norms = torch.linalg.vector_norm(sized, dim=-1, keepdim=True)  # (..., n, 1)
    return sized / torch.where(norms > 0, norms, 1.0)  # (..., n, d_k)


def _negative_squared_distance(query: Tensor, key: Tensor) -> Tensor:
    """``-|q_i - k_j|²`` with one matrix product, ``(..., n, m)``."""
    query_norms = query.square().sum(-1)[..., :, None]  # (..., n, 1)
    key_norms = key.square().sum(-1)[..., None, :]  # (..., 1, m)
    return 2 * query @ key.mT - query_norms - key_norms  # (..., n, m)
