import itertools
import math
import re

import pytest
import torch

from attnref import masks
from attnref.cost import rank_pairs
from attnref.distributed import _blocks, ring_attention
from attnref.layouts import LAYOUTS, length, rank_positions
from tests.distributed import rank_jobs
from tests.variants.every import every

RING = "ring_attention"
NAMES = ["window", "causal window", "documents", "padding", "nothing", "far"]


@pytest.mark.claim("ring-is-the-definition")
@every("layout", LAYOUTS)
@every("is_causal", [False, True])
def test_it_is_attention_to_the_whole_sequence(layout, is_causal, ranks):
    """A length that no number of ranks divides, and fewer tokens than ranks."""
    for n in (37, 5):
        options = {"layout": layout, "is_causal": is_causal}
        assert all(ranks(rank_jobs.matches_reference, RING, n, **options))


@every("layout", LAYOUTS)
def test_queries_and_keys_may_differ_in_number(layout, pools):
    """As in PyTorch, both begin together: the first query sees the first key."""
    for n, m in ((37, 23), (19, 41)):
        options = {"layout": layout, "is_causal": True}
        pools(4)(rank_jobs.matches_reference, RING, n, m, **options)


@every("is_causal", [False, True])
@every("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_any_mask_of_the_algebra(name, layout, is_causal, pools):
    options = {"mask": name, "layout": layout, "is_causal": is_causal}
    pools(4)(rank_jobs.matches_reference, RING, 31, **options)


@pytest.mark.audit
@every("layout", LAYOUTS)
@every("name", NAMES)
def test_any_mask_of_the_algebra_on_more_ranks(name, layout, pools):
    pools(8)(rank_jobs.matches_reference, RING, 53, mask=name, layout=layout)


def test_dimensions_broadcast(pools):
    """One query for several samples of keys, and one key; one width for all, no heads to share."""
    for lead, key_lead in (((1, 2), (3, 2)), ((3, 2), (1, 2))):
        options = {"lead": lead, "key_lead": key_lead, "d_v": rank_jobs.D_K}
        pools(4)(rank_jobs.matches_reference, RING, 17, is_causal=True, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_errs_no_more_than_the_budget(dtype, pools):
    """At most 1.5 times the error of PyTorch's own path, both against float64."""
    found = pools(4)(rank_jobs.errors, RING, 515, dtype)  # rank, whose, which
    ours, theirs = (
        [sum(x) for x in zip(*(rank[i] for rank in found), strict=True)] for i in (0, 1)
    )
    assert len(ours) == 4
    for one, other in zip(ours, theirs, strict=True):
        assert math.sqrt(one) <= 1.5 * math.sqrt(other)


def test_of_a_triangle_no_pair_is_computed_twice_or_in_vain(ranks):
    for layout in LAYOUTS:
        n = 101
        counts = ranks(rank_jobs.pairs_computed, RING, n, layout=layout)
        assert sum(counts) == n * (n + 1) // 2


@pytest.mark.claim("zigzag-balances-causal-work")
def test_zigzag_gives_all_ranks_the_same_work(ranks):
    size = len(ranks.connections)
    mean = 1031 * 1032 / 2 / size
    work = {
        layout: ranks(rank_jobs.pairs_computed, RING, 1031, layout=layout) for layout in LAYOUTS
    }
    assert max(work["zigzag"]) <= 1.02 * mean
    assert min(work["zigzag"]) >= 0.98 * mean
    assert max(work["striped"]) <= 1.02 * mean
    assert max(work["contiguous"]) == pytest.approx((2 - 1 / size) * mean, rel=0.01)
    for each, step in itertools.product((6, 50), range(size)):  # tokens per rank, of the ring
        pairs = {
            layout: [
                rank_pairs(
                    each * size, ranks=size, rank=r, source=(r - step) % size, layout=layout
                ).pairs
                for r in range(size)
            ]
            for layout in LAYOUTS
        }
        half = each**2 / 2  # of the pairs of a block
        assert set(pairs["zigzag"]) == {half if step else half + each / 2}
        assert {abs(found - half) for found in pairs["striped"]} == {each / 2}
        if step:
            assert set(pairs["contiguous"]) == {0, 2 * half}


def test_what_no_query_of_a_rank_sees_is_not_computed(pools):
    """Under a window, contiguous parts see themselves and the end of the part before."""
    n, window = 96, 5
    counts = pools(4)(rank_jobs.pairs_computed, RING, n, mask="causal window", layout="contiguous")
    assert sum(counts) == masks.sliding_window(n, window=window, is_causal=True).count()
    queries, keys = range(24, 48), range(24)
    mask = masks.sliding_window(n, window=window, is_causal=True)
    (tile,) = _blocks.tiles((queries,), (keys,), is_causal=True, mask=mask)
    assert tile.mask is not None
    assert not _blocks.tiles((range(48, 72),), (keys,), is_causal=True, mask=mask)
    two = (range(2),)
    (inside,) = _blocks.tiles(two, two, is_causal=False, mask=masks.packed([9]))
    assert inside.mask is None  # for all of it is allowed


@pytest.mark.claim("ring-passes-each-block-once")
@every("layout", LAYOUTS)
@every("n", [48, 37])
def test_keys_and_values_go_round_once(n, layout, ranks):
    """Counted where they are handed over: p - 1 blocks forward, and with their gradients back."""
    size = len(ranks.connections)
    found = ranks(rank_jobs.bytes_sent, RING, n, layout=layout)
    one = 2 * 3 * (rank_jobs.D_K + rank_jobs.D_V) * 8  # bytes of a position, all key heads
    lengths = [
        length(rank_positions(n, ranks=size, rank=rank, layout=layout)) for rank in range(size)
    ]
    for rank, (forward, backward, asked, asked_back, messages) in enumerate(found):
        passed = n - lengths[(rank + 1) % size]  # all but the block that the next rank began with
        assert forward == passed * one
        # A rank passes on the gradients of every block but its own.
        assert backward == (passed + n - lengths[rank]) * one
        assert asked == asked_back == 24 * (size - 1)
        assert {peer for peer, _ in messages} == {(rank + 1) % size}


@pytest.mark.claim("unneeded-steps-are-not-sent")
@pytest.mark.parametrize("size", [4, pytest.param(8, marks=pytest.mark.audit)])
def test_steps_that_nobody_needs_are_not_sent(size, pools):
    """Contiguous parts under a causal window need the part before theirs: one step of all."""
    n = 80
    one = n // size * 2 * 3 * (rank_jobs.D_K + rank_jobs.D_V) * 8
    options = {"mask": "causal window", "layout": "contiguous"}
    for rank, found in enumerate(pools(size)(rank_jobs.bytes_sent, RING, n, **options)):
        forward, backward, *_, messages = found
        assert (forward, backward) == (one, 2 * one)
        assert {peer for peer, _ in messages} == {(rank + 1) % size}
    # What is n / 2 away is half the ranks further on, and the ring goes there in one step.
    options = {"mask": "far", "layout": "contiguous"}
    for rank, found in enumerate(pools(size)(rank_jobs.bytes_sent, RING, n, **options)):
        forward, *_, messages = found
        assert forward == one
        assert {peer for peer, _ in messages} == {(rank + size // 2) % size}


def test_half_precision_travels_as_it_is_and_its_gradients_in_float32(pools):
    found = pools(2)(rank_jobs.bytes_sent, RING, 16, dtype=torch.bfloat16)
    numbers = 8 * 2 * 3 * (rank_jobs.D_K + rank_jobs.D_V)
    assert {one[:2] for one in found} == {(2 * numbers, (2 + 4) * numbers)}


@pytest.mark.claim("ring-holds-a-part")
def test_memory_is_that_of_a_part(pools):
    """The same with more ranks of as many tokens each; half of it for the same tokens on twice."""
    sizes = ((4, 2048), (8, 4096), (8, 2048))
    four, eight, half = (pools(size)(rank_jobs.peak, RING, n)[1] for size, n in sizes)
    assert eight <= 1.01 * four
    assert half <= 0.51 * four
    assert four < 2 * 512**2 * 4 / 2  # half the bytes of the scores of one step


def test_what_is_refused(one_rank):
    x = torch.ones(3, 2)
    for mask, error, message in (
        (
            torch.ones(3, 3).bool(),
            TypeError,
            "attn_mask: expected a mask of attnref.masks over the",
        ),
        (
            "causal",
            TypeError,
            "attn_mask: expected a torch.Tensor or a mask of attnref.masks, got str. Convert "
            "it with torch.as_tensor(attn_mask).",
        ),
        (
            masks.causal(4),
            ValueError,
            "attn_mask: expected a shape that broadcasts to the scores (3",
        ),
    ):
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            ring_attention(x, x, x, attn_mask=mask)
