r"""Linear attention: another similarity, chosen so that the sum over the keys is done once.

    o_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / (φ(q_i)ᵀ Σ_j φ(k_j))

It is a model of its own and no estimate of softmax attention: with ``φ=elu+1``
and Gaussian inputs it is hardly nearer to it than the mean of the values is.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, check_neutral, check_tensors, enter
from attnref.masks import Mask
from attnref.record import Method

__all__ = [
    "LinearState",
    "linear_attention",
    "linear_attention_step",
    "linear_state",
]

FeatureMap = Callable[[Tensor], Tensor]

_AT_ONCE = 4  # chunks: fewer are too small for fast products, more leave the cache


def _elu_plus_one(tokens: Tensor) -> Tensor:
    """The feature map of Katharopoulos et al., elu(x) + 1, without a branch.

    The sum is exactly 0 below -17.33 in float32, where e^x < 2^-25 still has all its digits: a row
    of zeros has no normaliser.
    """
    return torch.exp(tokens.clamp(max=0)) + torch.relu(tokens)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: None = None,
    enable_gqa: bool = False,
    *,
    feature_map: FeatureMap | None = None,
    block_size: int = 64,
) -> Tensor:
    r"""Attention with a product of features in place of ``e^(q·k)``, linear in length.

        o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i)
        S_i = Σ_j φ(k_j) v_jᵀ
        z_i = Σ_j φ(k_j)

    The sums run over all keys, or over ``j ≤ i`` if causal. Then the keys of a chunk meet
    its queries in a small masked square, and those before it through the running sums.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: which keys count, bool or a mask of :mod:`attnref.masks`, ``(..., 1, m)``, such
            as ``masks.padding(lengths, m)``: the others add nothing.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: None, likewise.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        feature_map: takes ``(..., d_k)`` to ``(..., f)``, token by token; not negative, or the
            normaliser may vanish between terms of both signs. A factor on the scores would
            belong to it: there is none outside. None means ``elu(x) + 1``: ``x + 1`` above 0 and
            ``e^x`` below.
        block_size: tokens per chunk of the causal form; any number gives the same result.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros where the normaliser is 0.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    A NaN or inf in a key or value reaches every query, unless the mask leaves it out; in the
    causal form those that come later, and one in a value the earlier ones of its chunk, too.

    Exact for its own similarity up to rounding; half precision is computed in float32. Not
    softmax attention, and what it remembers has rank f at most. Time ``4 n f d_v`` operations,
    causal ``2 n B (f + d_v)`` more with chunks of B: above softmax's ``2 n m (d_k + d_v)`` as
    long as m is below about f. Memory beside the result: ``O(n f)``; causal without gradients
    on a processor ``O(B² + f d_v)``, for chunks are taken four at a time, to stay in its cache.

    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 5 and 9; by chunks: Hua et al.
    2022, arXiv 2202.10447.

    Examples:
        >>> query, key = torch.zeros(2, 1), torch.tensor([[0.0], [2.0]])
        >>> linear_attention(query, key, torch.tensor([[10.0], [20.0]]), is_causal=True)
        tensor([[10.0000],
                [17.5000]])
    """
    advice = "There are no scores to multiply: a factor belongs into feature_map."
    check_neutral(advice, scale=scale)
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, None, enable_gqa)
    features = _checked_map(feature_map)
    return weighted_average(
        call, query_features=features, key_features=features, block_size=block_size
    )


class LinearState(NamedTuple):
    r"""All that linear attention keeps of the past, whatever its length.

    Attributes:
        key_value: ``S=Σ_j φ(k_j) v_jᵀ``, ``(..., f, d_v)``.
        normaliser: ``z=Σ_j φ(k_j)``, ``(..., f)``.

    The ``f (d_v + 1)`` numbers are fewer than the ``m (d_k + d_v)`` of a cache of keys and
    values as soon as m passes about half of f.

    Examples:
        >>> state = linear_state(torch.zeros(1000, 2), torch.ones(1000, 3))
        >>> state.key_value.shape, state.normaliser
        (torch.Size([2, 3]), tensor([1000., 1000.]))
    """

    key_value: Tensor  # (..., f, d_v)
    normaliser: Tensor  # (..., f)


def linear_state(
    key: Tensor, value: Tensor, *, feature_map: FeatureMap | None = None
) -> LinearState:
    r"""The state after these keys, from which :func:`linear_attention_step` goes on.

        S = Σ_j φ(k_j) v_jᵀ
        z = Σ_j φ(k_j)

    Args:
        key: ``(..., m, d_k)``, any floating dtype of 16 bits or more; m may be 0.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions.
        feature_map: as in :func:`linear_attention`.

    Returns:
        The :class:`LinearState`, float32 for half precision.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Time ``2 m f d_v`` operations.

    Examples:
        >>> linear_state(torch.zeros(3, 1), torch.ones(3, 2))
        LinearState(key_value=tensor([[3., 3.]]), normaliser=tensor([3.]))
    """
    check_tensors(key=key, value=value)
    checks.check_value(key.shape, value.shape)
    features = _checked_map(feature_map)
    with own_precision(key.device):
        return _state(key, value, features)


def _checked_map(feature_map: FeatureMap | None) -> FeatureMap:
    if feature_map is None:
        return _elu_plus_one
    if not callable(feature_map):
        raise TypeError(
            f"feature_map: expected a function of a tensor (..., d_k), got "
            f"{type(feature_map).__name__}. Leave it out for elu(x) + 1."
        )
    return feature_map


def _state(key: Tensor, value: Tensor, feature_map: FeatureMap) -> LinearState:
    features = feature_map(_widen(key))  # (..., m, f)
    return LinearState(features.mT @ value.to(features.dtype), features.sum(-2))


def linear_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: LinearState | None = None,
    *,
    feature_map: FeatureMap | None = None,
) -> tuple[Tensor, LinearState]:
    r"""One token of causal linear attention, from the state of those before it.

        S_i = S_(i-1) + φ(k_i) v_iᵀ
        z_i = z_(i-1) + φ(k_i)
        o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i)

    Args:
        query: ``(..., 1, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., 1, d_k)``, same dtype and device.
        value: ``(..., 1, d_v)``, same dtype and device, same leading dimensions as ``key``.
        state: of the tokens before this one; None means that it is the first.
        feature_map: as in :func:`linear_attention`.

    Returns:
        ``(..., 1, d_v)`` in the dtype of ``query``, and the state with this token.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Token by token it equals ``linear_attention(..., is_causal=True)`` up to rounding. Time
    ``4 f d_v`` operations and memory ``f (d_v + 1)`` numbers, however long the past.

    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 18 to 20.

    Examples:
        >>> token = torch.zeros(1, 1)
        >>> output, state = linear_attention_step(token, token, torch.tensor([[10.0]]))
        >>> linear_attention_step(token, token + 2, torch.tensor([[20.0]]), state)[0]
        tensor([[17.5000]])
    """
    enter(query, key, value)
    if query.shape[-2] != 1 or key.shape[-2] != 1:
        raise ValueError(
            f"query: expected one token, shape (..., 1, d_k), got {tuple(query.shape)} with key "
            f"{tuple(key.shape)}. For a whole prompt call linear_attention(..., is_causal=True) "
            "and linear_state."
        )
    features = _checked_map(feature_map)
    if state is not None and not isinstance(state, LinearState):
        raise TypeError(
            f"state: expected a LinearState or None, got {type(state).__name__}. The step before "
            "returns it, and linear_state makes it of a prompt."
        )
    with own_precision(query.device):
        return _step(query, key, value, state, features)


def _step(
    query: Tensor, key: Tensor, value: Tensor, state: LinearState | None, feature_map: FeatureMap
) -> tuple[Tensor, LinearState]:
    new = _state(key, value, feature_map)
    if state is not None:
        new = LinearState(state.key_value + new.key_value, state.normaliser + new.normaliser)
    features = feature_map(_widen(query))  # (..., 1, f)
    output = _ratio(features @ new.key_value, features @ new.normaliser[..., None])
    return output.to(query.dtype), new  # (..., 1, d_v)


def weighted_average(
    call: Call, *, query_features: FeatureMap, key_features: FeatureMap, block_size: int
) -> Tensor:
    """Linear attention of a checked call, with a feature map for each side."""
    advice = "It is the number of tokens taken at a time; any number gives the same result."
    block_size = checks.check_integer("block_size", block_size, 1, advice)
    with own_precision(call.query.device):
        return _sums(call, query_features, key_features, block_size).to(call.query.dtype)


def _sums(
    call: Call, query_features: FeatureMap, key_features: FeatureMap, block_size: int
) -> Tensor:
    query, key, value = call.tensors()
    counts = call.key_mask()  # (..., m, 1)
    present = value.new_ones(value.shape[-2], 1)  # (m, 1)
    if counts is not None:
        key, value = key.masked_fill(~counts, 0.0), value.masked_fill(~counts, 0.0)
        present = counts.to(value.dtype)
    if not call.is_causal:
        q, k = query_features(query), key_features(key) * present  # (..., n, f), (..., m, f)
        normaliser = q @ k.sum(-2)[..., None]  # (..., n, 1)
        return _ratio(q @ (k.mT @ value), normaliser)  # (..., n, d_v)

    n = query.shape[-2]
    # Some chunks and their scores fit a processor's cache; a GPU is only filled by all of them.
    chunks = max(1, -(-n // block_size))
    at_once = min(chunks, _AT_ONCE) if query.device.type == "cpu" else chunks
    step = at_once * block_size
    outputs: list[Tensor] = []
    past = None
    for start in range(0, max(n, 1), step):
        # Filled up as features, not as tokens: those of no token are 0, and count for nothing.
        q, k, v = (
            torch.unflatten(_pad(block, step), -2, (at_once, block_size))
            for block in (
                query_features(query[..., start : start + step, :]),
                key_features(key[..., start : start + step, :])
                * present[..., start : start + step, :],
                value[..., start : start + step, :],
            )
        )  # (..., chunks, B, f), the same, (..., chunks, B, d_v)
        own = k.mT @ v, k.sum(-2).unsqueeze(-1)  # (..., chunks, f, d_v), (..., chunks, f, 1)
        if past is None:
            past = tuple(torch.zeros_like(part[..., :1, :, :]) for part in own)
        # Summed up to each chunk, its own not subtracted, which would let the future in.
        upto = [torch.cat(parts, -3).cumsum(-3) for parts in zip(past, own, strict=True)]
        before, before_sum = (part[..., :-1, :, :] for part in upto)
        past = tuple(part[..., -1:, :, :] for part in upto)
        scores = (q @ k.mT).tril()  # (..., chunks, B, B)
        sums = scores @ v + q @ before  # (..., chunks, B, d_v)
        normaliser = scores.sum(-1, keepdim=True) + q @ before_sum  # (..., chunks, B, 1)
        outputs.append(_ratio(sums, normaliser).flatten(-3, -2))
    return torch.cat(outputs, -2)[..., :n, :]  # (..., n, d_v)


def _pad(tokens: Tensor, length: int) -> Tensor:
    """Padded with zeros behind the last token."""
    missing = length - tokens.shape[-2]
    return pad(tokens, (0, 0, 0, missing)) if missing else tokens


def _ratio(sums: Tensor, normaliser: Tensor) -> Tensor:
    """A normaliser of 0 has sums of 0, and gives zeros with finite gradients."""
    return sums / normaliser.masked_fill(normaliser == 0, 1.0)


def _widen(tokens: Tensor) -> Tensor:
    return tokens.to(torch.promote_types(tokens.dtype, torch.float32))


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    is_causal: bool = False,
    scale: None = None,
    enable_gqa: bool = False,
    feature_map: FeatureMap | None = None,
    block_size: int = 64,
) -> Tensor:
    """The products of features as a table of all pairs."""
    feature_map = _checked_map(feature_map)
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    weights = feature_map(query) @ feature_map(key).mT  # (..., n, m)
    if is_causal:
        weights = weights.tril()
    if attn_mask is not None:
        seen = attn_mask.dense(query.device) if isinstance(attn_mask, Mask) else attn_mask
        weights = weights.masked_fill(~seen, 0.0)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0) @ value


METHOD = Method(
    function=linear_attention,
    page="variants/linear",
    formula=_formula,
    neutral=("scale", "dropout_p"),
    plain=None,
    family="kernel",
    peers=("linear-attention-transformer",),
    masks="keys",
    ways={"block_size": (1, 3, 5)},
    isolates=("mask",),
    tasks=("dense", "causal"),
)
