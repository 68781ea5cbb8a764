r"""The second opinion: attention in NumPy and float64, one row at a time.

Written from the formula, not from :mod:`attnref.reference`, and in another style on purpose:
forbidden keys are left out of the sums instead of being given a weight of zero, and the
gradients are written down instead of being derived by a machine. Two programs that share
neither library nor method seldom share a mistake.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnref import checks

__all__ = ["Attention", "Gradients", "attend", "gated_delta_attention", "gradients"]

Array = NDArray[np.float64]

_LEAST = 5e-324  # the least number above 0


class Attention(NamedTuple):
    r"""What attention computes, and what it went through.

    Attributes:
        output: ``(..., n, d_v)``.
        weights: ``(..., n, m)``.
        lse: ``(..., n)``, the logarithm of what each row of the softmax is divided by,
            ``log(e^σ + Σ_(j ∈ A_i) e^(s_ij))``; -inf for a row without
            allowed keys, the logarithm of an empty sum, or the sink.

    Examples:
        >>> attend([[1, 0]], [[1, 0], [0, 1]], [[10], [20]]).lse.round(4)
        array([1.1079])
    """

    output: Array
    weights: Array
    lse: Array


def attend(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    sink: ArrayLike | None = None,
) -> Attention:
    r"""Output and weights of attention, row by row.

        o_i = Σ_(j ∈ A_i) p_ij v_j
        p_ij = e^(s_ij) / (e^σ + Σ_(l ∈ A_i) e^(s_il))
        s_ij = t(c q_i·k_j) + b_ij

    with ``A_i`` the keys that query i may attend to, and ``t(x)=τ tanh(x/τ)`` for
    ``softcap`` ``τ``, otherwise ``t(x)=x``; without a ``sink`` ``σ`` its term
    is 0. Meaning of the arguments as in :func:`attnref.attend`; whatever becomes an array is
    accepted and computed in float64.

    Returns:
        :class:`Attention`; a row without allowed keys has zeros for output and weights.

    Raises:
        ValueError: naming the argument, what was expected, what came and how to fix it.

    Time and memory: ``O(n m (d_k + d_v))`` in Python loops. For small inputs only.

    Examples:
        >>> found = attend([[1, 0]], [[1, 0], [0, 1]], [[10], [20]])
        >>> found.output.round(4), found.weights.round(4)
        (array([[13.3024]]), array([[0.6698, 0.3302]]))
    """
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (query, key, value))
    checks.check_value(k.shape, v.shape)
    shape = checks.scores_shape(q.shape, k.shape, enable_gqa=enable_gqa)
    output = np.zeros((*shape[:-1], v.shape[-1]))
    weights = np.zeros(shape)
    lse = _sinks(sink, shape).copy()
    for row in _rows(q, k, attn_mask, is_causal, scale, enable_gqa, softcap):
        here = (*row.place, row.i)
        values = _matrix_at(v, row.shared)  # (m, d_v)
        probabilities = _softmax(row.scores, lse[here])
        for j, p in zip(row.allowed, probabilities, strict=True):
            weights[(*here, j)] = p
            # No allowed key has the weight 0: at the least it is too small to be written.
            output[here] += max(p, _LEAST) * values[j]
        terms = np.append(row.scores, lse[here])
        lse[here] = terms.max() + np.log(np.exp(terms - terms.max()).sum())
    return Attention(output, weights, lse)


def gated_delta_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    log_decay: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    state: ArrayLike | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    r"""Outputs and last state of gated delta attention, one token and one component at a time.

        r_t = S_(t-1)ᵀ (a_t ∘ k_t)
        S_t = Diag(a_t) S_(t-1) + β_t k_t (v_t - r_t)ᵀ
        o_t = c S_tᵀ q_t

    with ``a_t=e^(g_t)``, and ``k_t v_tᵀ`` added as it is without ``beta``. Meaning of
    the arguments as in :mod:`attnref.variants.gated_delta`; all are computed in float64.

    Returns:
        The pair of output ``(..., n, d_v)`` and state ``(..., d_k, d_v)``, both with the leading
        dimensions of query and key together.

    Raises:
        ValueError: naming the argument, what was expected, what came and how to fix it.

    Time: ``O(n d_k d_v)`` in Python loops. For small inputs only.

    Examples:
        >>> output, state = gated_delta_attention([[1], [1]], [[1], [1]], [[10], [20]], beta=[1, 1])
        >>> output.ravel(), state
        (array([10., 20.]), array([[20.]]))
    """
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (query, key, value))
    checks.check_value(k.shape, v.shape)
    lead = checks.scores_shape(q.shape, k.shape)[:-2]
    factor = checks.check_scale(scale, q.shape[-1])
    (n, width), height = k.shape[-2:], v.shape[-1]
    fading = np.zeros(k.shape) if log_decay is None else np.asarray(log_decay, dtype=np.float64)
    if fading.ndim < k.ndim:
        fading = fading[..., np.newaxis]
    fading = np.broadcast_to(fading, (*lead, n, width))
    rates = None
    if beta is not None:
        rates = np.broadcast_to(np.asarray(beta, dtype=np.float64), (*lead, n))
    output = np.zeros((*lead, n, height))
    states = np.zeros((*lead, width, height))
    if state is not None:
        states += np.asarray(state, dtype=np.float64)

    for place in np.ndindex(*lead):
        queries, keys, values = _matrix_at(q, place), _matrix_at(k, place), _matrix_at(v, place)
        rows = states[place]  # (d_k, d_v), a view: one row per component of the key
        for t in range(n):
            for c in range(width):
                rows[c] *= np.exp(fading[place][t, c])
            change = values[t]
            if rates is not None:
                told = sum((keys[t, c] * rows[c] for c in range(width)), np.zeros(height))
                change = rates[place][t] * (change - told)
            for c in range(width):
                rows[c] += keys[t, c] * change
                output[place][t] += factor * queries[t, c] * rows[c]
    return output, states


class Gradients(NamedTuple):
    """One array for each argument, in its shape; ``attn_mask`` is None unless it is a float.

    Examples:
        >>> gradients(np.ones((2, 3)), np.ones((2, 5)), np.ones((7, 5)), np.ones((7, 3)))._fields
        ('query', 'key', 'value', 'attn_mask', 'sink')
    """

    query: Array
    key: Array
    value: Array
    attn_mask: Array | None
    sink: Array | None


def gradients(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    sink: ArrayLike | None = None,
    grad_lse: ArrayLike | None = None,
) -> Gradients:
    r"""What a change of each argument does to a loss, given what the output does to it.

        dV = Pᵀ dO
        dP = dO Vᵀ
        dS = P ∘ (dP - rowsum(P ∘ dP) + dℓ)
        dQ = c (dS ∘ t') K
        dK = c (dS ∘ t')ᵀ Q
        dB = dS

    over the allowed pairs, with ``t'=1-tanh²(c q·k/τ)`` for ``softcap``
    ``τ``, otherwise 1. A sink, which takes the weight ``p_σ`` of a row, gets
    ``p_σ(dℓ - rowsum(P ∘ dP))`` from it. An entry that serves several
    rows, by broadcasting or by shared heads, gets the sum.

    Args:
        grad_output: ``(..., n, d_v)``, the gradient ``dO`` of the loss to the output.
        grad_lse: ``(..., n)``, the gradient ``dℓ`` to the log-sum-exp; None means 0.
        query, key, value, attn_mask, is_causal, scale, enable_gqa, softcap, sink: as in
            :func:`attend`.

    Returns:
        :class:`Gradients`; zero wherever no allowed pair leads.

    Raises:
        ValueError: naming the argument, what was expected, what came and how to fix it.

    Time and memory: ``O(n m (d_k + d_v))`` in Python loops. For small inputs only.

    Examples:
        >>> found = gradients([[1]], [[1, 0]], [[1, 0], [0, 1]], [[10], [20]])
        >>> found.query.round(4), found.value.round(4).ravel()
        (array([[-1.564,  1.564]]), array([0.6698, 0.3302]))
    """
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (query, key, value))
    checks.check_value(k.shape, v.shape)
    shape = checks.scores_shape(q.shape, k.shape, enable_gqa=enable_gqa)
    do = _upstream("grad_output", grad_output, (*shape[:-1], v.shape[-1]))
    dl = _upstream("grad_lse", np.zeros(shape[:-1]) if grad_lse is None else grad_lse, shape[:-1])
    dq, dk, dv, db = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), np.zeros(shape)

    factor = checks.check_scale(scale, q.shape[-1])
    sinks = _sinks(sink, shape)
    to_sinks = np.where(sinks == -np.inf, 0.0, dl)  # of a row without keys it is all there is
    for row in _rows(q, k, attn_mask, is_causal, scale, enable_gqa, softcap):
        here = (*row.place, row.i)
        weights = _softmax(row.scores, sinks[here])
        dp = np.array([np.dot(do[here], _matrix_at(v, row.shared)[j]) for j in row.allowed])
        mean = np.sum(weights * dp)
        ds = weights * (dp - mean + dl[here])  # (len(allowed),)
        to_sinks[here] = (1.0 - weights.sum()) * (dl[here] - mean)
        for j, p, d, slope in zip(row.allowed, weights, ds, row.slopes, strict=True):
            _matrix_at(dv, row.shared)[j] += p * do[here]
            _matrix_at(dq, row.place)[row.i] += factor * slope * d * _matrix_at(k, row.shared)[j]
            _matrix_at(dk, row.shared)[j] += factor * slope * d * _matrix_at(q, row.place)[row.i]
            db[(*here, j)] = d

    return Gradients(dq, dk, dv, _mask_gradient(db, attn_mask), _sink_gradient(to_sinks, sink))


class _Row(NamedTuple):
    """One query that may attend to something."""

    place: tuple[int, ...]  # its leading indices
    shared: tuple[int, ...]  # those of its keys and values
    i: int
    allowed: list[int]
    scores: Array  # (len(allowed),)
    slopes: Array  # (len(allowed),), what softcap multiplies the gradient of a score by


def _rows(
    q: Array,
    k: Array,
    attn_mask: ArrayLike | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    softcap: float | None,
) -> Iterator[_Row]:
    """The rows of the scores, forbidden keys left out, and rows without any left out too."""
    shape = checks.scores_shape(q.shape, k.shape, enable_gqa=enable_gqa)
    factor = checks.check_scale(scale, q.shape[-1])
    checks.check_softcap(softcap)
    bias = _bias(attn_mask, shape)
    *lead, n, m = shape
    # With grouped queries, heads 0 … group-1 share key head 0, and so on.
    group = q.shape[-3] // k.shape[-3] if enable_gqa else 1
    for place in np.ndindex(*lead):
        shared = (*place[:-1], place[-1] // group) if enable_gqa else place
        for i in range(n):
            last = i if is_causal else m - 1
            allowed = [j for j in range(m) if j <= last and bias[place][i, j] != -np.inf]
            if not allowed:
                continue
            scaled = factor * _matrix_at(q, place)[i]  # (d_k,)
            scores = np.array([np.dot(scaled, _matrix_at(k, shared)[j]) for j in allowed])
            slopes = np.ones_like(scores)
            if softcap is not None:
                bounded = np.tanh(scores / softcap)
                scores, slopes = softcap * bounded, 1.0 - bounded**2
            yield _Row(place, shared, i, allowed, scores + bias[place][i, allowed], slopes)


def _softmax(scores: Array, sink: float) -> Array:
    top = max(scores.max(), sink)
    powers = np.exp(scores - top)
    probabilities: Array = powers / (powers.sum() + np.exp(sink - top))
    return probabilities


def _sinks(sink: ArrayLike | None, shape: checks.Shape) -> Array:
    """The score of the sink for each row, ``(..., n)``; -inf where there is none."""
    scores = np.asarray(-np.inf if sink is None else sink, dtype=np.float64)
    return np.broadcast_to(scores[..., None], shape[:-1])


def _bias(attn_mask: ArrayLike | None, shape: checks.Shape) -> Array:
    """The mask as numbers to add: 0 where a bool mask allows, -inf where it forbids."""
    if attn_mask is None:
        return np.zeros(shape)
    mask = np.asarray(attn_mask)
    checks.check_mask(mask.shape, shape)
    added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    return np.broadcast_to(added, shape)


def _upstream(name: str, gradient: ArrayLike, shape: checks.Shape) -> Array:
    """The upstream gradient, that of the loss by a result, checked to have its shape."""
    array = np.asarray(gradient, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(
            f"{name}: expected shape {shape}, as the result has whose change it weighs, got "
            f"{array.shape}. For the gradient of a sum pass ones of that shape."
        )
    return array


def _mask_gradient(bias: Array, attn_mask: ArrayLike | None) -> Array | None:
    """The gradient of the scores, summed over whatever the mask was broadcast over."""
    if attn_mask is None or np.asarray(attn_mask).dtype == bool:
        return None
    sizes = np.shape(attn_mask)
    new = bias.ndim - len(sizes)
    wide = (*range(new), *(new + axis for axis, size in enumerate(sizes) if size == 1))
    total: Array = bias.sum(axis=wide, keepdims=True).reshape(sizes)
    return total


def _sink_gradient(to_rows: Array, sink: ArrayLike | None) -> Array | None:
    """The gradient of the rows' sinks, summed over whatever a sink was broadcast over."""
    if sink is None:
        return None
    sizes = np.shape(sink)
    to_heads = np.asarray(to_rows.sum(-1))
    new = to_heads.ndim - len(sizes)
    wide = (*range(new), *(new + axis for axis, size in enumerate(sizes) if size == 1))
    total: Array = np.asarray(to_heads.sum(axis=wide, keepdims=True)).reshape(sizes)
    return total


def _matrix_at(array: Array, place: tuple[int, ...]) -> Array:
    """The matrix at ``place`` of the broadcast leading dimensions, a view."""
    sizes = array.shape[:-2]
    aligned = place[len(place) - len(sizes) :]
    matrix: Array = array[
        tuple(0 if size == 1 else index for size, index in zip(sizes, aligned, strict=True))
    ]
    return matrix
