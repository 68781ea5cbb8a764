"""What cost predicts of a rank, against what ranks do: counted, by tile and by tensor."""

from dataclasses import astuple

import pytest
import rank_jobs
import torch

from attnref import cost
from attnref.cost import RankCost, Sizes
from attnref.layouts import LAYOUTS

PASSES = {"ring_attention": (cost.ring, cost.ring_backward)}
HEADS = {"batch": 2, "num_heads": 6, "num_kv_heads": 3}


def predicted(name, n, size, *, dtype=torch.float64, **options):
    sizes = Sizes(n=n, m=n, d_k=rank_jobs.D_K, d_v=rank_jobs.D_V, **HEADS, dtype=dtype)
    return [
        [one(sizes, ranks=size, rank=rank, **options) for one in PASSES[name]]
        for rank in range(size)
    ]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PASSES)
def test_operations_and_bytes_are_what_a_rank_spends(name, layout, is_causal, ranks):
    n, options = 37, {"layout": layout, "is_causal": is_causal}
    size = len(ranks.connections)
    expected = predicted(name, n, size, **options)
    spent = ranks(rank_jobs.spent, name, n, **options)
    sent = ranks(rank_jobs.bytes_sent, name, n, **options)
    for rank, (passes, (done, peaks), bytes_sent) in enumerate(
        zip(expected, spent, sent, strict=True)
    ):
        assert [astuple(one.operations) for one in passes] == done, rank
        forward, backward, asked, asked_back, _ = bytes_sent
        assert [one.bytes_sent for one in passes] == [forward + asked, backward + asked_back]
        assert [one.held_bytes for one in passes] == peaks, rank


@pytest.mark.parametrize("name", PASSES)
def test_half_precision_is_held_as_it_is_and_summed_in_float32(name, pools):
    dtype = torch.bfloat16
    found = pools(4)(rank_jobs.spent, name, 64, dtype=dtype)
    for passes, (_, peaks) in zip(predicted(name, 64, 4, dtype=dtype), found, strict=True):
        assert [one.held_bytes for one in passes] == peaks


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pairs_of_a_rank_are_those_of_each_source(layout):
    for n, m in ((37, 37), (37, 19), (19, 37)):
        allowed = torch.ones(n, m, dtype=torch.bool).tril()
        total = 0
        for rank in range(4):
            options = {"ranks": 4, "rank": rank, "layout": layout}
            parts = [cost.rank_pairs(n, m, source=source, **options) for source in range(4)]
            whole = cost.rank_pairs(n, m, **options)
            assert whole == tuple(map(sum, zip(*parts, strict=True)))
            total += whole.pairs
        assert total == int(allowed.sum())
        assert cost.rank_pairs(n, m, **options, is_causal=False).pairs == m * sum(
            1 for i in range(n) if i in rank_jobs.own_positions(n, 4, 3, layout)
        )


def test_balance_of_layouts():
    """The mean over the maximum, of work and in each step of the ring."""
    for ranks in (2, 8, 64):
        n = 2**14
        for layout, balance in (("zigzag", 1.0), ("striped", 0.99), ("contiguous", 0.5)):
            work = [
                cost.rank_pairs(n, ranks=ranks, rank=r, layout=layout).pairs for r in range(ranks)
            ]
            found = sum(work) / ranks / max(work)
            if layout == "contiguous":
                assert found == pytest.approx(ranks / (2 * ranks - 1), rel=1e-2)
            else:
                assert balance <= found <= 1.0
        steps = [
            [
                cost.rank_pairs(n, ranks=ranks, rank=r, source=(r - t) % ranks).pairs
                for r in range(ranks)
            ]
            for t in range(1, ranks)
        ]
        assert all(len(set(step)) == 1 for step in steps)


def test_costs_of_passes_add_up():
    one, other = RankCost(cost.Operations(1, 2, 3), 8, 5), RankCost(cost.Operations(4, 5, 6), 16, 4)
    assert one + other == RankCost(cost.Operations(5, 7, 9), 24, 5)
