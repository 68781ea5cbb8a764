"""How much of a cache is room for tokens that never come: in pages, and padded to the longest."""

from collections.abc import Sequence
from typing import NamedTuple

from attnref.checks import check_integer
from attnref.cost.sizes import check_sizes


class Slots(NamedTuple):
    """Places for a token each, in one layer; a place is ``h_kv (d_k + d_v)`` numbers.

    Attributes:
        used: tokens that differ, so that a shared beginning counts once.
        paged: the places of all pages that hold some of them.
        padded: those of a cache with room for the longest sequence in each.

    Examples:
        >>> Slots(used=90, paged=96, padded=200).padded
        200
    """

    used: int
    paged: int
    padded: int


def slots(
    lengths: Sequence[int],
    *,
    block_size: int,
    prefix: int = 0,
    max_length: int | None = None,
) -> Slots:
    r"""Places that a cache takes for sequences of these lengths, in pages and padded.

        P(⌊c/P⌋ + Σ_s (⌈m_s/P⌉ - ⌊c/P⌋))
        and
        b m_max

    for b sequences of ``m_s`` tokens whose first c are the same. Of these, full pages are
    shared; a page that holds the last of them and what comes after is each sequence's own. In
    bytes, multiply by the ``cache_bytes`` of :class:`Sizes` for a single token.

    Args:
        lengths: the tokens of each sequence.
        block_size: P, tokens in a page.
        prefix: c, tokens at the beginning that all of them share; 0 shares nothing.
        max_length: ``m_max``, the room that a padded cache gives each; None means that the
            longest length is known beforehand.

    Raises:
        ValueError: for a number that is not an integer of its range: lengths and prefix from 0,
            pages from 1, a prefix no longer than the shortest, a maximum no less than the longest.

    Exact. Without a prefix, a page is on average left with ``(P-1)/2`` places empty per
    sequence, if each remainder of a length by P is as likely as the others.

    Source: Kwon et al. 2023, arXiv 2309.06180, section 4.3.

    Examples:
        >>> slots([2000, 100, 150], block_size=16)
        Slots(used=2250, paged=2272, padded=6000)
        >>> slots([110, 120, 130], block_size=16, prefix=100)
        Slots(used=160, paged=192, padded=390)
    """
    check_sizes(block_size=block_size)
    for length in lengths:
        check_integer("lengths", length, 0, "They are numbers of tokens, one for each sequence.")
    shortest, longest = min(lengths, default=0), max(lengths, default=0)
    advice = "No sequence is shorter than what all of them share."
    check_integer("prefix", prefix, 0, advice, most=shortest)
    if max_length is None:
        max_length = longest
    check_integer("max_length", max_length, longest, "A padded cache has room for every sequence.")
    count, shared = len(lengths), prefix // block_size if lengths else 0
    pages = shared + sum(-(-length // block_size) - shared for length in lengths)
    return Slots(
        used=sum(lengths) - max(0, count - 1) * prefix,
        paged=block_size * pages,
        padded=count * max_length,
    )
