import re
from functools import partial

import pytest
import torch
import torch.distributed as dist

from attnref.distributed import gather, positions, ring_attention, shard
from attnref.layouts import LAYOUTS, check_layout, check_ranks, length, rank_positions
from tests.distributed import rank_jobs
from tests.variants.every import every


@every("n", [0, 1, 5, 16, 97])
@every("ranks", [1, 2, 3, 8])
@every("layout", LAYOUTS)
def test_each_position_is_held_once(n, ranks, layout):
    parts = [rank_positions(n, ranks=ranks, rank=rank, layout=layout) for rank in range(ranks)]
    assert sorted(i for part in parts for piece in part for i in piece) == list(range(n))
    assert all(list(piece) == sorted(piece) and piece for part in parts for piece in part)
    lengths = [length(part) for part in parts]
    assert max(lengths) - min(lengths) <= (2 if layout == "zigzag" else 1)


def test_zigzag_takes_one_part_from_either_end():
    assert [list(part) for part in rank_positions(16, ranks=4, rank=1, layout="zigzag")] == [
        [2, 3],
        [12, 13],
    ]


@every("layout", LAYOUTS)
def test_parts_are_cut_and_put_together(layout, ranks):
    for n, dim in ((29, 0), (29, 1), (16, -1), (3, -2)):
        ranks(rank_jobs.round_trip, n, layout, dim)


def test_positions_restart_with_each_document(one_rank):
    borders = torch.tensor([0, 2, 2, 5])
    assert positions(5, cu_seqlens=borders).tolist() == [0, 1, 0, 1, 2]
    for wrong in ([1, 5], [0, 4], [0, 3, 2, 5]):
        with pytest.raises(
            ValueError, match=r"^cu_seqlens: expected borders that rise from 0 to 5"
        ):
            positions(5, cu_seqlens=torch.tensor(wrong))


@pytest.mark.parametrize("call", [lambda: positions(3), lambda: shard(torch.ones(3, 2))])
def test_without_other_processes_it_says_how_to_start_them(call):
    with pytest.raises(ValueError, match=r"^group: expected processes .*, got none\. .* torchrun"):
        call()


def test_what_is_no_layout_is_refused(one_rank):
    tokens = torch.ones(3, 2)
    for call in (partial(shard, tokens), partial(gather, tokens), check_layout):
        with pytest.raises(
            ValueError, match=r"^layout: expected 'contiguous', .* got 'spiral'\. Un"
        ):
            call(layout="spiral")


def test_groups_may_be_meshes(one_rank):
    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("ring", "heads"))
    x = torch.ones(3, 2)
    for group in (mesh, mesh["ring"]):
        assert torch.equal(shard(x, group=group), x)
        assert torch.equal(gather(x, group=group), x)
    with pytest.raises(
        ValueError,
        match=r"^group: expected a mesh of one dimension, got 2 of "
        r"shape",
    ):
        ring_attention(x, x, x, group=mesh)


def test_a_group_of_others_is_refused(one_rank):
    with pytest.raises(ValueError, match=r"that this process belongs to, got -100\. Make it with"):
        shard(torch.ones(3, 2), group=dist.GroupMember.NON_GROUP_MEMBER)


def test_ranks_are_counted_from_0():
    check_ranks(4, 3)
    with pytest.raises(ValueError, match=re.escape("rank: expected an integer between 0 and 3")):
        check_ranks(4, 4)
