"""Bytes that a rank sends, by the way in which a sequence is shared among ranks."""

from typing import NamedTuple

from attnref.cost.context_parallel import AGREEMENT
from attnref.cost.kernels import letters
from attnref.cost.sizes import Sizes, check_sizes
from attnref.layouts import check_layout, check_ranks, cut, held, length


class Sent(NamedTuple):
    """Bytes that a rank sends to others in a forward and in a backward pass.

    Examples:
        >>> Sent(forward=8, backward=16).backward
        16
    """

    forward: int
    backward: int


def mesh_bytes(
    sizes: Sizes, *, ring: int, heads: int, rank: int = 0, layout: str = "zigzag"
) -> Sent:
    r"""Of :func:`attnref.distributed.mesh_attention`, and of its two edges.

    .. math:: \frac{n}{p_r p_h}\,\frac{p_h-1}{p_h}\,\bigl(h d_k + h_{kv}(d_k+d_v) + h d_v\bigr) +
              \frac{p_r-1}{p_r}\, n\,\frac{h_{kv}}{p_h}(d_k+d_v) \text{ numbers forward}

    for lengths that the ranks divide. ``heads=1`` is :func:`attnref.distributed.ring_attention`;
    ``ring=1`` is :func:`attnref.distributed.ulysses_attention`, in contiguous parts if their
    lengths differ.

    Args:
        sizes: of the whole sequence, n queries and m keys.
        ring: :math:`p_r`, the ranks of a ring.
        heads: :math:`p_h`, the ranks that divide the heads; it divides their number.
        rank: whose bytes, counted through the mesh row by row.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.

    Raises:
        ValueError: for a rank or a layout that does not exist, or heads that are not divided.

    Exact without a mask, with what ranks tell each other to agree.

    Source: Jacobs et al. 2023, arXiv 2309.14509; Fang and Zhao 2024, arXiv 2405.07719.

    Examples:
        >>> sizes = Sizes(n=2**20, m=2**20, d_k=128, d_v=128, num_heads=32, num_kv_heads=8)
        >>> for p_h in (1, 2, 4, 8):
        ...     sent = mesh_bytes(sizes, ring=64 // p_h, heads=p_h).forward
        ...     print(p_h, f"{sent / 2**30:.2f} GiB")
        1 7.88 GiB
        2 4.19 GiB
        4 2.34 GiB
        8 1.42 GiB
    """
    check_ranks(ring * heads, rank)
    check_layout(layout)
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
    if sizes.kv_heads % heads:
        raise ValueError(
            f"heads: expected a divisor of num_kv_heads = {sizes.kv_heads}, got {heads}. Ranks "
            "that divide the heads get as many each."
        )
    row, place = divmod(rank, heads)
    rows, own_rows = _part(n, ring, heads, row, place, layout)
    columns, own_columns = _part(m, ring, heads, row, place, layout)
    behind, _ = _part(m, ring, heads, (row + 1) % ring, 0, layout)
    wide, one = max(4, size), h_kv * (d_k + d_v)
    # Turned into heads, and back: each rank keeps its share of its own part.
    out = (heads - 1) * (own_rows * h * d_k + own_columns * one) // heads
    back = (rows - own_rows) * h * d_v // heads
    out_back = (heads - 1) * own_rows * h * d_v // heads
    back_back = ((rows - own_rows) * h * d_k + (columns - own_columns) * one) // heads
    passed, summed = (m - behind) * one // heads, (m - columns) * one // heads
    told = AGREEMENT * (heads - 1)
    return Sent(
        size * (out + back + passed) + told + AGREEMENT * (ring - 1) * heads,
        size * (out_back + back_back + passed) + wide * summed + told + AGREEMENT * (ring - 1),
    )


def gather_bytes(sizes: Sizes, *, ranks: int, rank: int = 0, layout: str = "zigzag") -> Sent:
    r"""Of :func:`attnref.distributed.gather_attention`.

    .. math:: (p-1)\,\max_r m_r\; b h_{kv} (d_k+d_v) \text{ numbers forward}

    Backward as many again, for they are not kept, and the gradients of the keys of all others.
    Arguments and errors as :func:`mesh_bytes`.

    Exact, with what ranks tell each other to agree.

    Examples:
        >>> gather_bytes(Sizes(n=64, m=64, d_k=16, d_v=16), ranks=4)
        Sent(forward=6216, backward=12360)
    """
    check_ranks(ranks, rank)
    check_layout(layout)
    _, m, d_k, d_v, _, h_kv, size = letters(sizes)
    parts = [length(held(m, ranks=ranks, rank=r, layout=layout)) for r in range(ranks)]
    one, told = h_kv * (d_k + d_v), AGREEMENT * (ranks - 1)
    gathered = size * (ranks - 1) * max(parts) * one
    return Sent(gathered + told, gathered + max(4, size) * (m - parts[rank]) * one + told)


def split_kv_bytes(sizes: Sizes, *, ranks: int) -> int:
    r"""Of a step of :func:`attnref.distributed.split_kv_attention`, however long the cache is.

    .. math:: (p-1)\,bhn\,(d_v+2) \text{ numbers, of 32 bits at least}

    Exact, with what ranks tell each other to agree.

    Examples:
        >>> split_kv_bytes(Sizes(n=1, m=2**20, d_k=128, d_v=128, num_heads=32), ranks=8)
        116648
    """
    check_sizes(ranks=ranks)
    n, _, _, d_v, h, _, size = letters(sizes)
    return (ranks - 1) * (max(4, size) * h * n * (d_v + 2) + AGREEMENT)


def _part(n: int, ring: int, heads: int, row: int, place: int, layout: str) -> tuple[int, int]:
    """How many positions a row of a mesh holds, and one of its ranks."""
    part = held(n, ranks=ring, rank=row, layout=layout)
    return length(part), length(cut(part, ranks=heads, rank=place))
