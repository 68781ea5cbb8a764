"""Bytes that a rank sends, by the way in which a sequence is shared among ranks."""

from typing import NamedTuple

from attnref.cost.context_parallel import AGREEMENT
from attnref.cost.kernels import letters
from attnref.cost.sizes import Sizes, check_sizes, check_type
from attnref.layouts import check_layout, check_ranks, cut, length, rank_positions


class Sent(NamedTuple):
    """Bytes that a rank sends to others in a forward and in a backward pass.

    Examples:
        >>> Sent(forward=8, backward=16).backward
        16
    """

    forward: int
    backward: int


METHODS = ("ring", "gather", "ulysses", "mesh", "split_kv")


def sent(
    method: str,
    sizes: Sizes,
    *,
    ranks: int,
    heads: int | None = None,
    rank: int = 0,
    layout: str = "zigzag",
) -> Sent:
    r"""Bytes that a rank sends, forward and backward, by a method of :mod:`attnref.distributed`.

        n/(p_r p_h) (p_h-1)/p_h (h d_k + h_kv(d_k+d_v) + h d_v)
        + (p_r-1)/p_r n h_kv/p_h (d_k+d_v) numbers forward

    in a mesh, for lengths that its ``p = p_r p_h`` ranks divide: ``"ring"`` is one with
    ``p_h = 1``, ``"ulysses"`` one with ``p_r = 1``. ``"gather"`` sends

        (p-1) max_r m_r b h_kv (d_k+d_v) numbers forward

    and backward as many again, for they are not kept, and the gradients of the keys of all others.
    A step of decoding by ``"split_kv"`` sends, however long the cache is,

        (p-1) bhn (d_v+2) numbers, of 32 bits at least.

    Args:
        method: ``"ring"``, ``"gather"``, ``"ulysses"``, ``"mesh"`` or ``"split_kv"``.
        sizes: of the whole sequence, n queries and m keys.
        ranks: p, how many share it.
        heads: ``p_h``, the ranks that divide the heads, of a mesh alone; it divides the number
            of ranks and that of key heads.
        rank: whose bytes, counted through the mesh row by row.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``. To split_kv neither this nor the
            rank matters.

    Returns:
        :class:`Sent`, with 0 bytes backward for split_kv, which has no gradients.

    Raises:
        ValueError: for a method, a rank or a layout that does not exist, heads that are not
            divided, or a mesh without ``heads``, which the other methods do not take.

    Exact without a mask, with what ranks tell each other to agree.

    Source: Jacobs et al. 2023, arXiv 2309.14509; Fang and Zhao 2024, arXiv 2405.07719.

    Examples:
        >>> sizes = Sizes(n=2**20, m=2**20, d_k=128, d_v=128, num_heads=32, num_kv_heads=8)
        >>> for p_h in (1, 2, 4, 8):
        ...     found = sent("mesh", sizes, ranks=64, heads=p_h).forward
        ...     print(p_h, f"{found / 2**30:.2f} GiB")
        1 7.88 GiB
        2 4.19 GiB
        4 2.34 GiB
        8 1.42 GiB
    """
    check_type(sizes)
    check_ranks(ranks, rank)
    check_layout(layout)
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}.")
    if (heads is None) == (method == "mesh"):
        expected = "the ranks that divide the heads" if heads is None else f"None for {method}"
        raise ValueError(f"heads: expected {expected}, got {heads}. A mesh has rows of so many.")
    if method == "gather":
        return _gather(sizes, ranks, rank, layout)
    if method == "split_kv":
        return Sent(_split_kv(sizes, ranks), 0)
    if heads is None:
        heads = 1 if method == "ring" else ranks
    return mesh(sizes, rows_of(sizes, ranks, heads), heads, rank, layout)


def mesh(sizes: Sizes, ring: int, heads: int, rank: int, layout: str) -> Sent:
    """Of a mesh, and of its two edges: a ring has rows of one rank, Ulysses is a single row."""
    n, m, d_k, d_v, h, h_kv, size = letters(sizes)
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


def rows_of(sizes: Sizes, ranks: int, heads: int) -> int:
    """How many rows there are in which ``heads`` ranks divide the heads: the length of a ring."""
    check_sizes(heads=heads)
    for name, number in (("num_kv_heads", sizes.kv_heads), ("ranks", ranks)):
        if number % heads:
            raise ValueError(
                f"heads: expected a divisor of {name} = {number}, got {heads}. Ranks that divide "
                "the heads get as many each."
            )
    return ranks // heads


def _gather(sizes: Sizes, ranks: int, rank: int, layout: str) -> Sent:
    _, m, d_k, d_v, _, h_kv, size = letters(sizes)
    parts = [length(rank_positions(m, ranks=ranks, rank=r, layout=layout)) for r in range(ranks)]
    one, told = h_kv * (d_k + d_v), AGREEMENT * (ranks - 1)
    gathered = size * (ranks - 1) * max(parts) * one
    return Sent(gathered + told, gathered + max(4, size) * (m - parts[rank]) * one + told)


def _split_kv(sizes: Sizes, ranks: int) -> int:
    n, _, _, d_v, h, _, size = letters(sizes)
    return (ranks - 1) * (max(4, size) * h * n * (d_v + 2) + AGREEMENT)


def _part(n: int, ring: int, heads: int, row: int, place: int, layout: str) -> tuple[int, int]:
    """How many positions a row of a mesh holds, and one of its ranks."""
    part = rank_positions(n, ranks=ring, rank=row, layout=layout)
    return length(part), length(cut(part, ranks=heads, rank=place))
