"""Which positions of a sequence each of several ranks holds: plain numbers, for code and cost."""

from collections.abc import Iterator

from attnref.checks import check_integer

LAYOUTS = ("contiguous", "striped", "zigzag")

# The positions of a rank, in the order in which it holds them, as few ranges.
Held = tuple[range, ...]


def rank_positions(n: int, *, ranks: int, rank: int, layout: str) -> Held:
    """The positions of one of ``ranks`` ranks; lengths that do not divide differ by at most 2.

    Contiguous cuts the sequence into as many parts as there are ranks, striped deals position by
    position, zigzag cuts twice as many parts and gives a rank one from either end.

    Examples:
        >>> for layout in LAYOUTS:
        ...     print([[i for one in rank_positions(8, ranks=2, rank=r, layout=layout) for i in one]
        ...            for r in (0, 1)])
        [[0, 1, 2, 3], [4, 5, 6, 7]]
        [[0, 2, 4, 6], [1, 3, 5, 7]]
        [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    if layout == "striped":
        found = [range(rank, n, ranks)]
    elif layout == "contiguous":
        found = [_cut(n, ranks, rank)]
    else:
        found = [_cut(n, 2 * ranks, chunk) for chunk in (rank, 2 * ranks - 1 - rank)]
    return tuple(part for part in found if part)


def cut(parts: Held, *, ranks: int, rank: int) -> Held:
    """One of ``ranks`` contiguous pieces of what a rank holds.

    Examples:
        >>> cut((range(0, 2), range(6, 8)), ranks=2, rank=1)
        (range(6, 8),)
    """
    piece, found, begin = _cut(length(parts), ranks, rank), [], 0
    for part in parts:
        found.append(part[max(0, piece.start - begin) : max(0, piece.stop - begin)])
        begin += len(part)
    return tuple(part for part in found if part)


def _cut(n: int, count: int, index: int) -> range:
    return range(index * n // count, (index + 1) * n // count)


def length(parts: Held) -> int:
    return sum(map(len, parts))


def check_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(
            f"layout: expected 'contiguous', 'striped' or 'zigzag', got {layout!r}. Under a causal "
            "mask zigzag gives all ranks the same work."
        )


def check_ranks(ranks: int, rank: int = 0) -> None:
    """How many there are, and which one is meant."""
    check_integer("ranks", ranks, 1, "It is the number of processes that share a sequence.")
    check_integer("rank", rank, 0, "Ranks are counted from 0.", most=ranks - 1)


def visible_pairs(q: range, k: range, *, is_causal: bool) -> Iterator[tuple[slice, slice, bool]]:
    """The pairs of two ranges of one step that may see each other, as rows and columns of them.

    All of them, or at most a rectangle and a triangle, True, whose row a sees its columns b <= a.

    Examples:
        >>> for rows, columns, triangle in visible_pairs(range(4, 7), range(2, 8), is_causal=True):
        ...     print(range(4, 7)[rows], range(2, 8)[columns], triangle)
        range(4, 7) range(2, 4) False
        range(4, 7) range(4, 8) True
    """
    ahead = (q.start - k.start) // q.step  # row a sees the columns b <= a + ahead
    first, corner = max(0, -ahead), max(0, ahead)  # the first row that sees any, and its last one
    rows = slice(first, len(q))
    if not is_causal:
        yield slice(0, len(q)), slice(0, len(k)), False
    elif first < len(q) and corner >= len(k) - 1:
        yield rows, slice(0, len(k)), False
    elif first < len(q):
        if corner:
            yield rows, slice(0, corner), False
        yield rows, slice(corner, len(k)), True
