r"""Attention to the tokens that an indexer chose: a small attention without softmax ranks them.

    I_ij = Σ_h w_ih ReLU(q^I_ih·k^I_j)
    o_i = Σ_(j ∈ T_i) p_ij v_j
    T_i = the k largest I_ij

where p are the softmax weights of query i over the keys that were chosen.
"""

from typing import Any

import torch
from torch import Tensor

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, check_neutral, check_tensors, enter
from attnref.checks import check_integer
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._chosen import ChosenKeys, check_past, keys_mask, top_places
from attnref.variants._tiled import attention

__all__ = ["indexer_attention", "indexer_choice"]

_NUMBERS_AT_ONCE = 2**20  # of scores of all heads of the indexer
_COUNT = "It is the number of keys that each query keeps."


def indexer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index_query: Tensor,
    index_key: Tensor,
    index_weights: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    num_keys: int,
    past: int = 0,
) -> Tensor:
    r"""Softmax attention over the ``num_keys`` keys that the indexer ranks first, for all heads.

        o_i = Σ_(j ∈ T_i) p_ij v_j
        T_i = the k largest I_ij = Σ_h w_ih ReLU(q^I_ih·k^I_j)

    The result, forward and backward, is that of :func:`attnref.scaled_dot_product_attention` under
    the mask of :func:`indexer_choice`; with all keys chosen, that of the definition itself.

    Args:
        query: ``(..., h, n, d_k)``, any floating dtype of 16 bits or more; ``(n, d_k)`` is one
            head.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        index_query: ``(..., h_I, n, d_I)``, the indexer's queries, same dtype and device.
        index_key: ``(..., m, d_I)``, one for all heads of the indexer.
        index_weights: ``(..., h_I, n)``, the weight of each indexer head for each query.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: query i sees the keys j <= past + i.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``. The indexer has none.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        num_keys: the number k of keys a query keeps, or all where there are fewer. Which of several
            equal scores is taken at the cutoff is unspecified.
        past: the number of keys before the first query's own, m - n for a step with a cache; 0
            unless causal.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros for a query that sees no key.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in float32 or wider, for the choice that was made. The choice has no
    derivative: the tensors of the indexer get no gradient from the output, and are trained by a
    loss on the scores ``I_ij``, in the source the Kullback–Leibler divergence between the
    weights of the attention, averaged over its heads, and the softmax of these scores. Unlike the
    reference, a NaN or inf reaches the gradients of what is kept beside it, an inf may come out as
    NaN, and kept scores that are all -inf give zeros, not NaN.

    The indexer looks at all pairs, ``2 n m h_I d_I`` operations and a little more: quadratic, but
    without averages of values. The attention takes ``2 h n k (d_k + d_v)`` forward. Memory
    ``O(h n d_v + n k)`` plus a piece of the scores or of the gathered keys; second
    derivatives hold all n × m weights.

    Source: DeepSeek-AI 2025, arXiv 2512.02556, section 2.1.

    Examples:
        >>> query, key = torch.zeros(1, 1), torch.zeros(3, 1)
        >>> value = torch.tensor([[1.0], [3.0], [7.0]])
        >>> index_query, index_key = torch.ones(1, 1, 1), torch.tensor([[0.0], [1.0], [2.0]])
        >>> indexer_attention(
        ...     query, key, value, index_query, index_key, torch.ones(1, 1), num_keys=2
        ... )
        tensor([[5.]])
    """
    advice = "The indexer chooses the keys; is_causal keeps it from later ones."
    check_neutral(advice, attn_mask=attn_mask)
    call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
    _check_index(index_query, index_key, index_weights, query)
    batch, (n, m) = call.shape[:-3], call.shape[-2:]
    if (index_query.shape[-2], index_key.shape[-2]) != (n, m):
        raise ValueError(
            f"index_query: expected {n} queries and index_key {m} keys, as many as query and key "
            f"have, got {index_query.shape[-2]} and {index_key.shape[-2]}. Each token has both."
        )
    lead = checks.broadcast_shape(index_query.shape[:-3], index_key.shape[:-2], batch)
    if lead != batch:
        raise ValueError(
            f"index_query: expected leading dimensions that broadcast to {batch}, those of query "
            f"before its heads, got {tuple(index_query.shape[:-3])} and index_key's "
            f"{tuple(index_key.shape[:-2])}. All heads share one choice."
        )
    num_keys = check_integer("num_keys", num_keys, 1, _COUNT)
    position = check_past(past, is_causal)
    places, valid = _choice(index_query, index_key, index_weights, num_keys, position)
    return _attend_places(call, places, valid).to(query.dtype)


def _attend_places(call: Call, places: Tensor, valid: Tensor) -> Tensor:
    """Attention over the keys at ``places``, ``(..., n, k)``: a head of keys with its queries."""
    *lead, n, m = call.shape
    *batch, heads = lead or [1]
    dtype, key, value = call.dtype, call.key, call.value
    query = call.query.to(dtype).expand(*lead, n, -1)
    key_heads = key.shape[-3] if key.dim() > 2 else 1
    query = query.reshape(*batch, key_heads, heads // max(key_heads, 1), *query.shape[-2:])
    key, value = (x.to(dtype).expand(*batch, key_heads, m, -1).unsqueeze(-3) for x in (key, value))
    # Where a place does not count, the first serves instead: a key that the row sees anyway.
    places = torch.where(valid, places, places[..., :1])[..., None, None, :, :]
    shared = places, valid[..., None, None, :, :]
    output = attention(ChosenKeys(), call.scale, query, key, value, *shared)
    return output.reshape(*lead, n, value.shape[-1])


def _index_scores(index_query: Tensor, index_key: Tensor, index_weights: Tensor) -> Tensor:
    dtype = torch.promote_types(index_query.dtype, torch.float32)
    q, k, w = (x.to(dtype) for x in (index_query, index_key, index_weights))
    products = torch.relu(q @ k.unsqueeze(-3).mT)  # (..., h_I, n, m)
    return (w[..., None] * products).sum(-3)  # (..., n, m)


def indexer_choice(
    index_query: Tensor,
    index_key: Tensor,
    index_weights: Tensor,
    *,
    num_keys: int,
    is_causal: bool = False,
    past: int = 0,
) -> Mask:
    r"""Which pairs :func:`indexer_attention` computes: those that the indexer ranks first.

        j ∈ the k largest I_ij

    Args, raises and source as there.

    Returns:
        A mask ``(..., n, m)`` of all heads; ``[..., None, :, :]`` of its ``dense()`` has a
        dimension for them.

    Examples:
        >>> index_key = torch.tensor([[3.0], [1.0], [2.0], [0.0]])
        >>> ones = torch.ones(1, 4, 1)
        >>> choice = indexer_choice(ones, index_key, ones[..., 0], num_keys=2, is_causal=True)
        >>> print(choice.picture())
        #...
        ##..
        #.#.
        #.#.
    """
    _check_index(index_query, index_key, index_weights)
    num_keys = check_integer("num_keys", num_keys, 1, _COUNT)
    position = check_past(past, is_causal)
    places, valid = _choice(index_query, index_key, index_weights, num_keys, position)
    return keys_mask(places, valid, index_key.shape[-2])


@torch.no_grad()
def _choice(
    index_query: Tensor, index_key: Tensor, index_weights: Tensor, num_keys: int, past: int | None
) -> tuple[Tensor, Tensor]:
    """Where the best keys of each query are, ``(..., n, k)``, and which of them count."""
    (heads, n), m = index_query.shape[-3:-1], index_key.shape[-2]
    step = max(1, _NUMBERS_AT_ONCE // max(1, heads * m))
    key = torch.arange(m, device=index_key.device)
    found = []
    for start in range(0, max(n, 1), step):
        rows = slice(start, start + step)
        with own_precision(index_query.device):
            scores = _index_scores(
                index_query[..., rows, :], index_key, index_weights[..., rows]
            )  # (..., rows, m)
        if past is not None:
            position = past + torch.arange(n, device=key.device)[rows, None]
            scores = scores.masked_fill(key > position, -torch.inf)
        found.append(top_places(scores, num_keys))
    places, valid = (torch.cat(parts, -2) for parts in zip(*found, strict=True))
    return places, valid


def _check_index(
    index_query: Tensor, index_key: Tensor, index_weights: Tensor, query: Tensor | None = None
) -> None:
    tensors = {
        "index_query": index_query,
        "index_key": index_key,
        "index_weights": index_weights,
    }
    check_tensors(**({} if query is None else {"query": query}), **tensors)
    for name, tensor, least, wanted in (
        ("index_query", index_query, 3, "(..., h_I, n, d_I)"),
        ("index_key", index_key, 2, "(..., m, d_I)"),
    ):
        if tensor.dim() < least:
            raise ValueError(
                f"{name}: expected shape {wanted}, got {tuple(tensor.shape)}. The indexer's "
                "queries have heads, which share its keys."
            )
    if index_key.shape[-1] != index_query.shape[-1]:
        raise ValueError(
            f"index_key: expected last dimension {index_query.shape[-1]}, as index_query has, got "
            f"{index_key.shape[-1]}. Project both to the same d_I."
        )
    if checks.broadcast_shape(index_query.shape[:-3], index_key.shape[:-2]) is None:
        raise ValueError(
            f"index_key: expected leading dimensions that broadcast with "
            f"{tuple(index_query.shape[:-3])}, those of index_query before its heads, got "
            f"{tuple(index_key.shape[:-2])}. Its keys have no dimension of heads."
        )
    if index_weights.shape != index_query.shape[:-1]:
        raise ValueError(
            f"index_weights: expected shape {tuple(index_query.shape[:-1])}, a number for each "
            f"head and query of the indexer, got {tuple(index_weights.shape)}. Weights that a "
            "layer made, (..., n, h_I), become weights.mT."
        )


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index_query: Tensor,
    index_key: Tensor,
    index_weights: Tensor,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    **options: Any,
) -> Tensor:
    """The definition under the mask of what was chosen."""
    chosen = indexer_choice(index_query, index_key, index_weights, **options)
    return scaled_dot_product_attention(
        query,
        key,
        value,
        chosen.dense(query.device)[..., None, :, :],
        scale=scale,
        enable_gqa=enable_gqa,
    )


def _index(given: Example) -> dict[str, Any]:
    """Random numbers in four heads of the indexer."""
    lead = given.query.shape[:-3]
    return {
        "index_query": given.randn(*lead, 4, given.n, 32),
        "index_key": given.randn(*lead, given.m, 32),
        "index_weights": given.randn(*lead, 4, given.n),
        "num_keys": max(1, min(256, given.m // 2)),
    }


def _all_keys(given: Example) -> dict[str, Any]:
    return {
        "index_query": given.query.new_ones(1, given.n, 1),
        "index_key": given.query.new_ones(given.m, 1),
        "index_weights": given.query.new_ones(1, given.n),
        "num_keys": max(1, given.m),
    }


METHOD = Method(
    function=indexer_attention,
    page="variants/selected",
    formula=_formula,
    neutral=("attn_mask", "dropout_p"),
    example=_index,
    plain=_all_keys,
    constants=("attn_mask", "index_query", "index_key", "index_weights"),
    tasks=("chosen",),
)
