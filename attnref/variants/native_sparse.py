r"""Native sparse attention: a summary of every block, the best blocks in full, and a window.

    o_i = g_i1 Σ_J p̄_iJ v̄_J + g_i2 Σ_(j ∈ N_i) p_ij v_j + g_i3 Σ_(i-W<j ≤ i) p'_ij v_j

The weights that a query gives to the summaries say which blocks it reads in full.
"""

import math
from functools import partial
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
from attnref.variants._chosen import (
    ChosenBlocks,
    block_means,
    blocks_mask,
    check_past,
    top_places,
)
from attnref.variants._tiled import attention
from attnref.variants.blockwise import blockwise

__all__ = ["native_sparse_attention", "native_sparse_choice"]

_FIRST, _PREVIOUS, _OWN = 2.0, 3.0, 4.0  # more than a weight, so that these come before all others


def native_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gates: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    block_size: int,
    num_blocks: int,
    window: int,
    compressed_key: Tensor | None = None,
    compressed_value: Tensor | None = None,
    past: int = 0,
) -> Tensor:
    r"""Three causal attentions, summed with gates: to summaries, to chosen blocks, to a window.

        o_i = g_i1 Σ_J p̄_iJ v̄_J + g_i2 Σ_(j ∈ N_i) p_ij v_j + g_i3 Σ_(i-W<j ≤ i) p'_ij v_j

    Queries see the summary of a block from its last token on. The blocks read in full,
    ``N_i``, are the query's own, the one before it, the first, and then those with the largest
    ``p̄_iJ``, averaged over the heads that share a key head: those choose together. The
    second term is :func:`attnref.scaled_dot_product_attention` under the mask of
    :func:`native_sparse_choice`, the third under :func:`attnref.masks.sliding_window`.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more; query i is the token
            past + i.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        gates: broadcasts to ``(..., n, 3)``: the weights of summaries, blocks and window for
            each query and head. Any numbers, same dtype and device; in the source, a sigmoid
            produces them.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head, and
            the choice.
        block_size: the number B of keys in a block, for blocks that are summarised and blocks that
            are read.
        num_blocks: the number of blocks that a query reads, its own included, or all where
            there are fewer. Which of several equal weights is taken at the cutoff is unspecified.
        window: the number W of keys of the third term, the query's own included.
        compressed_key: ``(..., ceil(m / B), d_k)``, a layer's own summaries of the
            blocks; None means the mean of each.
        compressed_value: ``(..., ceil(m / B), d_v)``, likewise.
        past: the number of keys before the first query's own, m - n for a step with a cache.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``. A term without keys is zero, such as
        that of the summaries before the first block is full.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in float32 or wider, for the choice that was made. The choice has no
    derivative, but the weights it is based on have one in the first term, through which queries,
    keys and summaries learn what is worth reading. Here the second and the third term share keys
    and values; the source gives each of the three its own. A NaN or inf reaches queries that may
    not attend to it, as in :func:`attnref.blockwise_attention`.

    For b blocks and p chosen pairs the products take ``n b (4 d_k + 2 d_v)`` operations, with the
    weights computed once to choose and once to average, ``2 p (d_k + d_v)``, and those of
    ``blockwise_attention`` under a window. Memory ``O(n (b + d_v) + m d_k)``; second derivatives
    hold all n × m weights.

    Source: Yuan et al. 2025, arXiv 2502.11089, sections 3.2 and 3.3.

    Examples:
        >>> tokens, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> gates = torch.tensor([1.0, 10.0, 100.0])
        >>> options = {"block_size": 2, "num_blocks": 1, "window": 1}
        >>> native_sparse_attention(tokens, tokens, value, gates, **options).T
        tensor([[110., 322., 552., 764.]])
    """
    advice = "It is causal without, and chooses its blocks by the weights of their summaries."
    check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    call = enter(query, key, value, None, dropout_p, False, scale, enable_gqa)
    check_tensors(query=query, gates=gates)
    *lead, n, _ = call.shape
    whole = (*lead, n, 3)
    if gates.shape[-1:] != (3,) or checks.broadcast_shape(gates.shape, whole) != whole:
        raise ValueError(
            f"gates: expected a shape that broadcasts to {whole}, three numbers for each query and "
            f"head, got {tuple(gates.shape)}. They are for summaries, blocks and window."
        )
    block_size, num_blocks, position = _check_inputs(block_size, num_blocks, past)
    window = check_integer("window", window, 1, "It is the number of keys, the query's own too.")
    summaries = _summaries(call, compressed_key, compressed_value, block_size, position)
    return _three_terms(call, summaries, gates, block_size, num_blocks, window, position)


def _three_terms(
    call: Call,
    summaries: Call,
    gates: Tensor,
    block_size: int,
    num_blocks: int,
    window: int,
    past: int,
) -> Tensor:
    *lead, n, m = call.shape
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors())
    plan = ChosenBlocks(block_size, past)
    chosen = _choice(summaries, block_size, num_blocks, past)  # (..., h, n, blocks)
    near = Mask((n, m), partial(_is_between, past - window, past))
    terms = (
        blockwise(summaries),
        attention(plan, call.scale, q, k, v, chosen),
        blockwise(Call(q, k, v, near, False, call.scale, False, call.shape)),
    )  # each (..., n, d_v)
    shares = torch.split(gates.to(call.dtype), 1, -1)  # each (..., n, 1)
    first, second, third = (share * term for share, term in zip(shares, terms, strict=True))
    return (first + second + third).to(call.query.dtype)


def native_sparse_choice(
    query: Tensor,
    key: Tensor,
    *,
    block_size: int,
    num_blocks: int,
    compressed_key: Tensor | None = None,
    past: int = 0,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Mask:
    r"""Which pairs the second term of :func:`native_sparse_attention` computes.

        ⌊j/B⌋ ∈ {own, previous, 0} ∪ the best J by p̄_iJ
        j ≤ i

    Args, raises and source as there.

    Returns:
        A mask ``(..., n, m)``, one for each query head.

    Examples:
        >>> tokens = torch.tensor([[1.0], [0.0], [3.0], [3.0], [0.0], [1.0], [1.0], [1.0]])
        >>> print(native_sparse_choice(tokens, tokens, block_size=2, num_blocks=2).picture())
        #.......
        ##......
        ###.....
        ####....
        ..###...
        ..####..
        ....###.
        ....####
    """
    call = enter(query, key, key, scale=scale, enable_gqa=enable_gqa)
    block_size, num_blocks, position = _check_inputs(block_size, num_blocks, past)
    summaries = _summaries(call, compressed_key, None, block_size, position)
    chosen = _choice(summaries, block_size, num_blocks, position)
    return blocks_mask(chosen, block_size, key.shape[-2], position)


@torch.no_grad()
def _choice(summaries: Call, block_size: int, num_blocks: int, past: int) -> Tensor:
    """The blocks of each query, bool ``(..., h, n, blocks)``; heads that share keys share them."""
    n, blocks = summaries.shape[-2:]
    query, key, _ = summaries.tensors()
    full = summaries.mask_tensor()
    assert full is not None
    with own_precision(query.device):
        scores = (query * summaries.scale) @ key.mT  # (..., h, n, blocks)
    scores = scores.masked_fill(~full, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1).masked_fill(~full, 0.0)
    group = 1
    if summaries.enable_gqa:
        group = query.shape[-3] // summaries.key.shape[-3]
        weights = torch.unflatten(weights, -3, (-1, group)).mean(-3)  # (..., h_kv, n, blocks)
    own = (past + torch.arange(n, device=query.device))[:, None] // block_size  # (n, 1)
    block = torch.arange(blocks, device=query.device)
    for which, rank in ((block == 0, _FIRST), (block == own - 1, _PREVIOUS), (block == own, _OWN)):
        weights = weights.masked_fill(which, rank)
    places, valid = top_places(weights.masked_fill(block > own, -torch.inf), num_blocks)
    chosen = torch.zeros_like(weights, dtype=torch.bool).scatter(-1, places, valid)
    return chosen if group == 1 else chosen.repeat_interleave(group, -3)


def _summaries(
    call: Call, key: Tensor | None, value: Tensor | None, block_size: int, past: int
) -> Call:
    """The first term as a call, in the dtype of computation: a key and a value for each block."""
    key = _block_vectors("compressed_key", key, call.key, call, block_size)
    value = _block_vectors("compressed_value", value, call.value, call, block_size)
    n, blocks = call.shape[-2], key.shape[-2]
    full = Mask((n, blocks), partial(_is_full, block_size, past))
    query = call.query.to(call.dtype)
    shape = (*call.shape[:-1], blocks)
    return Call(query, key, value, full, False, call.scale, call.enable_gqa, shape)


def _block_vectors(
    name: str, given: Tensor | None, tokens: Tensor, call: Call, block_size: int
) -> Tensor:
    """One vector for each block, ``(..., blocks, d)``: what a layer made, or the mean."""
    if given is None:
        return block_means(tokens.to(call.dtype), block_size)
    check_tensors(query=call.query, **{name: given})
    shape = (*tokens.shape[:-2], math.ceil(tokens.shape[-2] / block_size), tokens.shape[-1])
    if given.shape != shape:
        raise ValueError(
            f"{name}: expected shape {shape}, a vector for each block of {block_size}, got "
            f"{tuple(given.shape)}. A block that is not full yet has one too, which no query sees."
        )
    return given.to(call.dtype)


def _is_full(block_size: int, past: int, i: Tensor, j: Tensor) -> Tensor:
    """Whether query i comes with the last token of block j, or after it."""
    return (j + 1) * block_size <= i + past + 1


def _is_between(first: int, last: int, i: Tensor, j: Tensor) -> Tensor:
    return (j > i + first) & (j <= i + last)


def _check_inputs(block_size: int, num_blocks: int, past: int) -> tuple[int, int, int]:
    block_size = check_integer("block_size", block_size, 1, "It is the number of keys of a block.")
    advice = "It is the number of blocks that each query reads, its own included."
    num_blocks = check_integer("num_blocks", num_blocks, 1, advice)
    return block_size, num_blocks, check_past(past, is_causal=True) or 0


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gates: Tensor,
    *,
    block_size: int,
    num_blocks: int,
    window: int,
    compressed_key: Tensor | None = None,
    compressed_value: Tensor | None = None,
    past: int = 0,
    **options: Any,
) -> Tensor:
    """The definition three times: of the means of whole blocks, of those chosen, of a window."""
    n, m = query.shape[-2], key.shape[-2]
    keys, values = (
        block_means(side, block_size) if own is None else own
        for side, own in ((key, compressed_key), (value, compressed_value))
    )
    last = torch.arange(keys.shape[-2], device=query.device) * block_size + block_size - 1
    position = past + torch.arange(n, device=query.device)[:, None]
    place = torch.arange(m, device=query.device)
    near = (place <= position) & (place > position - window)
    chosen = native_sparse_choice(
        query,
        key,
        block_size=block_size,
        num_blocks=num_blocks,
        compressed_key=compressed_key,
        past=past,
        **options,
    )
    first, second, third = torch.split(gates.expand(*query.shape[:-1], 3), 1, -1)  # (..., n, 1)
    return (
        first * scaled_dot_product_attention(query, keys, values, last <= position, **options)
        + second * scaled_dot_product_attention(query, key, value, chosen, **options)
        + third * scaled_dot_product_attention(query, key, value, near, **options)
    )


def _gates(given: Example) -> dict[str, Any]:
    """Few small blocks, and four of 64 where there are many keys."""
    gates = torch.tensor([0.5, 0.3, 0.2]).to(given.query)
    block_size, num_blocks, window = (64, 4, 64) if given.m >= 256 else (2, 2, 3)
    sizes = {"block_size": block_size, "num_blocks": num_blocks, "window": window}
    return {"gates": gates, "past": given.m - given.n, **sizes}


def _window_alone(given: Example) -> dict[str, Any]:
    gates = torch.tensor([0.0, 0.0, 1.0]).to(given.query)
    return {
        "gates": gates,
        "block_size": 2,
        "num_blocks": 1,
        "window": max(given.n, given.all_keys),
    }


METHOD = Method(
    function=native_sparse_attention,
    page="variants/selected",
    formula=_formula,
    neutral=("attn_mask", "is_causal", "dropout_p"),
    example=_gates,
    plain=_window_alone,
    lengths="newest",
    causal=True,
    isolates=(),
    tasks=("chosen",),
)
