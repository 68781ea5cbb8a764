"""What cost predicts of a rank, against what ranks do: counted, by tile and by tensor."""

from dataclasses import astuple

import pytest
import torch

from attnref import cost
from attnref.cost import RankCost, Sizes
from attnref.layouts import LAYOUTS
from tests.distributed import rank_jobs
from tests.variants.every import every

HEADS = {"batch": 2, "num_heads": 6, "num_kv_heads": 3}


def predicted(n, size, *, dtype=torch.float64, **options):
    sizes = Sizes(n=n, m=n, d_k=rank_jobs.D_K, d_v=rank_jobs.D_V, **HEADS, dtype=dtype)
    return [
        [cost.ring(sizes, ranks=size, rank=r, backward=way, **options) for way in (False, True)]
        for r in range(size)
    ]


def assert_held(passes, peaks, size):
    """To the byte, but for what ranks told each other: gloo's thread may let go of it later."""
    for one, peak in zip(passes, peaks, strict=True):
        assert 0 <= peak - one.held_bytes <= 2 * cost.context_parallel.AGREEMENT * size


@pytest.mark.claim("rank-costs-are-exact")
@every("is_causal", [False, True])
@every("layout", LAYOUTS)
def test_operations_and_bytes_are_what_a_rank_spends(layout, is_causal, ranks):
    n, options = 37, {"layout": layout, "is_causal": is_causal}
    size = len(ranks.connections)
    expected = predicted(n, size, **options)
    spent = ranks(rank_jobs.measure_spending, "ring_attention", n, **options)
    sent = ranks(rank_jobs.bytes_sent, "ring_attention", n, **options)
    for rank, (passes, (done, peaks), bytes_sent) in enumerate(
        zip(expected, spent, sent, strict=True)
    ):
        assert [astuple(one.operations) for one in passes] == done, rank
        forward, backward, asked, asked_back, _ = bytes_sent
        assert [one.bytes_sent for one in passes] == [forward + asked, backward + asked_back]
        assert_held(passes, peaks, size)


def test_half_precision_is_held_as_it_is_and_summed_in_float32(pools):
    dtype = torch.bfloat16
    found = pools(4)(rank_jobs.measure_spending, "ring_attention", 64, dtype=dtype)
    for passes, (_, peaks) in zip(predicted(64, 4, dtype=dtype), found, strict=True):
        assert_held(passes, peaks, 4)


@every("layout", LAYOUTS)
def test_pairs_of_a_rank_are_those_of_each_source(layout):
    for n, m in ((37, 37), (37, 19), (19, 37)):
        allowed = torch.ones(n, m, dtype=torch.bool).tril()
        total = 0
        for rank in range(4):
            options = {"ranks": 4, "rank": rank, "layout": layout}
            parts = [cost.rank_pairs(n, m, source=source, **options) for source in range(4)]
            whole = cost.rank_pairs(n, m, **options)
            assert astuple(whole) == tuple(map(sum, zip(*map(astuple, parts), strict=True)))
            total += whole.pairs
        assert total == int(allowed.sum())
        assert cost.rank_pairs(n, m, **options, is_causal=False).pairs == m * sum(
            1 for i in range(n) if i in rank_jobs.own_positions(n, 4, 3, layout)
        )


def test_costs_of_passes_add_up():
    one, other = RankCost(cost.Operations(1, 2, 3), 8, 5), RankCost(cost.Operations(4, 5, 6), 16, 4)
    assert one + other == RankCost(cost.Operations(5, 7, 9), 24, 5)


def sizes_of(n, heads, **options):
    dims = {"d_k": rank_jobs.D_K, "d_v": rank_jobs.D_V}
    return Sizes(n=n, m=n, **dims, batch=2, num_heads=heads[0], num_kv_heads=heads[1], **options)


@pytest.mark.claim("rank-costs-are-exact")
@pytest.mark.parametrize(
    "mesh",
    [
        (2, 2),
        (4, 1),
        (1, 4),
        *(pytest.param(mesh, marks=pytest.mark.audit) for mesh in ((2, 4), (4, 2))),
    ],
)
@every("layout", LAYOUTS)
def test_bytes_of_a_mesh_are_what_its_ranks_send(mesh, layout, pools):
    ring, heads = mesh
    options = {"heads": (8, 4), "layout": layout}
    for dtype in (torch.float64, torch.bfloat16):
        sizes = sizes_of(37, (8, 4), dtype=dtype)
        found = pools(ring * heads)(
            rank_jobs.bytes_sent, "mesh_attention", 37, mesh=mesh, dtype=dtype, **options
        )
        for rank, (forward, backward, asked, asked_back, _) in enumerate(found):
            place = {"ranks": ring * heads, "rank": rank, "layout": layout}
            predicted = cost.sent("mesh", sizes, heads=heads, **place)
            edge = {1: "ring", ring * heads: "ulysses"}.get(heads)
            assert edge is None or cost.sent(edge, sizes, **place) == predicted
            assert predicted == (forward + asked, backward + asked_back), rank


@pytest.mark.claim("rank-costs-are-exact")
@every("layout", LAYOUTS)
def test_bytes_of_gathering_are_what_ranks_send(layout, ranks):
    size = len(ranks.connections)
    for dtype in (torch.float64, torch.bfloat16):
        sizes = sizes_of(37, (6, 3), dtype=dtype)
        found = ranks(rank_jobs.bytes_sent, "gather_attention", 37, dtype=dtype, layout=layout)
        for rank, (forward, backward, asked, asked_back, _) in enumerate(found):
            predicted = cost.sent("gather", sizes, ranks=size, rank=rank, layout=layout)
            assert predicted == (forward + asked, backward + asked_back)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("sink", {}, "method: expected one of ring, gather, ulysses, mesh, split_kv, got 'sink'."),
        ("mesh", {}, "heads: expected the ranks that divide the heads, got None. A mesh has rows"),
        ("mesh", {"heads": 3}, "heads: expected a divisor of num_kv_heads = 4, got 3. Ranks that"),
        ("mesh", {"heads": 4}, "heads: expected a divisor of ranks = 6, got 4. Ranks that divide"),
        ("mesh", {"heads": 0}, "heads: expected an integer of 1 or more, got 0"),
        ("ring", {"heads": 2}, "heads: expected None for ring, got 2. A mesh has rows of so many."),
    ],
)
def test_what_is_not_sent_is_refused(method, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        cost.sent(method, sizes_of(37, (8, 4)), ranks=6, **options)
