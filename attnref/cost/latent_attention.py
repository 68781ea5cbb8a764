"""The cost of multi-head latent attention, in both orders of its products."""

from dataclasses import replace

from attnref.cost.kernels import letters, matmul
from attnref.cost.operations import Cost
from attnref.cost.sizes import Sizes, check_sizes
from attnref.cost.softmax_attention import fused


def latent(
    sizes: Sizes,
    *,
    latent_dim: int,
    rotary_dim: int = 0,
    absorb: bool,
    pairs: int | None = None,
) -> Cost:
    r"""Latent attention, between the latents that are kept and the output of each head.

        bh (2md_c(d_k+d_v) + 2P(d_k+d_r+d_v)) operations in products, or
        bh (2nd_c(d_k+d_v) + 2P(2d_c+d_r)) absorbed

    for P allowed pairs per head, around a core without waste, as :func:`fused`::

        key, value = latent @ key_up.mT, latent @ value_up.mT       # (b, h, m, d)
        output = core([query, query_rotary], [key, key_rotary], value)

        query = query @ key_up                                      # absorbed: (b, h, n, d_c)
        averages = core([query, query_rotary], [latent, key_rotary], latent)
        output = averages @ value_up.mT                             # (b, h, n, d_v)

    Each matrix is read once; the latents once for keys and once for values where these are made,
    and once in the core where not, for its values are part of its keys. What is kept between
    calls is the cache of ``Sizes(…, num_kv_heads=1, d_k=latent_dim + rotary_dim, d_v=0)``.

    Args:
        sizes: of query, key and value of a head, without the rotary part.
        latent_dim: ``d_c``, the numbers of a token's latent.
        rotary_dim: ``d_r``, those of the key that carries its position.
        absorb: whether the matrices go to the query and to the output.
        pairs: allowed pairs of a head, of whatever mask; None means all n m.

    Raises:
        ValueError: for a size below 1 (rotary_dim: below 0), fewer key heads than heads, or more
            pairs than there are.

    Exact for the programs above when each query sees some key and each key is seen.

    Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.

    Examples:
        >>> token = Sizes(n=1, m=8192, d_k=128, d_v=128, num_heads=128)
        >>> made, absorbed = (
        ...     latent(token, latent_dim=512, rotary_dim=64, absorb=absorb).operations.matmul
        ...     for absorb in (False, True)
        ... )
        >>> round(made / absorbed)
        119
    """
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    check_sizes(latent_dim=latent_dim)
    check_sizes(0, rotary_dim=rotary_dim)
    if h != h_kv:
        raise ValueError(
            f"num_kv_heads: expected {sizes.num_heads}, as many as num_heads, got "
            f"{sizes.num_kv_heads}. Each head reads keys and values of its own out of the latent."
        )
    b, heads = sizes.batch, sizes.num_heads
    if not absorb:
        core = replace(sizes, d_k=d_k + rotary_dim)
        shared = (h - b) * m * rotary_dim  # one key for all heads, read once
        return (
            matmul(1, b * m, latent_dim, heads * d_k, size)
            + matmul(1, b * m, latent_dim, heads * d_v, size)
            + fused(core, pairs=pairs)
            + Cost(bytes_read=-size * shared, peak_bytes=size * (h * m * (d_k + d_v) + h * n * d_v))
        )
    core = replace(sizes, d_k=latent_dim + rotary_dim, d_v=latent_dim, num_kv_heads=1)
    return (
        matmul(heads, b * n, d_k, latent_dim, size)
        + fused(core, pairs=pairs)
        + matmul(heads, b * n, latent_dim, d_v, size)
        + Cost(
            bytes_read=-size * b * m * latent_dim,  # read already, as part of the keys
            peak_bytes=size * h * n * (latent_dim + max(latent_dim, d_v)),
        )
    )
