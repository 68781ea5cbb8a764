r"""The second opinion: attention in NumPy and float64, one row at a time.

Written from the formula, not from :mod:`attnref.reference`, and in another style on purpose:
forbidden keys are left out of the sums instead of being given a weight of zero. Two programs
that share neither library nor method seldom share a mistake.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnref import checks

Array = NDArray[np.float64]


def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Array]:
    r"""Output and weights of attention, row by row.

    .. math:: o_i = \sum_{j \in A_i} p_{ij} v_j, \qquad
              p_{ij} = \frac{e^{s_{ij}}}{\sum_{l\in A_i} e^{s_{il}}}, \qquad
              s_{ij} = c\, q_i \cdot k_j + b_{ij}

    with :math:`A_i` the keys that query i may attend to. Meaning of the arguments as in
    :func:`attnref.scaled_dot_product_attention`; whatever becomes an array is accepted and
    computed in float64.

    Returns:
        The pair of output ``(..., n, d_v)`` and weights ``(..., n, m)``; a row without
        allowed keys is zero in both.

    Raises:
        ValueError: naming the argument, what was expected, what came and the mend.

    Time and memory: ``O(n m (d_k + d_v))`` in Python loops. For small inputs only.

    >>> output, weights = scaled_dot_product_attention([[1, 0]], [[1, 0], [0, 1]], [[10], [20]])
    >>> output.round(4), weights.round(4)
    (array([[13.3024]]), array([[0.6698, 0.3302]]))
    """
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (query, key, value))
    shape = checks.scores_shape(q.shape, k.shape, enable_gqa=enable_gqa)
    checks.check_value(k.shape, v.shape)
    factor = checks.check_scale(scale, q.shape[-1])
    bias = _bias(attn_mask, shape)

    *lead, n, m = shape
    output = np.zeros((*lead, n, v.shape[-1]))
    weights = np.zeros(shape)
    group = q.shape[-3] // k.shape[-3] if enable_gqa else 1
    for place in np.ndindex(*lead):
        rows = _at(q, place)  # (n, d_k)
        # With grouped queries, heads 0 … group-1 share key head 0, and so on.
        shared = (*place[:-1], place[-1] // group) if enable_gqa else place
        keys, values = _at(k, shared), _at(v, shared)  # (m, d_k), (m, d_v)
        for i in range(n):
            last = i if is_causal else m - 1
            allowed = [j for j in range(m) if j <= last and bias[place][i, j] != -np.inf]
            if not allowed:
                continue
            scores = np.array(
                [np.dot(factor * rows[i], keys[j]) + bias[place][i, j] for j in allowed]
            )
            powers = np.exp(scores - scores.max())
            weights[(*place, i, allowed)] = powers / powers.sum()
            for j in allowed:
                output[(*place, i)] += weights[(*place, i, j)] * values[j]
    return output, weights


def _bias(attn_mask: ArrayLike | None, shape: checks.Shape) -> Array:
    """The mask as numbers to add: 0 where a bool mask allows, -inf where it forbids."""
    if attn_mask is None:
        return np.zeros(shape)
    mask = np.asarray(attn_mask)
    checks.check_mask(mask.shape, shape)
    added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    return np.broadcast_to(added, shape)


def _at(array: Array, place: tuple[int, ...]) -> Array:
    """The matrix at ``place`` of the broadcast leading dimensions."""
    sizes = array.shape[:-2]
    aligned = place[len(place) - len(sizes) :]
    matrix: Array = array[
        tuple(0 if size == 1 else index for size, index in zip(sizes, aligned, strict=True))
    ]
    return matrix
