"""The kernels of which programs are made: each reads from main memory and writes to it once."""

from attnref.cost.operations import Cost, Operations
from attnref.cost.sizes import Sizes, check_type, itemsize


def letters(sizes: Sizes) -> tuple[int, int, int, int, int, int, int]:
    """``n, m, d_k, d_v, h, h_kv`` and the bytes of a number, with h and h_kv times the batch."""
    check_type(sizes)
    heads, key_heads = sizes.batch * sizes.num_heads, sizes.batch * sizes.kv_heads
    return sizes.n, sizes.m, sizes.d_k, sizes.d_v, heads, key_heads, itemsize(sizes.dtype)


def kernel(read: int, written: int, size: int, *, elementwise: int) -> Cost:
    """One kernel that reads and writes so many numbers of ``size`` bytes."""
    return Cost(Operations(elementwise=elementwise), size * read, size * written)


def pass_over(count: int, size: int, *, elementwise: int = 0, exponentials: int = 0) -> Cost:
    """One kernel over a tensor, with so many operations for each of its ``count`` numbers."""
    operations = Operations(elementwise=elementwise, exponentials=exponentials) * count
    return Cost(operations, size * count, size * count)


def matmul(batch: int, rows: int, inner: int, columns: int, size: int) -> Cost:
    """One kernel: ``batch`` products of ``(rows, inner)`` and ``(inner, columns)``."""
    return Cost(
        Operations(matmul=2 * batch * rows * inner * columns),
        size * batch * inner * (rows + columns),
        size * batch * rows * columns,
    )


def linear_layer(tokens: int, d_in: int, d_out: int, size: int, bias: bool) -> Cost:
    """One kernel: a product with a matrix of parameters, which starts from the bias."""
    return matmul(1, tokens, d_in, d_out, size) + Cost(bytes_read=size * d_out * bias)
