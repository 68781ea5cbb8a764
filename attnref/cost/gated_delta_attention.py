"""The cost of the gated delta family, in chunks and token by token."""

from typing import Literal, get_args

from attnref.cost.kernels import letters
from attnref.cost.operations import Cost, Operations
from attnref.cost.sizes import Sizes, check_sizes

Decay = Literal["head", "component"]


def gated_delta(
    sizes: Sizes,
    *,
    log_decay: Decay | None = "head",
    beta: bool = True,
    block_size: int | None = 64,
) -> Cost:
    r"""Gated delta attention: chunks of tokens with a state between them, or token by token.

        bh (2nB(d_k+d_v) + 4nd_k d_v) operations in products
        bh (nB(2d_k+d_v) - nd_v + 2nd_k d_v) more with beta

    for chunks of B tokens, the last one filled up. With a decay for each component, a square takes
    ``n(B-1)d_k`` in place of ``2nBd_k``, for blocks meet only what is before them. Token by
    token, ``block_size=None``::

        state = exp(log_decay)[:, None] * state         # (d_k, d_v)
        value = beta * (value - key @ state)            # only with beta
        state = state + outer(key, value)
        output = (scale * query) @ state                # (d_v,)

    and a chunk does as :mod:`attnref.variants.gated_delta` does, of which each operation is
    counted. The bytes are those of a kernel that keeps a chunk and the state on the chip: arguments
    and output once, the state, in float32 at least, written at the end, and read if others were
    before.

    Args:
        sizes: of query, key and value, with n tokens; the m - n before them, whatever their
            number, are in a state.
        log_decay: a decay per head and token, per component too, or None.
        beta: whether the state is corrected, by a rate per token.
        block_size: tokens per chunk, a power of two; None means one after the other.

    Raises:
        ValueError: for fewer key heads than heads, another decay, or a size of chunks that is no
            power of two.

    Source: Yang et al. 2024, arXiv 2406.06484, section 3; 2412.06464, section 3.3.

    Examples:
        >>> from attnref import cost
        >>> for n in (512, 8192):
        ...     sizes = Sizes(n=n, m=n, d_k=128, d_v=128)
        ...     pairs = cost.allowed_pairs(n, n, window=(None, 0))
        ...     softmax = cost.of("fused", sizes, pairs=pairs)
        ...     ratio = gated_delta(sizes).operations.matmul / softmax.operations.matmul
        ...     print(f"{ratio:.3f}")
        1.184
        0.074
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    if h != h_kv:
        raise ValueError(
            f"num_kv_heads: expected {sizes.num_heads}, as many as num_heads, got "
            f"{sizes.num_kv_heads}. Each head has a state of its own here."
        )
    if log_decay is not None and log_decay not in get_args(Decay):
        raise ValueError(
            f"log_decay: expected 'head', 'component' or None, got {log_decay!r}. It says how many "
            "decays a token has."
        )
    if block_size is None:
        operations = _token(d_k, d_v, log_decay, beta) * n
    else:
        check_sizes(block_size=block_size)
        if block_size & (block_size - 1):
            raise ValueError(
                f"block_size: expected a power of two, got {block_size}. Take "
                f"{1 << block_size.bit_length()}."
            )
        block = min(block_size, 1 << (n - 1).bit_length())
        chunks = -(-n // block)
        operations = _chunk(block, d_k, d_v, log_decay, beta) * chunks
        operations += Operations(elementwise=n * d_k)  # the scale
    decays = {None: 0, "head": 1, "component": d_k}[log_decay]
    read, written = size * n * (2 * d_k + d_v + decays + beta), size * n * d_v
    state = max(4, size) * d_k * d_v
    return Cost(
        operations * h,
        h * (read + state * (m > n)),
        h * (written + state),
        peak_bytes=h * (written + state),
    )


def _token(d_k: int, d_v: int, log_decay: Decay | None, beta: bool) -> Operations:
    decays = {None: 0, "head": 1, "component": d_k}[log_decay]
    state = d_k * d_v
    return Operations(
        matmul=4 * state + 2 * beta * state,
        elementwise=d_k + state + state * (decays > 0) + 2 * beta * d_v,
        exponentials=decays,
    )


def _chunk(block: int, d_k: int, d_v: int, log_decay: Decay | None, beta: bool) -> Operations:
    """Of ``block`` tokens, without the scale."""
    squares, rows, state = 1 + beta, (1 + beta) * block * d_k, d_k * d_v
    triangle = block * (block - 1)
    matmul = 2 * block * block * d_v + (4 + 2 * beta) * block * state + beta * triangle * d_v
    # Keys and values times beta, what the state says taken off, both parts of the output, S.
    elementwise = beta * block * (d_k + 2 * d_v) + block * d_v + state
    exponentials = 0
    if log_decay != "component":
        matmul += squares * 2 * block * block * d_k
    if log_decay == "head":
        # Sums from each row to the later ones and from the start; factors on squares and tokens.
        elementwise += block * block + block + squares * block * block + rows + block * d_k + state
        exponentials += block * block + block
    if log_decay == "component":
        matmul += squares * triangle * d_k
        levels = block.bit_length() - 1
        # The diagonals; the rows' own decay; at each level rows, keys and sums of all blocks.
        elementwise += 2 * rows + rows + levels * (rows + block * d_k) + (block - 1) * d_k + state
        exponentials += block * d_k + 2 * (block - 1) * d_k + d_k
    return Operations(matmul, elementwise, exponentials)
