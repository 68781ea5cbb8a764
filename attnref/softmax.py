r"""Softmax: from scores to weights that sum to 1, whole, block by block, and in pieces.

    p_i = e^(s_i) / (Σ_j e^(s_j))
    p_i/p_j = e^(s_i-s_j)

It raises ``e`` to the scores, not the scores to a power: only differences of scores count.
As it stands, the formula overflows from a score of 88.73 upwards in float32, 11.1 in float16 and
709.79 in float64. Here are the form that is safe (:func:`stable`), the form that reads the scores
in blocks (:func:`online`), the merging of attention over separate sets of keys (:class:`Partial`,
:func:`partial_attention`, :func:`merge`), and the derivative.

Throughout, a score of ``-inf`` is a key that may not be attended to: its weight is exactly 0.
Where every score is ``-inf``, all weights are 0 and the gradients stay finite. Half-precision
inputs are computed in float32.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref import checks

__all__ = [
    "Partial",
    "entropy",
    "jacobian",
    "jacobian_product",
    "log_sum_exp",
    "merge",
    "online",
    "partial_attention",
    "stable",
]


def stable(scores: Tensor, *, dim: int = -1) -> Tensor:
    r"""Softmax with the largest score subtracted first, so that no exponential exceeds 1.

        p_i = e^(s_i-μ) / (Σ_j e^(s_j-μ))
        μ = max_j s_j

    The same function, since a common factor ``e^(-μ)`` cancels: softmax is invariant to a
    shift of the scores (and not to their size, which acts as an inverse temperature). As
    ``torch.softmax``, except that a row of ``-inf`` alone gives zeros instead of NaN.

    Args:
        scores: any shape, any floating dtype. ``-inf`` = may not be attended to.
        dim: the dimension of the keys.

    Returns:
        The shape and dtype of ``scores``. A row that holds NaN or ``+inf`` is NaN.

    Raises:
        TypeError: for scores that are not a floating tensor.

    The relative error of a weight is at most about
    ``(μ - s_i + ln m + 3) ε`` as long as the weight does not underflow.
    Time and memory ``O(m)`` per row, in three passes: maximum, sum, weights.

    Examples:
        >>> stable(torch.tensor([1.0, 2.0, 3.0])), stable(torch.tensor([1001.0, 1002.0, 1003.0]))
        (tensor([0.0900, 0.2447, 0.6652]), tensor([0.0900, 0.2447, 0.6652]))
    """
    check_scores(scores)
    wide = _widen(scores)
    powers = _power(wide, _maximum(wide, dim))
    return (powers / _zero_to_one(powers.sum(dim, keepdim=True))).to(scores.dtype)


# --8<-- [start:online]
def online(scores: Tensor, *, block_size: int, dim: int = -1) -> Tensor:
    r"""Softmax whose maximum and sum are found in a single pass, one block of keys at a time.

        μ' = max(μ, max_(j ∈ B) s_j)
        ℓ' = ℓ e^(μ-μ') + Σ_(j ∈ B) e^(s_j-μ')
        p_i = e^(s_i-μ) / ℓ

    The recurrence starts at ``μ=-∞, ℓ=0``; whenever the maximum rises, the sum so
    far is rescaled to it.

    Args:
        scores: any shape, any floating dtype. ``-inf`` = may not be attended to.
        block_size: keys per block, 1 or more; the last block may be smaller.
        dim: the dimension of the keys.

    Returns:
        The shape and dtype of ``scores``, equal to :func:`stable` up to rounding.

    Raises:
        TypeError: for scores that are not a floating tensor.
        ValueError: for a block size that is not a positive integer.

    The relative error is that of :func:`stable` and up to about ``ε`` more per block.
    Time ``O(m)`` per row, in two passes instead of three; memory beside the weights: one block.

    Source: Milakov and Gimelshein 2018, arXiv 1805.02867, algorithm 3 (there with blocks of 1).

    Examples:
        >>> online(torch.tensor([1.0, 2.0, 3.0]), block_size=2)
        tensor([0.0900, 0.2447, 0.6652])
    """
    check_scores(scores)
    advice = "It is the number of keys read at a time; any number gives the same weights."
    checks.check_integer("block_size", block_size, 1, advice)
    wide = _widen(scores)
    normaliser = wide.new_zeros(_one_key(wide, dim))
    maximum = torch.full_like(normaliser, -torch.inf)
    for block in torch.split(wide, block_size, dim):
        previous, maximum = maximum, torch.maximum(maximum, _maximum(block, dim))
        normaliser = normaliser * _power(previous, maximum)
        normaliser = normaliser + _power(block, maximum).sum(dim, keepdim=True)
    return (_power(wide, maximum) / _zero_to_one(normaliser)).to(scores.dtype)


# --8<-- [end:online]


# --8<-- [start:partial]
class Partial(NamedTuple):
    r"""Attention over some of the keys, with what it takes to merge it with the rest.

    For a set of keys ``B``:

        o = 1/ℓ Σ_(j ∈ B) e^(s_j-μ) v_j
        μ = max_(j ∈ B) s_j
        ℓ = Σ_(j ∈ B) e^(s_j-μ)

    A kernel that returns its output and log-sum-exp gives the partial
    ``Partial(output, lse[..., None], torch.ones_like(lse)[..., None])``: the pair
    ``(μ,ℓ)`` matters through ``ℓ e^μ`` alone. Kept apart, the two are also
    more precise: beside a score of 10 000, float32 rounds a log-sum-exp to steps of 0.001.

    Attributes:
        output: ``(..., n, d_v)``; zeros where no key is allowed.
        maximum: ``(..., n, 1)``; ``-inf`` where no key is allowed.
        normaliser: ``(..., n, 1)``; 0 where no key is allowed.

    Examples:
        >>> part = partial_attention(torch.zeros(1, 2), torch.tensor([[1.0], [3.0]]))
        >>> part.output, part.maximum, part.normaliser
        (tensor([[2.]]), tensor([[0.]]), tensor([[2.]]))
    """

    output: Tensor
    maximum: Tensor
    normaliser: Tensor

    def log_sum_exp(self) -> Tensor:
        r"""The ``μ + ln ℓ`` of each query, ``(..., n)``; -inf where no key is allowed."""
        return (self.maximum + _zero_to_one(self.normaliser).log()).squeeze(-1)


def partial_attention(scores: Tensor, value: Tensor) -> Partial:
    """Attention over one set of keys, ready to be merged with attention over others.

    Args:
        scores: ``(..., n, m)``, any floating dtype. ``-inf`` = may not be attended to; ``m`` may
            be 0.
        value: ``(..., m, d_v)``, any floating dtype; computed in that of the scores. A NaN or
            inf here reaches every query, even through a weight of 0.

    Returns:
        A :class:`Partial` in the dtype of ``scores``, float32 for half precision.

    Raises:
        TypeError: for scores or values that are not floating tensors.
        ValueError: for a number of values that is not the number of keys.

    Time ``O(n m d_v)``; memory ``O(n m)`` for the weights of these keys alone.

    Examples:
        >>> partial_attention(torch.tensor([[0.0, 0.0]]), torch.tensor([[10.0], [20.0]]))
        Partial(output=tensor([[15.]]), maximum=tensor([[0.]]), normaliser=tensor([[2.]]))
    """
    check_scores(scores)
    check_scores(value, "value")
    if scores.dim() < 2 or value.dim() < 2 or value.shape[-2] != scores.shape[-1]:
        raise ValueError(
            f"value: expected shape (..., m, d_v) beside scores (..., n, m), one row for each key, "
            f"got {tuple(value.shape)} beside {tuple(scores.shape)}. Cut both at the same keys."
        )
    scores = _widen(scores)
    maximum = _maximum(scores, -1)  # (..., n, 1)
    powers = _power(scores, maximum)  # (..., n, m)
    normaliser = powers.sum(-1, keepdim=True)  # (..., n, 1)
    weights = powers / _zero_to_one(normaliser)  # (..., n, m)
    return Partial(weights @ value.to(scores.dtype), maximum, normaliser)


def merge(one: Partial, other: Partial) -> Partial:
    r"""Attention over two disjoint sets of keys, from attention over each.

        μ = max(μ_1, μ_2)
        ℓ = ℓ_1 e^(μ_1-μ) + ℓ_2 e^(μ_2-μ)
        o = (ℓ_1 e^(μ_1-μ) o_1 + ℓ_2 e^(μ_2-μ) o_2) / ℓ

    Exact, commutative and associative up to rounding: however the keys are divided, and in
    whatever order the parts arrive, the merged output is attention over all of them. A part
    without allowed keys changes nothing. The outputs are averaged, never summed, so nothing
    overflows whose result is finite.

    Args:
        one, other: attention of the same queries; shapes as in :class:`Partial`.

    Returns:
        A :class:`Partial` over the keys of both. Gradients flow through outputs, normalisers
        and maxima.

    Time and memory ``O(n d_v)``.

    Source: Milakov and Gimelshein 2018, arXiv 1805.02867, section 3.1; with outputs, Rabe and
    Staats 2021, arXiv 2112.05682.

    Examples:
        >>> near = partial_attention(torch.tensor([[2.0]]), torch.tensor([[10.0]]))
        >>> far = partial_attention(torch.tensor([[0.0, 1.0]]), torch.tensor([[20.0], [30.0]]))
        >>> merge(near, far).output
        tensor([[15.7949]])
    """
    maximum = torch.maximum(one.maximum, other.maximum).detach()  # (..., n, 1)
    first = one.normaliser * _power(one.maximum, maximum)  # (..., n, 1)
    second = other.normaliser * _power(other.maximum, maximum)  # (..., n, 1)
    normaliser = first + second
    total = _zero_to_one(normaliser)
    output = first / total * one.output + second / total * other.output  # (..., n, d_v)
    return Partial(output, maximum, normaliser)


# --8<-- [end:partial]


def log_sum_exp(scores: Tensor, *, dim: int = -1) -> Tensor:
    r"""The logarithm of softmax's denominator: a smooth maximum, whose gradient is softmax.

        ln Σ_j e^(s_j) = μ + ln Σ_j e^(s_j-μ)
        α ln Σ_j e^(x_j/α) = max_p(Σ_j p_j x_j + α H(p))

    The second identity says what softmax maximises, at ``p=softmax(x/α)``: the
    expected score plus ``α`` times the entropy, so ``α`` is the price of a nat.
    As ``torch.logsumexp``, except that a row of ``-inf`` alone has the gradient 0 and not NaN.

    Args:
        scores: any shape, any floating dtype. ``-inf`` = may not be attended to.
        dim: the dimension of the keys, absent from the result.

    Returns:
        The shape of ``scores`` without ``dim``, same dtype; ``-inf`` where all scores are.

    Raises:
        TypeError: for scores that are not a floating tensor.

    Absolute error at most about ``(|μ| + ln m + 3) ε``. Time and memory
    ``O(m)`` per row.

    Examples:
        >>> log_sum_exp(torch.tensor([100.0, 100.0]))
        tensor(100.6931)
    """
    check_scores(scores)
    wide = _widen(scores)
    maximum = _maximum(wide, dim)
    # Unlike a softmax, a log-sum-exp has a value where the maximum is +inf.
    powers = torch.exp(wide - maximum.masked_fill(maximum.isinf(), 0.0))
    logarithm = _zero_to_one(powers.sum(dim, keepdim=True)).log()
    return (maximum + logarithm).squeeze(dim).to(scores.dtype)


def jacobian(weights: Tensor, *, dim: int = -1, scale: float = 1.0) -> Tensor:
    r"""The derivative of ``softmax(scale * x)``, from its weights.

        ∂p_i/∂x_j = c p_i(δ_ij - p_j)
        J = c (diag(p) - ppᵀ)

    Symmetric, rows sum to 0, trace ``c (1-Σ_i p_i²)``, spectral norm at most
    ``c/2``. It vanishes as the weights approach one-hot; on uniform weights it is
    ``c/m (I - 11ᵀ/m)``.

    Args:
        weights: the softmax, any shape, any floating dtype.
        dim: the dimension of the keys, of size m.
        scale: the factor c between x and the scores, often written ``1/α``.

    Returns:
        The other dimensions of ``weights``, then ``(m, m)``: the weight's index i, then j.

    Raises:
        TypeError: for weights that are not a floating tensor.

    Time and memory ``O(m²)`` per row; :func:`jacobian_product` needs ``O(m)``.

    Examples:
        >>> jacobian(torch.tensor([0.5, 0.5]))
        tensor([[ 0.2500, -0.2500],
                [-0.2500,  0.2500]])
    """
    check_scores(weights, "weights")
    p = _widen(weights).movedim(dim, -1)  # (..., m)
    product = p[..., :, None] * p[..., None, :]  # (..., m, m)
    return (scale * (torch.diag_embed(p) - product)).to(weights.dtype)


def jacobian_product(
    weights: Tensor, vector: Tensor, *, dim: int = -1, scale: float = 1.0
) -> Tensor:
    r"""Softmax's Jacobian times a vector, without forming the Jacobian.

        (Ju)_i = c p_i(u_i - Σ_j p_j u_j)

    The Jacobian is symmetric, so this is both the forward derivative along ``vector`` and, with
    the gradient of a loss with respect to the weights as ``vector``, the gradient with respect
    to x. That second reading is the backward pass of attention.

    Args:
        weights: the softmax, any shape, any floating dtype.
        vector: broadcasts with ``weights``.
        dim: the dimension of the keys.
        scale: as in :func:`jacobian`.

    Returns:
        The broadcast shape of both, in the dtype of ``weights``.

    Raises:
        TypeError: for weights that are not a floating tensor.

    Time and memory ``O(m)`` per row.

    Examples:
        >>> jacobian_product(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor([ 0.2500, -0.2500])
    """
    check_scores(weights, "weights")
    p = _widen(weights)
    return (scale * p * (vector - (p * vector).sum(dim, keepdim=True))).to(weights.dtype)


def entropy(weights: Tensor, *, dim: int = -1) -> Tensor:
    r"""How spread the weights are, in nats: 0 for a single key, ``ln m`` for all alike.

        H(p) = -Σ_j p_j ln p_j

    ``e^H`` is the effective number of keys. For ``p=softmax(β x)`` it never
    rises with ``β``, since ``dH/dβ = -β Var_p(x)``.

    Args:
        weights: non-negative with sum 1, any shape, any floating dtype. A weight of 0 counts
            for 0 and gets no gradient.
        dim: the dimension of the keys, absent from the result.

    Returns:
        The shape of ``weights`` without ``dim``, same dtype.

    Raises:
        TypeError: for weights that are not a floating tensor.

    Examples:
        >>> entropy(torch.tensor([0.5, 0.5, 0.0]))
        tensor(0.6931)
    """
    check_scores(weights, "weights")
    wide = _widen(weights)
    positive = torch.where(wide == 0, 1.0, wide)  # 1 ln 1 = 0, with a finite gradient
    return -(positive * positive.log()).sum(dim).to(weights.dtype)


def check_scores(scores: Tensor, name: str = "scores") -> None:
    """``scores``, or the argument called ``name``, must be a tensor of a floating dtype."""
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        got = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(
            f"{name}: expected a torch.Tensor of a floating dtype, got {got}. "
            f"Convert it with torch.as_tensor({name}, dtype=torch.float32)."
        )


def _maximum(scores: Tensor, dim: int) -> Tensor:
    """The largest score, kept as a dimension of 1; -inf of no scores at all.

    A constant to autograd: whatever is subtracted, the result and its gradient are the same.
    """
    if scores.shape[dim] == 0:
        return scores.new_full(_one_key(scores, dim), -torch.inf)
    return scores.detach().amax(dim, keepdim=True)


def _one_key(scores: Tensor, dim: int) -> list[int]:
    """The shape of the scores with a single key."""
    shape = list(scores.shape)
    shape[dim] = 1
    return shape


def _power(scores: Tensor, maximum: Tensor) -> Tensor:
    """``exp(scores - maximum)``, and 0 where both are -inf."""
    return torch.exp(scores - maximum.masked_fill(maximum == -torch.inf, 0.0))


def _zero_to_one(normaliser: Tensor) -> Tensor:
    """A divisor for rows that may be without keys: their numerators are 0 anyway."""
    return normaliser.masked_fill(normaliser == 0, 1.0)


def _widen(scores: Tensor) -> Tensor:
    """The scores in the dtype of computation: float32 for half precision."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
