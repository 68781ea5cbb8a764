r"""Similarity: what a query and a key can be compared by, and neighbours found with it.

The dot product, the cosine and the distance are three readings of one product:

.. math:: q\cdot k = \|q\|\,\|k\|\cos\theta = \tfrac12\big(\|q\|^2 + \|k\|^2 - \|q-k\|^2\big)

In a row of softmax the query's norm cancels, so attention by dot products is attention by
distances with a bias :math:`\|k\|^2/2` in favour of long keys; the two agree where all keys have
the same norm. Any of the scores becomes weights with :func:`attnref.softmax.stable`.
"""

import math

import torch
from torch import Tensor

from attnref import checks, softmax
from attnref._door import check_tensors
from attnref.reference import COMPUTE_DTYPE

__all__ = [
    "cosine_scores",
    "dot_scores",
    "euclidean_scores",
    "kernel_regression",
    "nearest_neighbours",
]


def dot_scores(query: Tensor, key: Tensor, *, scale: float | None = None) -> Tensor:
    r"""How far each query reaches along each key, and each key along the query.

    .. math:: s_{ij} = c\,q_i\cdot k_j = c\,\|q_i\|\,\|k_j\|\cos\theta_{ij}

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
    q, k = _computed(query, key)
    return (checks.check_scale(scale, q.shape[-1]) * q @ k.mT).to(query.dtype)  # (..., n, m)


def cosine_scores(query: Tensor, key: Tensor, *, scale: float = 1.0) -> Tensor:
    r"""How far each query and key agree in direction, whatever their lengths.

    .. math:: s_{ij} = c\,\frac{q_i\cdot k_j}{\|q_i\|\,\|k_j\|} = c\cos\theta_{ij}

    Bounded by c, which therefore sets how sharp a softmax over them can be: no weight exceeds
    :math:`1/(1+(m-1)e^{-2c})`. Every vector is its own best match.

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
    q, k = _computed(query, key)
    factor = checks.check_scale(scale, q.shape[-1])
    return (factor * _direction(q) @ _direction(k).mT).to(query.dtype)  # (..., n, m)


def euclidean_scores(query: Tensor, key: Tensor, *, scale: float = 1.0) -> Tensor:
    r"""How near each query is to each key: the squared distance, negated.

    .. math:: s_{ij} = -c\,\|q_i-k_j\|^2 = c\,\big(2\,q_i\cdot k_j - \|q_i\|^2 - \|k_j\|^2\big)

    The right side costs one matrix product, as :func:`dot_scores` does, but it subtracts large
    numbers to obtain a small one: the absolute error of the distance is up to about
    :math:`\tfrac12(d_k+3)\,\varepsilon\,(\|q\|+\|k\|)^2`, and a distance of 0 may come out
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
    q, k = _computed(query, key)
    factor = checks.check_scale(scale, q.shape[-1])
    return (factor * _negative_squared_distance(q, k)).to(query.dtype)  # (..., n, m)


# --8<-- [start:kernel_regression]
def kernel_regression(query: Tensor, key: Tensor, value: Tensor, *, bandwidth: float) -> Tensor:
    r"""Predict at each query the average of the values, those of near keys counting more.

    .. math:: \hat y(q) = \frac{\sum_j K_h(q-k_j)\,v_j}{\sum_j K_h(q-k_j)}, \qquad
              K_h(u) = e^{-\|u\|^2/2h^2}

    This is attention: with :math:`h^2=\sqrt{d_k}` the scaled dot-product attention whose scores
    get the bias :math:`-\|k_j\|^2/2h^2`, and exactly that one where all keys have the same norm.
    As :math:`h\to0` it becomes the nearest neighbour's value, as :math:`h\to\infty` the mean.

    Args:
        query: ``(..., n, d_k)``, where to predict; any floating dtype.
        key: ``(..., m, d_k)``, where values are known; same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        bandwidth: the h of the kernel, in the unit of the distances.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Distances err as those of :func:`euclidean_scores`, here divided by :math:`2h^2`. Time
    ``2 n m (d_k + d_v)`` operations; memory ``O(n m)``.

    Source: Nadaraya 1964, doi 10.1137/1109020; Watson 1964, Sankhya A 26. As attention: Tsai et
    al. 2019, arXiv 1908.11775.

    Examples:
        >>> key, value = torch.tensor([[0.0], [1.0]]), torch.tensor([[10.0], [20.0]])
        >>> kernel_regression(torch.tensor([[0.9]]), key, value, bandwidth=0.5)
        tensor([[18.3202]])
    """
    advice = "For a bandwidth a dimension divide query and key by it and pass bandwidth=1.0."
    bandwidth = checks.check_number("bandwidth", bandwidth, advice)
    if not 0.0 < bandwidth < math.inf:
        raise ValueError(
            f"bandwidth: expected a positive finite number, got {bandwidth}. It is a distance; for "
            "the nearest neighbour alone use nearest_neighbours(scores, count=1)."
        )
    q, k = _computed(query, key, value=value)
    checks.check_value(key.shape, value.shape)
    distances = _negative_squared_distance(q, k)  # (..., n, m)
    weights = softmax.stable(distances / (2 * bandwidth**2))  # (..., n, m)
    return (weights @ value.to(weights.dtype)).to(query.dtype)  # (..., n, d_v)


# --8<-- [end:kernel_regression]


def nearest_neighbours(scores: Tensor, *, count: int, dim: int = -1) -> Tensor:
    r"""Softmax over the ``count`` best keys alone, and 0 for the others.

    .. math:: p^{(k)}_j = \begin{cases} p_j \big/ \sum_{l\in T} p_l & j\in T \\
              0 & \text{otherwise}\end{cases}, \qquad T = \text{the } k \text{ largest scores}

    The softmax p loses the mass :math:`\delta=\sum_{j\notin T}p_j`, and
    :math:`\|p-p^{(k)}\|_1 = 2\delta` exactly: an output moves by at most :math:`\delta` times the
    largest distance between two values. With one neighbour it is the hard choice of the best key;
    with all it is softmax.

    Args:
        scores: any shape, any floating dtype, from any measure of similarity. ``-inf`` = may not
            be attended to, and gets 0 even among the best.
        count: the number k of neighbours, from 1 to the number of keys.
        dim: the dimension of the keys.

    Returns:
        Weights in the shape and dtype of ``scores``. Between equal scores at the border one is
        taken, unspecified which.

    Raises:
        TypeError: for scores that are not a floating tensor.
        ValueError: for a count that is not from 1 to m.

    Time ``O(m log m)`` per row at most; every score is needed to know the best.

    Examples:
        >>> nearest_neighbours(torch.tensor([1.0, 3.0, 2.0]), count=2)
        tensor([0.0000, 0.7311, 0.2689])
    """
    softmax.check_scores(scores)
    m = scores.shape[dim]
    advice = "It is the number of neighbours to keep, of the keys of scores."
    count = checks.check_integer("count", count, 1, advice, most=m)
    best = scores.topk(count, dim).indices
    dropped = torch.ones_like(scores, dtype=torch.bool).scatter(dim, best, False)
    return softmax.stable(scores.masked_fill(dropped, -torch.inf), dim=dim)


def _computed(query: Tensor, key: Tensor, **others: Tensor) -> tuple[Tensor, Tensor]:
    """Query and key, checked, in the dtype of computation."""
    check_tensors(query=query, key=key, **others)
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
