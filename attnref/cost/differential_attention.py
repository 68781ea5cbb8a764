"""The cost of differential attention: two softmaxes over one set of values."""

from attnref.cost.kernels import kernel, letters
from attnref.cost.operations import Cost
from attnref.cost.sizes import Sizes
from attnref.cost.softmax_attention import fused


def differential(sizes: Sizes, *, pairs: int | None = None) -> Cost:
    r"""Two attentions to the same values, and the difference of what they give.

        bh (4P(d_k+d_v) + 8P + 2n(d_k+d_v) + 2nd_v) operations

    for P allowed pairs per head, twice those of :func:`fused` and the difference::

        first = core(query_1, key_1, value)             # (b, h, n, d_v)
        second = core(query_2, key_2, value)            # (b, h, n, d_v)
        output = first - factor * second                # in one kernel

    A model keeps its products with queries and keys if it has half as many heads of twice the
    width, as the paper does: then ``sizes`` has the d_k of a usual head, twice its d_v, and half
    its number of heads, and only the products with values have become twice as many.

    Args:
        sizes: of query, key and value, with the width d_k of one half.
        pairs: allowed pairs of a head, of whatever mask; None means all n m.

    Raises:
        ValueError: for more pairs than there are.

    Exact for the program above when each query sees some key and each key is seen; what the
    factor itself costs is not counted.

    Source: Ye et al. 2024, arXiv 2410.05258, section 2.1.

    Examples:
        >>> usual = fused(Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=8))
        >>> other = differential(Sizes(n=512, m=512, d_k=64, d_v=128, num_heads=4))
        >>> other.operations.matmul / usual.operations.matmul
        1.5
    """
    n, _, _, d_v, h, _, size = letters(sizes)
    numbers = h * n * d_v
    return (
        fused(sizes, pairs=pairs) * 2
        + kernel(2 * numbers, numbers, size, elementwise=2 * numbers)
        + Cost(peak_bytes=3 * size * numbers)
    )
