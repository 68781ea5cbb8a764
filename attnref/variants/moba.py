r"""Mixture of block attention: each query chooses the blocks whose mean key matches it best.

    g_iJ = q_i·k̄_J
    o_i = Σ_(j ∈ N_i) p_ij v_j
    N_i = {j : ⌊j/B⌋ among the best g_iJ}

where p are the softmax weights of query i over the keys of those blocks.
"""

from typing import Any

import torch
from torch import Tensor

from attnref._autocast import own_precision
from attnref._door import check_neutral, enter
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

__all__ = ["moba_attention", "moba_choice"]

_COUNT = "It is the number of blocks that each query keeps, its own included."
_BLOCK_SIZE = "It is the number of keys of a block."


def moba_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    block_size: int,
    num_blocks: int,
    past: int = 0,
) -> Tensor:
    r"""Softmax attention over the ``num_blocks`` blocks of keys that a gate prefers.

        o_i = Σ_(j ∈ N_i) p_ij v_j
        N_i = {j : ⌊j/B⌋ ∈ the best J by g_iJ = q_i·1/B Σ_(j ∈ J) k_j}

    If causal, the query's own block counts as the best and is seen up to the query; blocks after it
    are never chosen. The result, forward and backward, is that of
    :func:`attnref.scaled_dot_product_attention` under the mask of :func:`moba_choice`; with all
    blocks chosen, that of the definition itself.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: query i sees the keys j <= past + i.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``. The gate has none.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head; each
            query head chooses for itself.
        block_size: the number B of keys in a block; the last may have fewer, and its mean is taken
            over those.
        num_blocks: the number of blocks that a query keeps, its own included, or all where
            there are fewer. Which of several equal gates is taken at the cutoff is unspecified.
        past: the number of keys before the first query's own, m - n for a step with a cache; 0
            unless causal.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros for a query that sees no key.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in float32 or wider, for the choice that was made. The choice has no
    derivative: no gradient passes through the gate, and queries and keys learn only from the
    blocks that were kept. A NaN in a key makes its block the best. Unlike the reference, a NaN
    or inf reaches every query that reads its block, and the gradients of all that these read.

    The gate takes ``2 n b d_k`` operations for b blocks, in addition to ``2 p (d_k + d_v)`` for p
    chosen pairs forward and ``2 p (3 d_k + 2 d_v)`` backward. Memory ``O(n (b + d_v) + m d_k)``;
    second derivatives hold all n × m weights.

    Source: Lu et al. 2025, arXiv 2502.13189, section 2.2.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]])
        >>> value = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> moba_attention(query, key, value, block_size=2, num_blocks=1)
        tensor([[6.]])
    """
    advice = "The gate chooses the blocks; is_causal keeps it from later ones."
    check_neutral(advice, attn_mask=attn_mask)
    call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
    block_size = check_integer("block_size", block_size, 1, _BLOCK_SIZE)
    num_blocks = check_integer("num_blocks", num_blocks, 1, _COUNT)
    position = check_past(past, is_causal)
    lead = call.shape[:-2]
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors())
    chosen = _choice(q, k, block_size, num_blocks, position)  # (..., n, blocks)
    plan = ChosenBlocks(block_size, position)
    return attention(plan, call.scale, q, k, v, chosen).to(query.dtype)


def moba_choice(
    query: Tensor,
    key: Tensor,
    *,
    block_size: int,
    num_blocks: int,
    is_causal: bool = False,
    past: int = 0,
    enable_gqa: bool = False,
) -> Mask:
    r"""Which pairs :func:`moba_attention` computes: those of the blocks that each query chose.

        ⌊j/B⌋ ∈ the best J by q_i·k̄_J

    Args, raises and source as there.

    Returns:
        A mask ``(..., n, m)``, one for each head.

    Examples:
        >>> key = torch.tensor([[0.0], [0.0], [2.0], [2.0], [1.0], [1.0]])
        >>> print(moba_choice(key + 1, key, block_size=2, num_blocks=2, is_causal=True).picture())
        #.....
        ##....
        ###...
        ####..
        ..###.
        ..####
    """
    call = enter(query, key, key, is_causal=is_causal, enable_gqa=enable_gqa)
    block_size = check_integer("block_size", block_size, 1, _BLOCK_SIZE)
    num_blocks = check_integer("num_blocks", num_blocks, 1, _COUNT)
    position = check_past(past, is_causal)
    q, k, _ = (x.expand(*call.shape[:-2], *x.shape[-2:]) for x in call.tensors())
    chosen = _choice(q, k, block_size, num_blocks, position)
    return blocks_mask(chosen, block_size, key.shape[-2], position)


@torch.no_grad()
def _choice(
    query: Tensor, key: Tensor, block_size: int, num_blocks: int, past: int | None
) -> Tensor:
    """The blocks of each query, bool ``(..., n, blocks)``."""
    with own_precision(query.device):
        gate = query @ block_means(key, block_size).mT  # (..., n, blocks)
    if past is not None:
        position = past + torch.arange(gate.shape[-2], device=gate.device)
        own = position[:, None] // block_size  # (n, 1)
        block = torch.arange(gate.shape[-1], device=gate.device)
        gate = gate.masked_fill(block == own, torch.inf).masked_fill(block > own, -torch.inf)
    places, valid = top_places(gate, num_blocks)
    return torch.zeros_like(gate, dtype=torch.bool).scatter(-1, places, valid)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    **options: Any,
) -> Tensor:
    """The definition under the mask of what was chosen."""
    chosen = moba_choice(query, key, **options)
    shared = options.get("enable_gqa", False)
    return scaled_dot_product_attention(query, key, value, chosen, scale=scale, enable_gqa=shared)


def _some_blocks(given: Example) -> dict[str, Any]:
    """Few small blocks, and four of 64 where there are many keys."""
    return (
        {"block_size": 64, "num_blocks": 4}
        if given.m >= 256
        else {"block_size": 2, "num_blocks": 2}
    )


def _all_blocks(given: Example) -> dict[str, Any]:
    return {"block_size": 2, "num_blocks": given.all_keys}


METHOD = Method(
    function=moba_attention,
    page="variants/selected",
    formula=_formula,
    neutral=("attn_mask", "dropout_p"),
    example=_some_blocks,
    plain=_all_blocks,
    isolates=(),
    tasks=("chosen",),
)
