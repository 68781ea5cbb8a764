r"""Hierarchical attention: near keys one by one, far keys by means over dyadic blocks.

The farther the keys, the longer the runs that one mean stands for, so that each query meets
``O(log n)`` numbers. A run of w keys with means ``k̄`` and ``v̄`` counts as

    Σ_(j ∈ run) e^(c q·k_j) v_j → w e^(c q·k̄) v̄
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref._autocast import own_precision
from attnref._door import enter
from attnref.checks import Shape, check_integer
from attnref.masks import Mask
from attnref.record import Example, Method

__all__ = ["hierarchical_attention"]


def hierarchical_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    block_size: int = 64,
    num_means: int = 4,
) -> Tensor:
    r"""Self-attention in ``O(n log n)``: far keys share the score of their mean.

        o_i = Σ_j p̃_ij v_j
        p̃_ij ∝ e^(s̃_ij)
        s̃_ij = c q_i·k_j in its block or the next
        s̃_ij = c q_i·k̄_(R(i,j)) otherwise

    The sequence is cut in blocks of B tokens, these are joined in pairs, and the pairs in pairs.
    A key belongs to the first level at which its block and the query's are no neighbours while
    the blocks that contain them are. There each block, of ``2^l B`` tokens, is
    divided in r runs, and ``R(i,j)`` is the run of key j.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., n, d_k)``, same dtype and device, as many as queries.
        value: ``(..., n, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: which keys count, bool or a mask of :mod:`attnref.masks`, ``(..., 1, n)``, such
            as ``masks.padding(lengths, n)``: the others
            are left out of the means too.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i.
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        block_size: the number B of tokens in the smallest blocks.
        num_means: the number r of runs in a block, a divisor of ``block_size``: with as many as
            that, blocks of the first level are still exact.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros for a query that the mask leaves
        without keys.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding for n <= 2 B, and where the keys of each run are equal. Otherwise, if no
    ``s̃_ij`` of a row is off by more than ``δ_i``,

        TV(p_i, p̃_i) ≤ tanh(δ_i/2)
        |o_i - õ_i| ≤ tanh(δ_i/2) diam(V)

    and ``δ_i ≤ c |q_i|max_j|k_j-k̄_(R(i,j))|``: small where keys change slowly
    along the sequence. On data without such structure the error is about that of the mean of
    all values, and no method that reads less than all pairs can promise more. A NaN or inf that the
    mask does not leave out reaches the queries of its block and its neighbours, the earlier ones
    too, and all that meet its means. Half precision is
    computed in float32.

    Time ``2 n L (d_k + d_v)`` operations with ``L = 3 (B + r log₂(n/2B))`` columns per query, a
    third less if causal; memory ``O(n (d_k + d_v))``, with gradients or on a GPU
    ``O(n L (1 + (d_k + d_v)/B))``.

    Source: near and far as in Greengard and Rokhlin 1987, doi 10.1016/0021-9991(87)90140-9; for
    attention, with another far field, Zhu and Soricut 2021, arXiv 2107.11906.

    Examples:
        >>> query, value = torch.zeros(5, 1), torch.arange(5.0)[:, None]
        >>> key = torch.tensor([[0.0], [0.0], [0.0], [3.0], [3.0]])  # runs of equal keys
        >>> hierarchical_attention(query + 1, key, value, block_size=1, num_means=1)[0]
        tensor([3.3263])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    block_size, num_means = _check_sizes(call.shape, block_size, num_means)
    query, key, value = call.tensors()
    counts = call.key_mask()  # (..., n, 1)
    if counts is not None:
        key, value = key.masked_fill(~counts, 0.0), value.masked_fill(~counts, 0.0)
    if call.shape[-1] == 0:
        return (query @ key.mT @ value).to(call.query.dtype)
    with own_precision(query.device):
        output = _attend(query * call.scale, key, value, counts, is_causal, block_size, num_means)
    return output.to(call.query.dtype)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    is_causal: bool,
    block_size: int,
    num_means: int,
) -> Tensor:
    """The output, ``(..., n, d_v)``; ``counts`` says which keys have a weight."""
    n = query.shape[-2]
    present = (value.new_ones(n, 1) if counts is None else counts).to(value.dtype)  # (..., n, 1)
    blocks = -(-n // block_size)
    queries = torch.unflatten(_pad(query, blocks * block_size), -2, (blocks, block_size))
    near, allowed = _near_keys(n, blocks, block_size, is_causal, query.device)
    far = _far_runs(blocks, num_means, is_causal, query.device)  # (blocks, runs)
    shrink = 0.5 ** (n - 1).bit_length()  # a power of two: no sum of n numbers overflows
    run_key, run_value, count = (
        _run_sums(tokens, blocks, block_size, num_means)
        for tokens in (key * shrink, value * shrink, present)
    )  # (..., rows, d_k), (..., rows, d_v), (..., rows, 1)
    some = count.clamp(min=1) * shrink
    run_key, run_value = run_key / some, run_value / some  # sums become means
    # A mean counts as often as it has keys, and not at all if it has none.
    near_bias = present.squeeze(-1)[..., near][..., None, :].log()  # (..., blocks, 1, columns)
    near_bias = near_bias.masked_fill(~allowed, -torch.inf)
    far_bias = count.squeeze(-1).log()[..., far][..., None, :]  # (..., blocks, 1, runs)
    rows = near_bias.shape[-2]
    bias = torch.cat(
        [near_bias, far_bias.expand(*far_bias.shape[:-2], rows, -1)], -1
    )  # (..., blocks, 1 or B, columns)
    blank = None if counts is None else bias.amax(-1, keepdim=True) == -torch.inf

    # One block of queries and its columns fit a processor's cache. With gradients each piece
    # would send back a tensor of the whole size, and a GPU is only filled by all of them.
    alone = query.device.type == "cpu" and not torch.is_grad_enabled()
    step = 1 if alone else blocks
    outputs = []
    for start in range(0, blocks, step):
        part = slice(start, start + step)
        near_key, near_value, far_key, far_value = (
            torch.unflatten(
                tokens.index_select(-2, rows[part].flatten()), -2, (step, rows.shape[-1])
            )
            for tokens, rows in ((key, near), (value, near), (run_key, far), (run_value, far))
        )  # (..., step, columns, d)
        q = queries[..., part, :, :]  # (..., step, B, d_k)
        scores = torch.cat([q @ near_key.mT, q @ far_key.mT], -1) + bias[..., part, :, :]
        if blank is None:
            weights = torch.softmax(scores, -1)  # (..., step, B, columns)
        else:  # a row of -inf alone has no softmax: it takes zeros, and gives zeros
            none = blank[..., part, :, :]
            weights = torch.softmax(scores.masked_fill(none, 0.0), -1).masked_fill(none, 0.0)
        split = near.shape[-1]
        outputs.append(weights[..., :split] @ near_value + weights[..., split:] @ far_value)
    return torch.cat(outputs, -3).flatten(-3, -2)[..., :n, :]  # (..., n, d_v)


def _near_keys(
    n: int, blocks: int, size: int, is_causal: bool, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The keys of its own block and its neighbours, and which of them count.

    ``(blocks, columns)`` and ``(blocks, 1, columns)``, causal ``(blocks, B, columns)``.
    """
    first = torch.arange(blocks, device=device)[:, None] * size  # (blocks, 1)
    column = torch.arange(-size, size if is_causal else 2 * size, device=device)  # (columns,)
    rows = first + column  # (blocks, columns)
    allowed = ((rows >= 0) & (rows < n))[:, None]  # (blocks, 1, columns)
    if is_causal:
        allowed = allowed & (column <= torch.arange(size, device=device)[:, None])
    return rows.clamp(0, n - 1), allowed


def _far_runs(blocks: int, num_means: int, is_causal: bool, device: torch.device) -> Tensor:
    """The rows of :func:`_run_sums` that each block of queries meets, ``(blocks, columns)``."""
    node = torch.arange(blocks, device=device)[:, None]  # (blocks, 1)
    run = torch.arange(num_means, device=device)  # (r,)
    rows = [node[:, :0]]
    first = 1
    for _ in range(_depth(blocks)):
        # Of the six children of the parent and its neighbours, those that are no neighbours.
        offsets = [torch.where(node % 2 == 1, -3, 3), torch.full_like(node, -2)]
        index = node + torch.cat(offsets if is_causal else [*offsets, -offsets[1]], -1)
        met = (index >= 0) & (index < blocks)  # (blocks at the bottom, 3), causal 2
        if is_causal:
            met = met & (index < node)
        row = first + index[..., None] * num_means + run  # (blocks at the bottom, 3, r)
        rows.append(row.masked_fill(~met[..., None], 0).flatten(1))
        first += blocks * num_means
        node, blocks = node // 2, -(-blocks // 2)
    return torch.cat(rows, -1)


def _run_sums(tokens: Tensor, blocks: int, block_size: int, num_means: int) -> Tensor:
    """Sums of tokens over the runs, ``(..., rows, d)``: a row of zeros, then level by level.

    Each level has ``num_means`` runs per block, and blocks of twice the size of those before.
    """
    levels = [torch.zeros_like(tokens[..., :1, :])]
    sums, length = tokens, block_size // num_means
    for _ in range(_depth(blocks)):
        filled = _pad(sums, blocks * num_means * length)
        sums = torch.unflatten(filled, -2, (-1, length)).sum(-2)
        levels.append(sums)  # (..., blocks * r, d)
        blocks, length = -(-blocks // 2), 2
    return torch.cat(levels, -2)


def _pad(tokens: Tensor, length: int) -> Tensor:
    missing = length - tokens.shape[-2]
    return pad(tokens, (0, 0, 0, missing)) if missing else tokens


def _depth(blocks: int) -> int:
    """How many levels have blocks that are no neighbours: each has half of those before it."""
    return max(0, (blocks - 1).bit_length() - 1)


def _check_sizes(shape: Shape, block_size: int, num_means: int) -> tuple[int, int]:
    n, m = shape[-2:]
    if n != m:
        raise ValueError(
            f"key: expected {n} tokens, as query has, got {m}. Near and far are told by position: "
            "query and key must come from the same sequence."
        )
    advice = "Blocks of 64 tokens with 4 means are usual."
    block_size = check_integer("block_size", block_size, 1, advice)
    num_means = check_integer("num_means", num_means, 1, advice)
    if block_size % num_means:
        raise ValueError(
            f"num_means: expected a divisor of block_size={block_size}, got {num_means}. A block "
            "is divided into runs of equal length."
        )
    if block_size > n:  # one block holds all tokens, and no means are taken
        block_size = num_means = max(n, 1)
    return block_size, num_means


def _levels(given: Example) -> dict[str, Any]:
    """Several levels at any length; from 256 tokens on, with the default sizes."""
    block_size = 2 if given.n < 256 else 64
    return {"block_size": block_size, "num_means": min(4, block_size) if given.n >= 256 else 1}


METHOD = Method(
    function=hierarchical_attention,
    page="variants/hierarchical",
    formula=None,
    example=_levels,
    plain=lambda given: {"block_size": given.all_keys, "num_means": 1},
    lengths="equal",
    masks="keys",
    isolates=("mask",),
    tasks=("dense", "causal"),
)
