"""The cost of attention to keys that are chosen for each query, and of choosing them."""

import math
from dataclasses import replace

from attnref.cost.kernels import letters
from attnref.cost.operations import Cost, Operations
from attnref.cost.pairs import allowed_pairs
from attnref.cost.sizes import Sizes, check_sizes
from attnref.cost.softmax_attention import fused


def block_pairs(n: int, *, block_size: int, num_blocks: int) -> int:
    r"""How many causal pairs are left when each query reads so many blocks, its own included.

        Σ_(i<n) (B min(k-1, ⌊i/B⌋) + (i mod B) + 1)

    For single keys, that is, blocks of one, it is
    ``allowed_pairs(n, n, window=(num_blocks - 1, 0))``: as many as under a window of that width.

    Args:
        n: number of queries and of keys.
        block_size: the number B of keys of a block.
        num_blocks: the number k of blocks that a query reads, or all where there are fewer.

    Returns:
        The count, exactly.

    Raises:
        ValueError: for a size below 1.

    Examples:
        >>> block_pairs(6, block_size=2, num_blocks=2)
        17
    """
    check_sizes(n=n, block_size=block_size, num_blocks=num_blocks)
    return sum(
        block_size * min(num_blocks - 1, i // block_size) + i % block_size + 1 for i in range(n)
    )


def moba(sizes: Sizes, *, block_size: int, num_blocks: int) -> Cost:
    r"""Causal attention to the blocks that a gate prefers, and the gate.

        bh (2 G d_k + 2P(d_k+d_v)) operations in products
        G = Σ_(i<n) ⌊i/B⌋

    for the P pairs of :func:`block_pairs`. Of the blocks before its own, whose means are
    computed once, a query takes the best by the gate; then as :func:`fused`, over their keys::

        means = key.unflatten(-2, (-1, B)).sum(-2) / B         # (b, h_kv, n / B, d_k)
        gates = means[:own] @ query_row                        # (own,), own = i // B

    Args:
        sizes: of query, key and value, with n = m a multiple of the block size.
        block_size: the number B of keys of a block.
        num_blocks: how many of them a query reads, its own included.

    Raises:
        ValueError: for a size below 1, n other than m or no multiple of the block size.

    Exact for the program above, in which gates do not leave the chip.

    Source: Lu et al. 2025, arXiv 2502.13189, section 2.2.

    Examples:
        >>> long = Sizes(n=32768, m=32768, d_k=128, d_v=128)
        >>> some = moba(long, block_size=512, num_blocks=8).operations.matmul
        >>> round(fused(long, pairs=32768 * 32769 // 2).operations.matmul / some, 2)
        4.51
    """
    n, _, d_k, _, h, h_kv, size = letters(sizes)
    pairs = block_pairs(n, block_size=block_size, num_blocks=num_blocks)
    _check_blocks(sizes, block_size)
    blocks = n // block_size
    means = h_kv * blocks * d_k
    return fused(sizes, pairs=pairs) + Cost(
        Operations(
            matmul=2 * h * _gates(n, block_size) * d_k,
            elementwise=h_kv * n * d_k + means,
        ),
        bytes_read=size * (h_kv * n * d_k + h * n * d_k + means),
        bytes_written=size * means,
        peak_bytes=size * (means + h * n * sizes.d_v),
    )


def indexer(sizes: Sizes, *, num_keys: int, index_heads: int, index_dim: int) -> Cost:
    r"""Causal attention to the tokens that an indexer ranks first, and the indexer.

        b (2R h_I d_I + 2hP(d_k+d_v)) operations in products
        R = n(n+1) / 2, P = Σ_(i<n) min(k, i+1)

    Row by row, for all heads; ranking only compares, and counts as no operation. The keys that a
    query chose are read for it, once for the heads that share them::

        products = relu(index_key[: i + 1] @ index_query_row.mT)      # (i + 1, h_I)
        places = (index_weights_row * products).sum(-1).topk(k)       # written and read: int64
        scores = key[places] @ (scale * query_row)                    # then as fused

    Args:
        sizes: of query, key and value, with n = m.
        num_keys: the number k of keys that a query keeps.
        index_heads: ``h_I``.
        index_dim: ``d_I``.

    Raises:
        ValueError: for a size below 1, or n other than m.

    Exact for the program above, in which the scores of a row do not leave the chip.

    Source: DeepSeek-AI 2025, arXiv 2512.02556, section 2.1.

    Examples:
        >>> long = Sizes(n=131072, m=131072, d_k=576, d_v=512, num_heads=128, num_kv_heads=1)
        >>> some = indexer(long, num_keys=2048, index_heads=64, index_dim=128).operations.matmul
        >>> round(fused(long, pairs=131072 * 131073 // 2).operations.matmul / some, 1)
        11.1
    """
    n, _, d_k, d_v, _, h_kv, size = letters(sizes)
    check_sizes(num_keys=num_keys, index_heads=index_heads, index_dim=index_dim)
    _check_square(sizes)
    b, ranked = sizes.batch, n * (n + 1) // 2
    kept = allowed_pairs(n, n, window=(num_keys - 1, 0))
    core = fused(sizes, pairs=kept)
    again = h_kv * (kept - n) * (d_k + d_v)  # fused reads each key once
    index = b * n * (index_heads * index_dim + index_dim + index_heads)
    return core + Cost(
        Operations(
            matmul=2 * b * ranked * index_heads * index_dim,
            elementwise=3 * b * ranked * index_heads,
        ),
        bytes_read=size * (index + again) + 8 * b * kept,
        bytes_written=8 * b * kept,
        peak_bytes=core.peak_bytes + 8 * b * kept,
    )


def native_sparse(sizes: Sizes, *, block_size: int, num_blocks: int, window: int) -> Cost:
    r"""Causal attention to summaries, to the blocks that they point at, and to a window.

        bh (2 G (2d_k + d_v) + 2(P + P_W)(d_k+d_v)) operations in products

    for the G pairs of a query and a summary, the P pairs of :func:`block_pairs` and the ``P_W``
    pairs of a window. Scores of summaries are computed twice, to choose and to average; each
    average is :func:`fused` over its own keys, and a gate multiplies it::

        output = gates[0] * first + gates[1] * second + gates[2] * third

    Args:
        sizes: of query, key and value, with n = m a multiple of the block size.
        block_size: the number B of keys of a block.
        num_blocks: how many of them a query reads, its own included.
        window: the number W of keys, the query's own included.

    Raises:
        ValueError: for a size below 1, n other than m or no multiple of the block size.

    Exact in its products. The operations of choosing by the weights and of making the summaries, by
    whatever means, are left out, and so are the bytes of both.

    Source: Yuan et al. 2025, arXiv 2502.11089, section 3.2.

    Examples:
        >>> long = Sizes(n=65536, m=65536, d_k=192, d_v=128, num_heads=64, num_kv_heads=4)
        >>> some = native_sparse(long, block_size=64, num_blocks=16, window=512).operations.matmul
        >>> round(fused(long, pairs=65536 * 65537 // 2).operations.matmul / some, 1)
        14.2
    """
    n, _, d_k, d_v, h, _, size = letters(sizes)
    check_sizes(window=window)
    pairs = block_pairs(n, block_size=block_size, num_blocks=num_blocks)
    _check_blocks(sizes, block_size)
    full = _gates(n, block_size) + n // block_size  # a block's last query sees its summary, too
    summaries = fused(replace(sizes, m=n // block_size), pairs=full)
    near = fused(sizes, pairs=allowed_pairs(n, n, window=(window - 1, 0)))
    choosing = Operations(matmul=2 * h * full * d_k)
    output = h * n * d_v
    gated = Cost(
        Operations(elementwise=5 * output),
        size * (3 * output + 3 * h * n),
        size * output,
        peak_bytes=4 * size * output,
    )
    return summaries + fused(sizes, pairs=pairs) + near + Cost(choosing) + gated


def _gates(n: int, block_size: int) -> int:
    """The pairs of a query and a block before its own."""
    blocks = n // block_size
    return block_size * math.comb(blocks, 2)


def _check_square(sizes: Sizes) -> None:
    if sizes.n != sizes.m:
        raise ValueError(
            f"m: expected {sizes.n}, as many keys as queries, got {sizes.m}. A step with a cache "
            'is cost.of("fused", cost.Sizes(n=1, …), pairs=…), beside what it costs to choose.'
        )


def _check_blocks(sizes: Sizes, block_size: int) -> None:
    _check_square(sizes)
    if sizes.n % block_size:
        raise ValueError(
            f"n: expected a multiple of block_size={block_size}, got {sizes.n}. The count is for "
            "whole blocks."
        )
