r"""Scale factors read off the queries and keys: a wanted variance, or a wanted entropy.

:func:`from_variance` and :func:`from_entropy` look at **all** queries and keys of a sequence. Do
not use these two

- in a causal model: the last token then changes the factor of the first rows, which leaks
  the future into training and cannot be repeated when decoding; there :func:`from_past` gives
  each row a factor of its own, from the scores up to it;
- over padding: cut it off first, for its vectors would count as keys;
- where training and use must agree, unless an average kept from training takes the place of
  the statistic.

And a factor that undoes whatever spread the scores have, as all three do, takes from the model the
means to sharpen its attention by growing them. What is left: measuring, choosing a constant for
each head, encoders over whole sequences.
"""

import math

import torch
from torch import Tensor

from attnref import checks
from attnref._door import check_tensors

__all__ = ["from_entropy", "from_past", "from_variance"]


def from_variance(query: Tensor, key: Tensor) -> Tensor:
    r"""The factor that gives the scores of each head variance 1, without forming the scores.

        1/c² = tr(Qᵀ Q Kᵀ K) / nm - (q̄·k̄)² = tr(C_q C_k) + q̄ᵀC_k q̄ + k̄ᵀC_q k̄

    The left form is the mean square minus the squared mean of all ``q_i·k_j``; the
    right one, with means ``q̄, k̄`` and covariances ``C_q, C_k``, is
    what is computed: no term is negative, so nothing cancels.

    Logit variance: 1 over all pairs of a head. Entropy: about ``ln m-1/2`` if the scores
    are near Gaussian. Gradient: that of a constant factor, since none flows through it.
    **Not for causal models**: see the module.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``, leading dimensions that broadcast with the query's.

    Returns:
        ``(..., 1, 1)``, detached, in float32 or, for float64 input, float64; for
        :func:`attnref.scaling.scale_query`. Where all scores are equal up to rounding it is
        large but finite, and small enough to leave those rounding errors below 1; without
        queries or keys it is ``1/√(d_k)``.

    Raises:
        TypeError, ValueError: for tensors of other dtypes, shapes that do not belong together.

    Exact up to rounding. Time ``O((n + m) d_k²)``, memory ``O((n + m) d_k + d_k²)``.

    Examples:
        >>> query, key = torch.tensor([[2.0], [-2.0]]), torch.tensor([[3.0], [-3.0]])
        >>> from_variance(query, key)  # the scores are 6, -6, -6, 6
        tensor([[0.1667]])
    """
    check_tensors(query=query, key=key)
    *lead, n, m = checks.scores_shape(query.shape, key.shape)
    query, key = _widen(query), _widen(key)
    if 0 in (*lead, n, m):
        return query.new_full((*lead, 1, 1), query.shape[-1] ** -0.5)
    # Divided first, for the squares of large numbers overflow.
    query_size, key_size = (
        x.abs().amax((-2, -1), keepdim=True).clamp(min=1.0) for x in (query, key)
    )  # (..., 1, 1) each
    query_mean, query_covariance, query_square = _moments(query / query_size)
    key_mean, key_covariance, key_square = _moments(key / key_size)
    variance = (
        (query_covariance * key_covariance).sum((-2, -1), keepdim=True)
        + query_mean @ key_covariance @ query_mean.mT
        + key_mean @ query_covariance @ key_mean.mT
    )  # (..., 1, 1)
    # Equal scores differ by rounding errors of some eps |q| |k|; a spread below that is none.
    info = torch.finfo(variance.dtype)
    noise = (16 * info.eps) ** 2 * query_square * key_square  # (..., 1, 1)
    factor = torch.maximum(variance, noise).clamp(min=info.tiny).rsqrt()
    return factor / query_size / key_size


def from_entropy(query: Tensor, key: Tensor, *, target: float) -> Tensor:
    r"""The factor at which the weights of each head have a given mean entropy.

        1/n Σ_i H(softmax(c K q_i)) = target

    The entropy falls as c grows, ``dH/dc = -c Var_p(q·k) ≤ 0``, so bisection
    finds the one solution; it runs for all leading dimensions at once.

    Logit variance: whatever the entropy needs; for the target ``ln m-1/2`` and Gaussian
    scores about 1. Gradient: that of a constant factor, since none flows through it.
    **Not for causal models**: see the module.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., m, d_k)``, leading dimensions that broadcast with the query's.
        target: entropy in nats, between 0 and ``ln m``; ``math.log(w)`` asks for an
            effective number of w keys.

    Returns:
        ``(..., 1, 1)``, detached, in float32 or, for float64 input, float64; for
        :func:`attnref.scaling.scale_query`. The search covers score deviations from
        ``2^(-16)`` to ``2^16``; if keys tie so that no factor reaches the target, the
        largest one is returned. Without queries it is ``1/√(d_k)``.

    Raises:
        TypeError, ValueError: for tensors of other dtypes, shapes that do not belong together, or
            a target out of range.

    Exact up to rounding. Time 48 times that of the weights, ``O(n m)``, memory ``O(n m)``.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[2.0], [0.0]])
        >>> factor = from_entropy(query, key, target=0.5)
        >>> p = torch.softmax(factor * query @ key.mT, dim=-1)
        >>> torch.special.entr(p).sum()
        tensor(0.5000)
    """
    check_tensors(query=query, key=key)
    checks.scores_shape(query.shape, key.shape)
    keys = key.shape[-2]
    advice = "It is an entropy in nats; for an effective number of w keys write math.log(w)."
    if not 0.0 < checks.check_number("target", target, advice) < math.log(max(keys, 1)):
        raise ValueError(
            f"target: expected an entropy between 0 and ln {keys} nats, got {target!r}. For half "
            f"a nat below uniform write math.log({keys}) - 0.5."
        )
    unit = from_variance(query, key)  # (..., 1, 1)
    if query.shape[-2] == 0:
        return unit
    query, key = _widen(query), _widen(key)
    scores = (query * unit) @ key.mT  # (..., n, m)
    low = torch.full_like(unit, -16.0)  # (..., 1, 1), powers of two
    high = -low
    for _ in range(48):  # the last interval is 2^-43 wide
        middle = (low + high) / 2
        weights = torch.softmax(middle.exp2() * scores, dim=-1)  # (..., n, m)
        entropy = torch.special.entr(weights).sum(-1, keepdim=True).mean(-2, keepdim=True)
        too_flat = entropy > target  # (..., 1, 1)
        low, high = torch.where(too_flat, middle, low), torch.where(too_flat, high, middle)
    return unit * high.exp2()


def from_past(query: Tensor, key: Tensor) -> Tensor:
    r"""A factor for each row of causal self-attention, from the scores up to that row.

        1/c_i² = 1/N_i Σ_(a ≤ i) Σ_(b ≤ a) (q_a·k_b - s̄_a)²
        s̄_a = 1/a Σ_(b ≤ a) q_a·k_b
        N_i = Σ_(a ≤ i)(a-1) = (i(i-1))/2

    Rows and keys count from 1, and row a sees the keys 1 to a. Each row's scores are compared with
    their own mean, since a softmax sees only differences; a row of a scores has a - 1 of these.
    A first row has one key, whose weight is 1 whatever the factor; it gets ``1/√(d_k)``.

    Logit variance: in the mean over independent keys ``1/c_i²`` is the variance of the scores
    from the second row on, but the first few rows estimate it from few scores. Entropy: as with
    :func:`from_variance` once i is large. Gradient: that of a constant factor, since none flows
    through it. A decoder keeps two numbers per head, the sum and ``N_i``.

    Args:
        query: ``(..., n, d_k)``, any floating dtype.
        key: ``(..., n, d_k)``, leading dimensions that broadcast with the query's.

    Returns:
        ``(..., n, 1)``, detached, in float32 or, for float64 input, float64; for
        :func:`attnref.scaling.scale_query`. Where all scores so far are equal up to rounding it
        is large but finite.

    Raises:
        TypeError, ValueError: for tensors of other dtypes, shapes that do not belong together, or
            queries and keys of different lengths.

    Exact up to rounding. Time ``O(n² d_k)``, memory ``O(n²)``.

    Examples:
        >>> query = torch.ones(3, 1)
        >>> key = torch.tensor([[1.0], [3.0], [2.0]])
        >>> from_past(query, key)  # deviations 0; -1, 1; -1, 1, 0, and N is 0, 1, 3
        tensor([[1.0000],
                [0.7071],
                [0.8660]])
    """
    check_tensors(query=query, key=key)
    n, m = checks.scores_shape(query.shape, key.shape)[-2:]
    if n != m:
        raise ValueError(
            f"key: expected as many keys as queries, {n}, got {m}: row i is compared with the "
            "keys up to i. When decoding, pass all tokens so far and keep the last row."
        )
    query, key = _widen(query), _widen(key)
    scores = query @ key.mT  # (..., n, n)
    seen = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    count = torch.arange(1, n + 1, device=scores.device).to(scores.dtype)  # (n,)
    mean = torch.where(seen, scores, 0.0).sum(-1) / count  # (..., n)
    spread = torch.where(seen, scores - mean[..., None], 0.0).square().sum(-1)  # (..., n)
    differences = (count - 1).cumsum(0)  # (n,): 0, 1, 3, 6
    variance = spread.cumsum(-1) / differences.clamp(min=1)  # (..., n)
    # Equal scores differ by rounding errors of some eps |q| |k|; a spread below that is none.
    info = torch.finfo(variance.dtype)
    query_square, key_square = (x.square().sum(-1).cumsum(-1) / count for x in (query, key))
    noise = (16 * info.eps) ** 2 * query_square * key_square  # (..., n)
    factor = torch.maximum(variance, noise).clamp(min=info.tiny).rsqrt()
    return torch.where(differences == 0, key.shape[-1] ** -0.5, factor)[..., None]


def _moments(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean ``(..., 1, d)``, covariance ``(..., d, d)``, mean squared length ``(..., 1, 1)``."""
    mean = vectors.mean(-2, keepdim=True)  # (..., 1, d)
    centred = vectors - mean
    covariance = centred.mT @ centred / vectors.shape[-2]  # (..., d, d)
    return mean, covariance, vectors.square().sum(-1, keepdim=True).mean(-2, keepdim=True)


def _widen(tensor: Tensor) -> Tensor:
    """Detached, and in float32 at least: squares overflow float16."""
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))
