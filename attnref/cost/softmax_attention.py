"""The cost of softmax attention: as it is written, without waste, and tile by tile."""

from attnref.cost.kernels import letters, matmul, pass_over
from attnref.cost.operations import Cost, Operations
from attnref.cost.pairs import Window, tiles
from attnref.cost.sizes import Sizes, check_sizes


def plain(sizes: Sizes, *, masked: bool = False) -> Cost:
    r"""The formula as it is written, with all n × m scores in memory.

        bh (2nm(d_k+d_v) + 6nm) operations

    ::

        scores = query @ key.mT                         # (b, h, n, m)
        scores = scores * scale
        scores = scores.masked_fill(forbidden, -inf)    # only when masked
        weights = softmax(scores)                       # max, subtract, exp, sum, divide
        output = weights @ value                        # (b, h, n, d_v)

    A mask saves nothing here: forbidden scores are computed too, and masking moves bytes.
    Query heads that share a key head are its rows (a view), so that each key is read once.

    Args:
        sizes: of query, key and value.
        masked: whether there is a bool mask ``(n, m)``, one for all heads.

    Exact for the program above. Training adds :func:`plain_backward`.

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    Examples:
        >>> sizes = Sizes(n=2048, m=2048, d_k=128, d_v=128)
        >>> plain(sizes).peak_bytes / sizes.score_bytes
        2.0
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    rows, scores = h // h_kv * n, h * n * m
    cost = matmul(h_kv, rows, d_k, m, size) + pass_over(scores, size, elementwise=1)
    if masked:
        cost += pass_over(scores, size) + Cost(bytes_read=n * m)
    cost += pass_over(scores, size, elementwise=4, exponentials=1)
    cost += matmul(h_kv, rows, m, d_v, size)
    return cost + Cost(peak_bytes=size * (scores + max(scores, h * n * d_v)))


def plain_backward(sizes: Sizes, *, masked: bool = False) -> Cost:
    r"""The gradients of :func:`plain`, from the weights that its forward pass kept.

        bh (4nm(d_k+d_v) + 5nm) operations

    ::

        d_weights, d_value = grad @ value.mT, weights.mT @ grad
        d_scores = weights * (d_weights - (weights * d_weights).sum(-1))    # one kernel
        d_scores = d_scores.masked_fill(forbidden, 0)                       # only when masked
        d_scores = d_scores * scale
        d_query, d_key = d_scores @ key, d_scores.mT @ query

    Arguments as in :func:`plain`. The peak includes the weights and the output, which the
    forward pass left, so that ``plain(…) + plain_backward(…)`` is a whole step of training.

    Examples:
        >>> sizes = Sizes(n=64, m=64, d_k=16, d_v=16)
        >>> plain_backward(sizes).operations.matmul / plain(sizes).operations.matmul
        2.0
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    rows, scores = h // h_kv * n, h * n * m
    cost = matmul(h_kv, rows, d_v, m, size) + matmul(h_kv, m, rows, d_v, size)
    cost += pass_over(scores, size, elementwise=4) + Cost(bytes_read=size * scores)
    if masked:
        cost += pass_over(scores, size) + Cost(bytes_read=n * m)
    cost += pass_over(scores, size, elementwise=1)
    cost += matmul(h_kv, rows, m, d_k, size) + matmul(h_kv, m, rows, d_k, size)
    kept = h * n * d_v + h_kv * m * d_v  # output and d_value
    last = scores + h * n * d_k + h_kv * m * d_k
    return cost + Cost(peak_bytes=size * (kept + max(3 * scores, last)))


def fused(sizes: Sizes, *, pairs: int | None = None) -> Cost:
    r"""Softmax attention without waste: allowed pairs only, each tensor moved once.

        bh (2P(d_k+d_v) + 4P + n(d_k+d_v)) operations
        b (hn+h_kv m)(d_k+d_v) numbers moved

    for P allowed pairs per head. Nothing but the output leaves the chip, which a real kernel
    nears as its tiles grow (:func:`blockwise`). Row by row, with the keys that it may see::

        scores = keys @ (scale * query_row)             # (allowed,)
        powers = exp(scores - scores.max())
        output_row = (powers @ values) / powers.sum()   # (d_v,)

    Args:
        sizes: of query, key and value.
        pairs: allowed pairs of a head, of whatever mask; None means all n m.

    Raises:
        ValueError: for more pairs than there are.

    Exact for the program above when each query sees some key and each key is seen.

    Examples:
        >>> from attnref.cost.pairs import allowed_pairs
        >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64)
        >>> causal = fused(sizes, pairs=allowed_pairs(512, 512, window=(None, 0)))
        >>> causal.operations.matmul / fused(sizes).operations.matmul
        0.5009765625
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    pairs = n * m if pairs is None else pairs
    check_sizes(0, pairs=pairs)
    if pairs > n * m:
        raise ValueError(
            f"pairs: expected at most n m = {n * m}, got {pairs}. Count those of one head, for "
            "example int(mask[0, 0].sum())."
        )
    operations = Operations(
        matmul=2 * h * pairs * (d_k + d_v),
        elementwise=h * (3 * pairs + n * (d_k + d_v)),
        exponentials=h * pairs,
    )
    read, written = h * n * d_k + h_kv * m * (d_k + d_v), h * n * d_v
    return Cost(operations, size * read, size * written, peak_bytes=size * written)


def blockwise(
    sizes: Sizes,
    *,
    block: tuple[int, int],
    window: Window = (None, None),
    return_lse: bool = False,
) -> Cost:
    r"""Exact attention tile by tile, with a running maximum and sum: memory linear in n.

        bh (2T(d_k+d_v) + 4T + R(d_v+5) + n(d_k+d_v)) operations

    with T pairs and R rows in the tiles that are left (:func:`tiles`)::

        for rows in blocks of queries:
            q = scale * query[rows]; top, total, out = -inf, 0, 0
            for columns in blocks of keys that rows may see:
                k, v = key[columns], value[columns]
                scores = q @ k.mT
                new = maximum(top, scores.max(-1))
                powers, shrink = exp(scores - new), exp(top - new)
                total = total * shrink + powers.sum(-1)
                out = out * shrink + powers @ v         # accumulated by the product
                top = new
            output[rows] = out / total
            lse[rows] = top + log(total)                # only with return_lse

    ``query``, ``key``, ``value``, ``output`` and ``lse`` are in main memory, all else is
    held for one tile. So queries are read once, but keys and values once for each block of
    queries: the larger ``block[0]``, the fewer bytes are moved.

    Args:
        sizes: of query, key and value.
        block: queries and keys of a tile.
        window: as in :func:`tiles`; those without an allowed pair are skipped.
        return_lse: also write the logarithm of each row's sum, for the backward pass or
            to merge with attention over other keys.

    Raises:
        ValueError, TypeError: as :func:`tiles`.

    Exact for the program above with all heads in step, tiles changed in place and one of them
    whole; a kernel that accumulates half precision in float32 holds up to twice as much per tile.

    Source: Rabe and Staats 2021, arXiv 2112.05682; Dao 2023, arXiv 2307.08691, algorithm 1.

    Examples:
        >>> sizes = Sizes(n=8192, m=8192, d_k=128, d_v=128)
        >>> plain(sizes).peak_bytes // blockwise(sizes, block=(128, 128)).peak_bytes
        118
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    left = tiles(n, m, block=block, window=window)
    block_q, block_k = min(block[0], n), min(block[1], m)
    operations = Operations(
        matmul=2 * h * left.pairs * (d_k + d_v),
        elementwise=h * (3 * left.pairs + left.rows * (d_v + 4) + n * (d_k + d_v + return_lse)),
        exponentials=h * (left.pairs + left.rows + n * return_lse),
    )
    read, written = h * n * d_k + h_kv * left.columns * (d_k + d_v), h * n * (d_v + return_lse)
    tile = h * block_q * (d_k + d_v + block_k + 4) + h_kv * block_k * (d_k + d_v)
    return Cost(operations, size * read, size * written, peak_bytes=size * (written + tile))


def blockwise_backward(
    sizes: Sizes, *, block: tuple[int, int], window: Window = (None, None)
) -> Cost:
    r"""The gradients of :func:`blockwise`, from scores that are computed again.

        b (h(2T(3d_k+2d_v) + 4T + 2nd_v) + 2h_kv md_k) operations

    with five products per tile, where :func:`plain_backward` has four::

        delta = (grad * output).sum(-1)                 # block by block
        d_query = 0
        for columns in blocks of keys:
            k, v = scale * key[columns], value[columns]; k_grad, v_grad = 0, 0
            for rows in blocks of queries that may see columns:
                q, g = query[rows], grad[rows]
                powers = exp(q @ k.mT - lse[rows])
                v_grad += powers.mT @ g                 # accumulated by the product
                d_scores = (g @ v.mT - delta[rows]) * powers
                d_query[rows] += d_scores @ k
                k_grad += d_scores.mT @ q
            d_key[columns], d_value[columns] = scale * k_grad, v_grad

    Arguments, errors and exactness as in :func:`blockwise`. The peak includes ``output`` and
    ``lse``, which the forward pass left, so that ``blockwise(…, return_lse=True) +
    blockwise_backward(…)`` is a whole step of training.

    Source: Dao 2023, arXiv 2307.08691, algorithm 2.

    Examples:
        >>> sizes, block = Sizes(n=256, m=256, d_k=64, d_v=64), (64, 64)
        >>> forward = blockwise(sizes, block=block)
        >>> backward = blockwise_backward(sizes, block=block)
        >>> backward.operations.matmul / forward.operations.matmul
        2.5
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    left = tiles(n, m, block=block, window=window)
    block_q, block_k = min(block[0], n), min(block[1], m)
    operations = Operations(
        matmul=2 * h * left.pairs * (3 * d_k + 2 * d_v),
        elementwise=h * (3 * left.pairs + 2 * n * d_v) + 2 * h_kv * m * d_k,
        exponentials=h * left.pairs,
    )
    keys = h_kv * m * (d_k + d_v)  # key and value, and as much for their gradients
    read = h * (2 * n * d_v + left.rows * (2 * d_k + d_v + 2)) + keys
    written = h * (n + n * d_k + left.rows * d_k) + keys
    held = h * n * (d_v + 2 + d_k) + keys  # output, lse, delta and the gradients
    tile = h * block_q * (d_k + d_v + 2 * block_k) + 2 * h_kv * block_k * (d_k + d_v)
    return Cost(operations, size * read, size * written, peak_bytes=size * (held + tile))
