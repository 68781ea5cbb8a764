"""Seconds of a rank, against a simulation in which all ranks exchange messages."""

import itertools
import math
import re
from dataclasses import replace

import pytest
import torch

from attnref import cost
from attnref.cost import Link, RankTime, Sizes, hiding_length, mesh_time
from attnref.layouts import LAYOUTS
from tests.variants.every import every

SPEED = 1e12
SIZES = Sizes(n=6720, m=6720, d_k=19, d_v=23, num_heads=12, num_kv_heads=6, dtype=torch.bfloat16)


def simulated(sizes, link, *, ranks, layout, is_causal):
    """When the last of all ranks is done, if each passes a block on when it begins with it.

    A message leaves when both ends are ready, and a rank goes on when it has computed, and when
    its messages have come and gone.
    """
    options = {"ranks": ranks, "layout": layout, "is_causal": is_causal}
    per_pair = 2 * sizes.num_heads * (sizes.d_k + sizes.d_v) / SPEED
    per_key = sizes.dtype.itemsize * sizes.kv_heads * (sizes.d_k + sizes.d_v)
    message = link.seconds(per_key * sizes.m // ranks)
    begun = [0.0] * ranks
    for step in range(ranks):
        done = []
        for rank, start in enumerate(begun):
            pairs = cost.rank_pairs(
                sizes.n, sizes.m, rank=rank, source=(rank - step) % ranks, **options
            ).pairs
            ends = [start + per_pair * pairs]
            if step < ranks - 1:
                neighbours = begun[rank - 1], begun[(rank + 1) % ranks]
                ends += [max(start, other) + message for other in neighbours]
            done.append(max(ends))
        begun = done
    return max(begun)


@pytest.mark.claim("last-rank-sets-the-pace")
@pytest.mark.parametrize("layout", LAYOUTS)
@every("is_causal", [False, True])
@every("ranks", [1, 2, 3, 4, 7, 16])
def test_the_last_rank_ends_when_all_have_ended(ranks, layout, is_causal):
    """Whether sending hides entirely, in some steps or not at all."""
    waited = []
    for bandwidth, latency in ((1e12, 0.0), (2e9, 0.0), (3e8, 0.0), (1e12, 1e-2), (1e8, 1e-4)):
        link = Link(bandwidth, latency)
        options = {"layout": layout, "is_causal": is_causal}
        found = mesh_time(
            SIZES, ranks=ranks, ring_link=link, operations_per_second=SPEED, **options
        )
        expected = simulated(SIZES, link, ranks=ranks, **options)
        assert found.seconds == pytest.approx(expected, rel=1e-12)
        waited.append(found.exposed > 1e-9 * found.seconds)
    assert set(waited) == ({False} if ranks == 1 else {False, True})


@pytest.mark.parametrize("layout", LAYOUTS)
@every("is_causal", [False, True])
@every("n", [6720, 6733])
def test_what_is_timed_is_what_cost_counts(n, layout, is_causal):
    """The operations of a ring, and all bytes of a mesh but those that say who takes part."""
    sizes, link = replace(SIZES, n=n, m=n), Link(1e9)
    options = {"layout": layout, "is_causal": is_causal}
    found = mesh_time(sizes, ranks=5, ring_link=link, operations_per_second=SPEED, **options)
    counted = cost.ring(sizes, ranks=5, rank=4, **options)
    assert found.compute * SPEED == pytest.approx(counted.operations.matmul, rel=1e-12)
    told = cost.context_parallel.AGREEMENT * 4
    assert found.sending * 1e9 == pytest.approx(counted.bytes_sent - told, rel=1e-12)

    mesh = {"ranks": 15, "heads": 3}
    found = mesh_time(sizes, **mesh, ring_link=link, operations_per_second=SPEED, **options)
    sent = cost.sent("mesh", sizes, **mesh, rank=14, layout=layout).forward
    told = cost.context_parallel.AGREEMENT * (2 + 4 * 3)
    assert found.sending * 1e9 == pytest.approx(sent - told, rel=1e-12)
    alone = replace(sizes, num_heads=4, num_kv_heads=2)
    counted = cost.ring(alone, ranks=5, rank=4, **options)
    assert found.compute * SPEED == pytest.approx(counted.operations.matmul, rel=1e-12)


def test_each_link_has_its_own_messages():
    """Four messages around a ring of five, and two exchanges, there and back."""
    slow, fast = Link(1e9, 1e-3), Link(1e12, 1e-5)
    mesh = {"ranks": 15, "heads": 3, "operations_per_second": SPEED}
    for ring_link, heads_link, expected in (
        (slow, fast, 4e-3 + 2e-5),
        (fast, slow, 4e-5 + 2e-3),
        (slow, None, 6e-3),
    ):
        with_latency = mesh_time(SIZES, ring_link=ring_link, heads_link=heads_link, **mesh)
        bare = [link and replace(link, latency=0.0) for link in (ring_link, heads_link)]
        without = mesh_time(SIZES, ring_link=bare[0], heads_link=bare[1], **mesh)
        assert with_latency.sending - without.sending == pytest.approx(expected, rel=1e-9)
    swapped = mesh_time(SIZES, ring_link=fast, heads_link=slow, **mesh)
    assert swapped.exposed > 2e-3  # exchanges do not hide


@pytest.mark.claim("hiding-is-per-rank")
@every("dims", [(16, 16), (19, 23), (256, 64)])
@every("latency", [0.0, 1e-5])
@every("is_causal", [False, True])
def test_sending_hides_from_so_many_tokens_per_rank_on(dims, latency, is_causal):
    """For any number of ranks and so any length; with fewer tokens per rank, it does not."""
    link = Link(2e9, latency)
    for heads, kv_heads in ((8, 8), (8, 2)):
        sizes = Sizes(n=1, m=1, d_k=dims[0], d_v=dims[1], num_heads=heads, num_kv_heads=kv_heads)
        options = {"operations_per_second": 1e12, "is_causal": is_causal}
        border = hiding_length(sizes, link, **options)
        if not latency:
            factor = (2 if is_causal else 1) * 4 / 2 * kv_heads / heads
            assert border == pytest.approx(factor * 1e12 / 2e9, rel=1e-12)
        for ranks, share in itertools.product((2, 5, 16), (0.98, 1.02)):
            length = ranks * 2 * round(share * border / 2)  # which zigzag can halve
            whole = replace(sizes, n=length, m=length)
            found = mesh_time(whole, ranks=ranks, ring_link=link, **options)
            assert (found.exposed > 1e-9 * found.seconds) == (share < 1), (ranks, share)


@pytest.mark.claim("heads-divide-what-hiding-needs")
def test_a_group_of_heads_needs_fewer_tokens_per_device():
    """Blocks of the ring are then n / ring tokens long; a ring of all ranks has shorter ones."""
    link, options = Link(2e9), {"operations_per_second": 1e12, "is_causal": True}
    sizes = Sizes(n=1, m=1, d_k=16, d_v=16, num_heads=8, num_kv_heads=8)
    border = hiding_length(sizes, link, **options)
    for heads in (1, 2, 4, 8):
        for share in (0.98, 1.02):
            n = 2 * 4 * round(share * border / 2)  # a ring of 4, whatever the heads
            whole = replace(sizes, n=n, m=n)
            found = mesh_time(whole, ranks=4 * heads, heads=heads, ring_link=link, **options)
            row = replace(whole, num_heads=8 // heads, num_kv_heads=8 // heads)
            alone = mesh_time(row, ranks=4, ring_link=link, **options)
            hides = not alone.exposed > 1e-9 * alone.seconds
            assert hides == (share > 1)
            exchange = found.sending - alone.sending
            assert found.exposed == pytest.approx(alone.exposed + exchange, abs=1e-12)
        slow = Link(2e9, 1e-4)  # latency: messages are as many, though each says less
        assert (hiding_length(row, slow, **options) > hiding_length(sizes, slow, **options)) == (
            heads > 1
        )


@pytest.mark.claim("zigzag-gains-up-to-two")
def test_what_zigzag_gains_is_between_nothing_and_two():
    """Two less one p-th where computing is the limit, nothing where sending is."""
    options = {"operations_per_second": SPEED, "is_causal": True}
    for ranks in (2, 8, 64):
        sizes = replace(SIZES, n=128 * ranks, m=128 * ranks)
        gains = []
        for bandwidth in (1e15, 1e12, 1e9, 3e8, 1e6):
            times = [
                mesh_time(sizes, ranks=ranks, ring_link=Link(bandwidth), layout=layout, **options)
                for layout in ("contiguous", "zigzag")
            ]
            gains.append(times[0].seconds / times[1].seconds)
        assert gains == sorted(gains, reverse=True)
        assert gains[0] == pytest.approx(2 - 1 / ranks, rel=1e-2)
        assert gains[-1] == pytest.approx(1, rel=1e-2)
        assert max(gains) < 2


def test_times_of_a_rank():
    found = RankTime(3.0, 2.0, 4.0)
    assert (found.exposed, found.busy) == (1.0, 0.75)


@pytest.mark.parametrize(
    ("link", "speed", "error", "message"),
    [
        (Link(0.0), 1.0, ValueError, "link.bytes_per_second: expected a positive, finite number"),
        (Link(1.0), -1.0, ValueError, "operations_per_second: expected a positive, finite number"),
        (Link(1.0), math.inf, ValueError, "operations_per_second: expected a positive, finite num"),
        (Link(1.0, -1.0), 1.0, ValueError, "link.latency: expected 0 or more, got -1.0."),
        (None, 1.0, TypeError, "link: expected an attnref.cost.Link, got NoneType. Give the speed"),
        (Link("fast"), 1.0, TypeError, "link.bytes_per_second: expected a positive number, got"),
    ],
)
def test_speeds_are_positive(link, speed, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        hiding_length(SIZES, link, operations_per_second=speed)
    with pytest.raises(error, match=re.escape(message)):
        mesh_time(SIZES, ranks=2, ring_link=link, operations_per_second=speed)
