"""The cost of attention to keys and values that are stored with few bits."""

from dataclasses import replace
from math import ceil

from attnref.cost.operations import Cost, Operations
from attnref.cost.sizes import Sizes, check_sizes, itemsize
from attnref.cost.softmax_attention import fused


def quantized(
    sizes: Sizes,
    *,
    bits: int,
    step_bits: int = 32,
    group_size: int | None = None,
    pairs: int | None = None,
) -> Cost:
    r"""Softmax attention to keys and values of few bits, which become wide numbers on the chip.

        b h_kv m (w(d_k+d_v) + w_Δ(⌈d_k/g⌉ + ⌈d_v/g⌉)) bits read for them

    for numbers of w bits, of which g share a step of ``w_Δ`` bits; one multiplication for
    each number, and all else as :func:`fused`::

        keys = key_numbers * key_steps                  # (m, d_k), on the chip
        values = value_numbers * value_steps            # (m, d_v), on the chip
        output = fused(query, keys, values)

    Args:
        sizes: of query, key and value, in the dtype of the query and the output.
        bits: w, of a stored number.
        step_bits: of a step.
        group_size: the number g of components with a common step; None means all of a token.
        pairs: allowed pairs of a head, of whatever mask; None means all n m.

    Raises:
        ValueError: for a size below 1, or more pairs than there are.

    Exact for the program above when each query sees some key and each key is seen. To round the
    tokens is not counted: each is rounded once, when it comes.

    Examples:
        >>> step = Sizes(n=1, m=32768, d_k=128, d_v=128, num_heads=32, num_kv_heads=8)
        >>> round(quantized(step, bits=8).bytes_read / fused(step).bytes_read, 3)
        0.258
    """
    check_sizes(bits=bits, step_bits=step_bits)
    if group_size is not None:
        check_sizes(group_size=group_size)
    wide, size = fused(sizes, pairs=pairs), itemsize(sizes.dtype)
    tokens, widths = sizes.batch * sizes.kv_heads * sizes.m, (sizes.d_k, sizes.d_v)
    numbers = tokens * sum(widths)
    steps = tokens * sum(ceil(width / (group_size or width)) for width in widths if width)
    stored = ceil((bits * numbers + step_bits * steps) / 8)
    return replace(
        wide,
        operations=wide.operations + Operations(elementwise=numbers),
        bytes_read=wide.bytes_read - size * numbers + stored,
    )
