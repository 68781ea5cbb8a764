"""The cost of a bias for each distance: as a vector, or as the table that it stands for."""

from attnref.cost.kernels import letters
from attnref.cost.operations import Cost, Operations
from attnref.cost.sizes import Sizes
from attnref.cost.softmax_attention import fused


def distance_bias(sizes: Sizes, *, table: bool = False, pairs: int | None = None) -> Cost:
    r"""Softmax attention whose scores get a number for their distance, of each head.

        h (n+m-1) numbers read beside q, k, v
        with a table h (n+m-1) + h nm and h nm written

    beside :func:`fused`, and one addition for each of the P allowed pairs::

        biases = bias[:, j - i + n - 1]                 # (h, n, m), with a table only
        output = core(query, key, value, biases)        # or, without one, core(…, bias)

    Args:
        sizes: of query, key and value.
        table: whether the bias of all pairs is written down first, once for all of a batch.
        pairs: allowed pairs of a head, of whatever mask; None means all n m. A table has all.

    Raises:
        ValueError: for more pairs than there are.

    Exact for the programs above when each query sees some key and each key is seen.

    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1.

    Examples:
        >>> sizes = Sizes(n=8192, m=8192, d_k=64, d_v=64, num_heads=12)
        >>> [distance_bias(sizes, table=table).peak_bytes // 2**20 for table in (True, False)]
        [3096, 24]
    """
    n, m, _, _, h, _, size = letters(sizes)
    core = fused(sizes, pairs=pairs)
    added = Operations(elementwise=h * (n * m if pairs is None else pairs))
    distances, every = sizes.num_heads * (n + m - 1), sizes.num_heads * n * m
    if not table:
        return core + Cost(added, bytes_read=size * distances)
    return core + Cost(
        added,
        bytes_read=size * (distances + every),
        bytes_written=size * every,
        peak_bytes=size * every + core.peak_bytes,
    )
