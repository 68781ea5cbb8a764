"""Which pairs of a query and a key are computed: under a window, by tiles, in a padded batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from attnref.cost.sizes import check_sizes

# Query i sees the keys i - left to i + right; None is without limit.
Window = tuple[int | None, int | None]


def allowed_pairs(n: int, m: int, *, window: Window = (None, None)) -> int:
    r"""How many pairs of a query and a key a window allows.

        #{(i,j) : i-left ≤ j ≤ i+right, 0 ≤ i<n, 0 ≤ j<m}

    Causal is ``(None, 0)``, the last w keys ``(w - 1, 0)``, w keys to either side ``(w, w)``;
    when both sequences end together (``"bottom-right"``) add m - n to the right and subtract
    it from the left. Any other mask has ``int(mask.dense().sum())`` pairs.

    Args:
        n: number of queries.
        m: number of keys.
        window: ``(left, right)``; None is without limit.

    Returns:
        The count, exactly, in constant time.

    Raises:
        ValueError: for a size below 1, or ``left + right`` below 0.
        TypeError: for limits that are neither integers nor None.

    Examples:
        >>> allowed_pairs(4, 4, window=(None, 0)), allowed_pairs(4, 4, window=(1, 0))
        (10, 7)
    """
    check_sizes(n=n, m=m)
    left, right = _limits(n, m, window)
    return _clamped_sum(n, right + 1, m) - _clamped_sum(n, -left, m)


@dataclass(frozen=True)
class Tiles:
    """The tiles of the scores that are computed, those without an allowed pair skipped.

    ``count`` tiles hold ``pairs`` scores, and have ``rows`` queries and ``columns`` keys, which
    count again in each tile.

    Examples:
        >>> tiles(4, 4, block=(2, 2), window=(None, 0))
        Tiles(count=3, pairs=12, rows=6, columns=6)
    """

    count: int
    pairs: int
    rows: int
    columns: int


def tiles(n: int, m: int, *, block: tuple[int, int], window: Window = (None, None)) -> Tiles:
    r"""The tiles that hold at least one allowed pair.

    A causal mask over b whole blocks leaves ``1/2 + 1/(2b)`` of the scores.

    Args:
        n: number of queries.
        m: number of keys.
        block: queries and keys of a tile; the last ones are cut off at n and m.
        window: as in :func:`allowed_pairs`.

    Returns:
        :class:`Tiles`, exactly, in time ``O(n / block[0])``.

    Raises:
        ValueError, TypeError: as :func:`allowed_pairs`, and for a block below 1.

    Examples:
        >>> causal = tiles(4096, 4096, block=(128, 128), window=(None, 0))
        >>> causal.count, causal.pairs / 4096**2
        (528, 0.515625)
    """
    block_q, block_k = block
    check_sizes(n=n, m=m, block_q=block_q, block_k=block_k)
    left, right = _limits(n, m, window)
    count = pairs = rows = columns = 0
    for top in range(0, n, block_q):
        bottom = min(top + block_q, n)
        start, stop = max(top - left, 0), min(bottom + right, m)
        if start >= stop:
            continue
        first, last = start // block_k, (stop - 1) // block_k
        width = min((last + 1) * block_k, m) - first * block_k
        count += last - first + 1
        pairs += (bottom - top) * width
        rows += (bottom - top) * (last - first + 1)
        columns += width
    return Tiles(count, pairs, rows, columns)


def useful_share(lengths: Sequence[int]) -> tuple[float, float]:
    r"""Which share of a padded batch is real: of its token slots, and of its scores.

        Σ_i n_i/(b n_max)
        Σ_i n_i²/(b n_max²)

    Args:
        lengths: the real length of each sequence; all are padded to the longest.

    Raises:
        ValueError: for an empty list or a length below 1.

    Source: Krell et al. 2021, arXiv 2107.02027, who pack sequences to avoid the waste.

    Examples:
        >>> [f"{share:.1%}" for share in useful_share([512] + 31 * [32])]
        ['9.2%', '3.5%']
    """
    check_sizes(sequences=len(lengths))
    for length in lengths:
        check_sizes(lengths=length)
    slots = len(lengths) * max(lengths)
    return sum(lengths) / slots, sum(length**2 for length in lengths) / (slots * max(lengths))


def _limits(n: int, m: int, window: Window) -> tuple[int, int]:
    """``window`` with numbers for None, at which it leaves out no key."""
    for limit in window:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral)):
            raise TypeError(
                f"window: expected (left, right) of integers or None, got {window}. None is "
                "without limit; causal is (None, 0)."
            )
    left, right = window
    if left is not None and right is not None and left + right < 0:
        raise ValueError(
            f"window: expected left + right of at least 0, got {window}. Query i sees the keys "
            "i - left to i + right; the last w keys are (w - 1, 0)."
        )
    return n if left is None else left, m if right is None else right


def _clamped_sum(n: int, start: int, m: int) -> int:
    """The sum of ``min(max(start + i, 0), m)`` over i from 0 to n - 1."""

    def ramp(shift: int) -> int:  # the sum of max(shift + i, 0)
        return math.comb(max(shift + n, 0), 2) - math.comb(max(shift, 0), 2)

    return ramp(start) - ramp(start - m)
