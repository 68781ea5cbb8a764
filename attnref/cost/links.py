"""Seconds that a rank computes, sends and waits, given the speed of the links between ranks."""

from dataclasses import dataclass, replace
from functools import cache
from math import inf, sqrt

from attnref.checks import check_number
from attnref.cost.context_parallel import AGREEMENT, products, rank_pairs
from attnref.cost.kernels import letters
from attnref.cost.messages import mesh, rows_of
from attnref.cost.sizes import Sizes, check_type
from attnref.layouts import check_layout, check_ranks, length, rank_positions


@dataclass(frozen=True)
class Link:
    """What joins a rank to another one; the numbers are the caller's, measured or from its maker.

    Attributes:
        bytes_per_second: in one direction, while as many come in the other.
        latency: seconds that each message takes, however short it is.

    A round number of no existing link:

    Examples:
        >>> Link(1e9, latency=1e-5).seconds(2e6)
        0.00201
    """

    bytes_per_second: float
    latency: float = 0.0

    def seconds(self, count: float) -> float:
        """For a message of so many bytes."""
        return self.latency + count / self.bytes_per_second


@dataclass(frozen=True)
class RankTime:
    """How long a pass takes a rank.

    Attributes:
        compute: seconds, if messages took no time.
        sending: seconds, if computing took no time.
        seconds: with both, messages behind computing where the method allows it.

    Examples:
        >>> found = RankTime(compute=3.0, sending=2.0, seconds=4.0)
        >>> found.exposed, found.busy
        (1.0, 0.75)
    """

    compute: float
    sending: float
    seconds: float

    @property
    def exposed(self) -> float:
        """Seconds of sending that do not hide behind computing."""
        return self.seconds - self.compute

    @property
    def busy(self) -> float:
        """The share of the time in which the rank computes."""
        return self.compute / self.seconds


def mesh_time(
    sizes: Sizes,
    *,
    ranks: int,
    heads: int = 1,
    ring_link: Link,
    heads_link: Link | None = None,
    operations_per_second: float,
    layout: str = "zigzag",
    is_causal: bool = False,
) -> RankTime:
    r"""The forward pass of :func:`attnref.distributed.mesh_attention`, step by step.

        t = 2λ_h + X/B_h + Σ_(s=0)^(p_r-1) max(C_s/F, λ_r + S_s/B_r)

    where the slowest rank does ``C_s`` operations in step s and passes on ``S_s`` bytes
    meanwhile, none in the last step; X are the bytes with which parts of the sequence are
    exchanged for heads, and back. Bandwidth ``B`` and latency ``λ`` are those of
    the link of the ring and of that of the heads. ``heads=1``, without X, is
    :func:`attnref.distributed.ring_attention`.

    Args:
        sizes: of the whole sequence, n queries and m keys.
        ranks: how many share it.
        heads: ``p_h``, the ranks of a row, which divide the heads; the ``p_r`` rows are
            the steps of a ring.
        ring_link: between neighbours of a ring.
        heads_link: between ranks that divide the heads; None means as ``ring_link``.
        operations_per_second: F, the speed of a rank in matrix products, the only ones counted.
        layout: ``"zigzag"``, ``"striped"`` or ``"contiguous"``.
        is_causal: query i sees the keys j <= i.

    Raises:
        ValueError: as :func:`sent`, and for a speed that is not positive and finite.
        TypeError: for a link of another type, or a speed that is no number.

    A model: of the last rank, which has the most work in each step if lengths are divided evenly;
    without what ranks tell each other to agree, kernels, and other traffic on the links. In time
    ``O(ranks / heads)``.

    Source: the bound of a step, Liu et al. 2023, arXiv 2310.01889, section 3.

    Examples:
        >>> sizes = Sizes(n=2**20, m=2**20, d_k=128, d_v=128, num_heads=32, num_kv_heads=8)
        >>> for ranks in (8, 64, 512):
        ...     link = Link(1e11)
        ...     time = mesh_time(sizes, ranks=ranks, ring_link=link, operations_per_second=1e14)
        ...     print(ranks, f"{time.compute:.3f} s, busy {time.busy:.0%}")
        8 22.518 s, busy 100%
        64 2.815 s, busy 100%
        512 0.352 s, busy 100%
    """
    _check_link("ring_link", ring_link)
    _check_link("heads_link", heads_link or ring_link)
    _check_speed("operations_per_second", operations_per_second)
    check_type(sizes)
    check_ranks(ranks)
    check_layout(layout)
    ring = rows_of(sizes, ranks, heads)
    moved = mesh(sizes, ring, heads, ranks - 1, layout).forward  # of the last rank
    mine = replace(sizes, num_heads=sizes.num_heads // heads, num_kv_heads=sizes.kv_heads // heads)
    row = mesh(mine, ring, 1, ring - 1, layout).forward
    exchange = 0.0
    if heads > 1:
        link = heads_link or ring_link
        told = AGREEMENT * (heads - 1) * ring  # which both count, and neither is X
        exchange = link.latency + link.seconds(moved - row - told)
    _, m, d_k, d_v, _, h_kv, size = letters(mine)
    compute = sending = seconds = 0.0
    for step, pairs in enumerate(_step_pairs(sizes.n, m, ring, layout, is_causal)):
        block = length(rank_positions(m, ranks=ring, rank=ring - 1 - step, layout=layout))
        computes = products(mine, pairs) / operations_per_second
        sends = ring_link.seconds(size * block * h_kv * (d_k + d_v)) if step < ring - 1 else 0.0
        compute, sending = compute + computes, sending + sends
        seconds += max(computes, sends)
    return RankTime(compute, exchange + sending, exchange + seconds)


def hiding_length(
    sizes: Sizes, link: Link, *, operations_per_second: float, is_causal: bool = False
) -> float:
    r"""The tokens per rank from which on a ring sends no longer than it computes.

        c = g s / 2 h_kv/h F/B

    for numbers of s bytes and ``g = 1``, or 2 under a causal mask that is balanced, which
    leaves half of the work; more with a latency, for then
    ``2/g c² h(d_k+d_v)/F = λ + c s h_kv(d_k+d_v)/B``. The number of ranks
    and the length of the sequence play no part. With a group of heads, as in
    :func:`mesh_time`, it is the tokens per row that count, ``n * heads / ranks``.

    Args:
        sizes: the heads, their widths, and the dtype; n and m do not matter.
        link: between neighbours of the ring.
        operations_per_second: F, the speed of a rank in matrix products.
        is_causal: query i sees the keys j <= i.

    Raises:
        TypeError, ValueError: for a link of another type, or a speed that is not positive and
            finite.

    Source: Liu et al. 2023, arXiv 2310.01889, section 3 (c = F / B, in 16 bits, all heads).

    Examples:
        >>> import torch
        >>> a100 = dict(operations_per_second=312e12)  # with NVLink, and with InfiniBand
        >>> sizes = Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=32, dtype=torch.bfloat16)
        >>> for speed in (300e9, 12.5e9):
        ...     print(f"{hiding_length(sizes, Link(speed), **a100):.0f}")
        1040
        24960
    """
    _check_link("link", link)
    _check_speed("operations_per_second", operations_per_second)
    _, _, d_k, d_v, _, h_kv, size = letters(sizes)
    square = products(sizes, 1) / operations_per_second / (2 if is_causal else 1)
    linear = size * h_kv * (d_k + d_v) / link.bytes_per_second
    return (linear + sqrt(linear**2 + 4 * square * link.latency)) / (2 * square)


@cache
def _step_pairs(n: int, m: int, ranks: int, layout: str, is_causal: bool) -> tuple[int, ...]:
    """The pairs of the last rank in each step of a ring, from its own block on."""
    last, found = ranks - 1, []
    for source in range(last, -1, -1):
        keys = {"ranks": ranks, "rank": last, "source": source}
        found.append(rank_pairs(n, m, **keys, layout=layout, is_causal=is_causal).pairs)
    return tuple(found)


def _check_link(name: str, link: Link) -> None:
    if not isinstance(link, Link):
        raise TypeError(
            f"{name}: expected an attnref.cost.Link, got {type(link).__name__}. Give the speed as "
            "Link(bytes_per_second)."
        )
    _check_speed(f"{name}.bytes_per_second", link.bytes_per_second)
    advice = "It is the time of an empty message."
    if not check_number(f"{name}.latency", link.latency, advice, most="0 or more") >= 0:
        raise ValueError(f"{name}.latency: expected 0 or more, got {link.latency}. {advice}")


def _check_speed(name: str, speed: float) -> None:
    advice = "It is a speed, measured or from the maker."
    if not 0 < check_number(name, speed, advice, most="a positive number") < inf:
        raise ValueError(f"{name}: expected a positive, finite number, got {speed}. {advice}")
