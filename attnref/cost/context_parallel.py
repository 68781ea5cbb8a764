"""The cost of attention over a sequence that several ranks share: of one of them."""

from dataclasses import dataclass

from attnref.cost.kernels import letters
from attnref.cost.operations import Operations
from attnref.cost.pairs import Tiles
from attnref.cost.sizes import Sizes, check_type
from attnref.layouts import check_layout, check_ranks, length, rank_positions, visible_pairs

AGREEMENT = 24  # bytes that a rank tells each other one at the beginning of a pass


@dataclass(frozen=True)
class RankCost:
    """What one rank spends: arithmetic, bytes that it sends, bytes that it holds.

    Attributes:
        operations: counted as in the rest of :mod:`attnref.cost`.
        bytes_sent: to other ranks; it receives about as many.
        held_bytes: the most that it holds from one block of keys to the next, beside its own part
            of query, key and value. What the kernel of a tile holds meanwhile is not in it.

    ``a + b`` is a and then b, as with :class:`Cost`.

    Examples:
        >>> passes = RankCost(Operations(matmul=2), 8, 5) + RankCost(Operations(matmul=5), 16, 9)
        >>> passes.operations.matmul, passes.bytes_sent, passes.held_bytes
        (7, 24, 9)
    """

    operations: Operations
    bytes_sent: int
    held_bytes: int

    def __add__(self, other: "RankCost") -> "RankCost":
        return RankCost(
            self.operations + other.operations,
            self.bytes_sent + other.bytes_sent,
            max(self.held_bytes, other.held_bytes),
        )


def rank_pairs(
    n: int,
    m: int | None = None,
    *,
    ranks: int,
    rank: int,
    source: int | None = None,
    layout: str = "zigzag",
    is_causal: bool = True,
) -> Tiles:
    r"""The pairs of one rank's queries with the keys of another, or with all of them.

        Σ_(i ∈ R) (i + 1) pairs, if causal and n = m

    for the positions R that the rank holds. A layout's balance is the mean over ranks of this,
    divided by its maximum: the ring waits for the slowest, in each step.

    Args:
        n: number of queries, all ranks together.
        m: number of keys; None means n.
        ranks: how many share the sequence.
        rank: whose queries.
        source: whose keys; None means those of all ranks.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.
        is_causal: query i sees the keys j <= i.

    Returns:
        :class:`Tiles`: rectangles or triangles of neighbouring positions that the rank holds, and
        their allowed pairs.

    Raises:
        ValueError: for a rank or a layout that does not exist.

    Exact, in time ``O(ranks)``.

    Examples:
        >>> [rank_pairs(16, ranks=2, rank=r, layout="contiguous").pairs for r in (0, 1)]
        [36, 100]
        >>> [rank_pairs(16, ranks=2, rank=r, layout="zigzag").pairs for r in (0, 1)]
        [68, 68]
    """
    check_ranks(ranks, rank)
    check_layout(layout)
    queries = rank_positions(n, ranks=ranks, rank=rank, layout=layout)
    found = [0, 0, 0, 0]
    for other in range(ranks) if source is None else [source]:
        keys = rank_positions(n if m is None else m, ranks=ranks, rank=other, layout=layout)
        for q in queries:
            for k in keys:
                for rows, columns, triangle in visible_pairs(q, k, is_causal=is_causal):
                    height, width = rows.stop - rows.start, columns.stop - columns.start
                    pairs = height * width
                    if triangle:
                        side = min(height, width)
                        pairs = side * (side + 1) // 2 + (height - side) * width
                    for index, count in enumerate((1, pairs, height, width)):
                        found[index] += count
    return Tiles(*found)


def ring(
    sizes: Sizes,
    *,
    ranks: int,
    rank: int = 0,
    layout: str = "zigzag",
    is_causal: bool = False,
    backward: bool = False,
) -> RankCost:
    r"""One pass of :func:`attnref.distributed.ring_attention` on one rank.

        bh (2P(d_k+d_v) + 4P) operations of pairs
        (m - m_(r+1)) b h_kv (d_k+d_v) numbers sent

    forward, for P allowed pairs of the rank, and ``m_r`` keys on rank r::

        output, maximum, normaliser = 0, -inf, 0        # (b, h, n_r, d_v), twice (b, h, n_r, 1)
        for block in the ring:                          # sent on meanwhile, the next one received
            for rows, columns in the tiles of block:    # of rank_pairs
                more = fused(query[rows], block[columns])
                output[rows], maximum[rows], normaliser[rows] = merge(seen, more)

        bh (2P(3d_k+2d_v) + 3P) operations of pairs
        (2m - m_(r+1) - m_r) b h_kv (d_k+d_v) numbers sent

    backward, with the gradients of half precision in float32 on their way::

        d_query = 0
        for block in the ring:                          # sent on meanwhile, the next one received
            d_block = 0
            for rows, columns in the tiles of block:    # of rank_pairs
                delta = (grad[rows] * output[rows]).sum(-1)
                k = scale * block.key[columns]
                powers = exp(query[rows] @ k.mT - lse[rows])
                d_scores = (grad[rows] @ block.value[columns].mT - delta) * powers
                d_query[rows] += d_scores @ k
                d_block.value[columns] += powers.mT @ grad[rows]
                d_block.key[columns] += scale * (d_scores.mT @ query[rows])
            d_block += that of the ranks before         # and sent on, at last to its own rank
        d_own += that of the other ranks

    Args:
        sizes: of the whole sequence, n queries and m keys.
        ranks: how many share it.
        rank: whose cost; with lengths that they divide it differs between ranks if causal alone.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.
        is_causal: query i sees the keys j <= i.
        backward: the backward pass in place of the forward one. What it holds includes the output,
            its maximum and its normaliser, which the forward pass left.

    Raises:
        ValueError: for a rank or a layout that does not exist.

    Exact without a mask, with the operations of a tile those of ``fused`` in :func:`of`.

    Source: Liu et al. 2023, arXiv 2310.01889.

    Examples:
        >>> sizes = Sizes(n=2**20, m=2**20, d_k=128, d_v=128, num_heads=32, num_kv_heads=8)
        >>> forward = ring(sizes, ranks=64, is_causal=True)
        >>> backward = ring(sizes, ranks=64, is_causal=True, backward=True)
        >>> backward.operations.matmul / forward.operations.matmul
        2.5
        >>> [f"{one.bytes_sent / 2**30:.2f} GiB" for one in (forward, backward)]
        ['7.88 GiB', '15.75 GiB']
    """
    check_type(sizes)
    found = rank_pairs(sizes.n, sizes.m, ranks=ranks, rank=rank, layout=layout, is_causal=is_causal)
    rows = _lengths(sizes.n, ranks, rank, layout)[0]
    keys = _lengths(sizes.m, ranks, rank, layout)
    return (_backward if backward else _forward)(sizes, found, rows, keys)


def _forward(sizes: Sizes, tiles: Tiles, rows: int, keys: list[int]) -> RankCost:
    """Of a rank with so many rows, and with so many keys in each step."""
    _, m, d_k, d_v, h, h_kv, size = letters(sizes)
    ranks, wide, one = len(keys), max(4, size), h_kv * (d_k + d_v)
    operations = Operations(
        matmul=products(sizes, tiles.pairs),
        elementwise=h * (3 * tiles.pairs + tiles.rows * (d_k + d_v + 3 * d_v + 8)),
        exponentials=h * (tiles.pairs + 2 * tiles.rows),
    )
    rounded = size * h * rows * d_v if size < wide else 0
    blocks = size * one * max(_other_positions(keys, step) for step in range(ranks))
    return RankCost(
        operations,
        size * one * (m - keys[-1]) + AGREEMENT * (ranks - 1),
        wide * h * rows * (d_v + 2) + max(blocks, rounded),
    )


def _backward(sizes: Sizes, tiles: Tiles, rows: int, keys: list[int]) -> RankCost:
    """Of the same rank."""
    _, m, d_k, d_v, h, h_kv, size = letters(sizes)
    ranks, wide, one = len(keys), max(4, size), h_kv * (d_k + d_v)
    received = sum(keys[2:]) + (keys[0] if ranks > 1 else 0)  # positions whose gradients arrive
    operations = Operations(
        matmul=2 * h * tiles.pairs * (3 * d_k + 2 * d_v),
        elementwise=h * (3 * tiles.pairs + tiles.rows * (d_k + 2 * d_v))
        + h_kv * tiles.columns * (3 * d_k + d_v)
        + one * received,
        exponentials=h * tiles.pairs,
    )
    rounded = (size + wide) * h * rows * d_v if size < wide else 0  # the output, and grad widened
    kept = wide * h * rows * (d_v + 2 + d_k) + rounded
    steps = range(ranks)
    return RankCost(
        operations,
        one * (size * (m - keys[-1]) + wide * (m - keys[0])) + AGREEMENT * (ranks - 1),
        kept
        + max(
            one * (size * _other_positions(keys, step) + wide * _sums(keys, step)) for step in steps
        ),
    )


def products(sizes: Sizes, pairs: int) -> int:
    """Operations in the two products of so many pairs, in all heads."""
    _, _, d_k, d_v, h, _, _ = letters(sizes)
    return 2 * h * pairs * (d_k + d_v)


def _lengths(n: int, ranks: int, rank: int, layout: str) -> list[int]:
    """How many positions there are in each step: of this rank, of the one behind it, and so on."""
    return [
        length(rank_positions(n, ranks=ranks, rank=(rank - step) % ranks, layout=layout))
        for step in range(ranks)
    ]


def _other_positions(keys: list[int], step: int) -> int:
    """Positions of other ranks that are here in a step, or on their way to this rank."""
    return (keys[step] if step else 0) + sum(keys[step + 1 : step + 2])


def _sums(keys: list[int], step: int) -> int:
    """Positions whose gradients are here: of this rank, and of blocks that pass by."""
    if step == 0:
        return keys[0]
    added = keys[step - 1] + keys[step] if step > 1 else 0  # one that leaves, one that came for it
    sent = keys[(step + 1) % len(keys)]  # which comes while that of this step leaves
    return keys[0] + keys[step] + max(added, sent)
