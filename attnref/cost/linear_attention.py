"""The cost of linear attention."""

from attnref.cost.kernels import kernel, letters, matmul
from attnref.cost.operations import Cost
from attnref.cost.sizes import Sizes


def linear(sizes: Sizes) -> Cost:
    r"""Linear attention, from features of queries and keys, without the n × m scores.

        bh (2(n+m)d_k d_v + md_k + 2nd_k + nd_v) operations

    ::

        state = key.mT @ value                          # (b, h, d_k, d_v)
        norm = key.sum(-2)                              # (b, h, 1, d_k)
        total = (query * norm).sum(-1)                  # (b, h, n, 1)
        output = query @ state
        output /= total                                 # (b, h, n, d_v)

    For n = m its products cost what those of ``plain`` do at
    ``n = 2d_k d_v/(d_k+d_v)``, which is d for ``d_k=d_v=d``; less only beyond. Run
    causally, one token after the other, it needs the same operations.

    Args:
        sizes: of query, key and value, with the number of features as d_k; computing the
            features is not counted.

    Raises:
        ValueError: for fewer key heads than heads.

    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 5 and 6.

    Examples:
        >>> from attnref import cost
        >>> for n in (32, 64, 4096):
        ...     sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        ...     plain = cost.of("plain", sizes).operations.matmul
        ...     print(linear(sizes).operations.matmul / plain)
        2.0
        1.0
        0.015625
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    if h != h_kv:
        raise ValueError(
            f"num_kv_heads: expected {sizes.num_heads}, as many as num_heads, got "
            f"{sizes.num_kv_heads}. Each head has a state of its own here."
        )
    queries, outputs, norm, total = h * n * d_k, h * n * d_v, h * d_k, h * n
    return (
        matmul(h, d_k, m, d_v, size)
        + kernel(h * m * d_k, norm, size, elementwise=h * m * d_k)
        + kernel(queries + norm, queries, size, elementwise=queries)
        + kernel(queries, total, size, elementwise=queries)
        + matmul(h, n, d_k, d_v, size)
        + kernel(outputs + total, outputs, size, elementwise=outputs)
        + Cost(peak_bytes=sizes.state_bytes + size * (total + max(queries, outputs)))
    )
