"""Ranks that differ: an error on each of them, which names who differs in what."""

import operator
import pickle
from functools import partial

import pytest
import torch

from attnref import masks
from attnref.distributed import _agreement, _masks
from tests.distributed import rank_jobs
from tests.distributed.processes import Failure

SAME = "ring_attention: expected the same"
OTHERS = (
    "the other 3. All ranks call the same functions in the same order, with tensors that differ in "
    "their length alone."
)
DIFFERENT = {  # in what, and how the message begins and ends
    rank_jobs.to_float32: (f'{SAME} dtype on all ranks, got "torch.float32" on rank 2 and', OTHERS),
    rank_jobs.fewer_heads: (f"{SAME} shape of key (length apart) on all ranks, got [2, 1", OTHERS),
    rank_jobs.add_causality: (
        f"{SAME} is_causal on all ranks, got true on rank 2 and false on",
        OTHERS,
    ),
    rank_jobs.set_striped: (
        f'{SAME} layout on all ranks, got "striped" on rank 2 and "zigzag" on the other 3.',
        OTHERS,
    ),
    rank_jobs.detach: (f"{SAME} need of gradients on all ranks, got false on", OTHERS),
    rank_jobs.drop_row: (
        "query: expected the parts of 15 positions in the layout 'zigzag', of lengths 3, 4, 4, 4 ",
        "by rank, got 4, 4, 3, 4 by rank. Cut them with attnref.distributed.shard(..., "
        "layout='zigzag').",
    ),
}

WINDOW = masks.sliding_window(16, window=3, is_causal=True)
CONTENT = f"{SAME} content of attn_mask (allowed pairs, digest) on all ranks, got [58, "


def outcomes(pool, job, *arguments, **options):
    pool.begin([(job, arguments, options)] * len(pool.connections))
    return pool.outcomes()


@pytest.mark.claim("differing-ranks-are-named")
@pytest.mark.parametrize("change", DIFFERENT)
def test_who_differs_is_named_on_every_rank(change, pools):
    pool = pools(4)
    for failure in outcomes(pool, rank_jobs.attend, rank=2, change=change, n=16):
        assert isinstance(failure, Failure)
        assert failure.kind == "ValueError"
        beginning, end = DIFFERENT[change]
        assert failure.message.startswith(beginning)
        assert failure.message.endswith(end)
    assert pool(rank_jobs.attend) == [True] * 4  # and the group is as good as before


@pytest.mark.claim("differing-ranks-are-named")
@pytest.mark.parametrize("change", [rank_jobs.other_window, rank_jobs.own_rule])
def test_masks_of_one_shape_that_allow_other_pairs(change, pools):
    options = {"change": change, "attn_mask": WINDOW}
    for failure in outcomes(pools(4), rank_jobs.attend, rank=2, n=16, **options):
        assert failure.kind == "ValueError"
        assert failure.message.startswith(CONTENT)
        assert "on rank 2 and [45, " in failure.message


def test_masks_made_in_different_ways_may_be_the_same(pools):
    options = {"change": rank_jobs.same_window, "attn_mask": WINDOW}
    assert pools(2)(rank_jobs.attend, n=16, rank=1, **options) == [True, True]


def test_masks_made_alike_are_compared_without_a_look_at_their_pairs(monkeypatch):
    """Of each kind: those that differ in a number or in a tensor are told apart."""
    monkeypatch.setattr(masks.Mask, "block", None)
    n = 16
    kinds = [
        *(masks.sliding_window(n, window=w, is_causal=True) for w in (3, 4)),
        *(masks.dilated(n, window=3, dilation=d) for d in (1, 2)),
        *(masks.padding([k], n) for k in (3, 4)),
        *(masks.packed([k, n - k]) for k in (3, 4)),
        *(masks.causal(n) & masks.padding([k], n) for k in (3, 4)),
        *(~masks.prefix_lm(n, prefix=k) for k in (3, 4)),
        masks.tree([-1, 0, 0]).expand((2, 3, 3)),
    ]
    made = [_masks._origin_digest(mask) for mask in kinds]
    assert len(set(made)) == len(kinds)
    assert _masks._UNKNOWN not in made
    assert made == [_masks._origin_digest(pickle.loads(pickle.dumps(mask))) for mask in kinds]
    for rule in (lambda i, j: j <= i, partial(torch.less, 3.0), partial(operator.lt, b=3)):
        assert _masks._origin_digest(masks.Mask((n, n), rule)) == _masks._UNKNOWN


def test_what_one_rank_refuses_is_said_on_all(pools):
    own = "key: expected last dimension 4, as query has, got shape (2, 3, 4, 5) beside query"
    for rank, failure in enumerate(
        outcomes(pools(4), rank_jobs.attend, n=16, rank=1, change=rank_jobs.drop_component)
    ):
        assert failure.kind == "ValueError"
        beginning = "ring_attention: rank 1 refused its arguments, and the others cannot go on"
        assert failure.message.startswith(own if rank == 1 else beginning)
        assert own in failure.message


def test_ranks_that_call_different_functions(pools):
    for rank, failure in enumerate(outcomes(pools(4), rank_jobs.another_function, 0)):
        name = "ring_attention" if rank else "gather"
        same = f'{name}: expected the same function on all ranks, got "gather" on rank 0 and'
        assert failure.message.startswith(same)


def test_backward_passes_in_another_order(pools):
    for failure in outcomes(pools(2), rank_jobs.backward_in_another_order, 0):
        assert "expected the same backward pass of its call number on all ranks" in failure.message


def test_a_long_refusal_still_fits():
    """In JSON a character may take six bytes."""
    assert 6 * _agreement._CHARACTERS + 512 < _agreement._ROOM
