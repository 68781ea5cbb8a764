"""Attention to gathered keys, over heads, over a mesh, and decoding: the same function each."""

import re

import pytest
import torch
import torch.distributed as dist
from torch.autograd import forward_ad

from attnref import masks
from attnref.distributed import (
    gather,
    gather_attention,
    mesh_attention,
    ring_attention,
    split_kv_attention,
    ulysses_attention,
)
from attnref.layouts import LAYOUTS, cut, length, rank_positions
from tests.distributed import rank_jobs
from tests.distributed.processes import Failure
from tests.variants.every import every

ONE = (rank_jobs.D_K + rank_jobs.D_V) * 8  # bytes of a position's key and value in one head


@pytest.mark.claim("shared-ways-are-one-function")
@every("layout", LAYOUTS)
@every("is_causal", [False, True])
def test_gathered_keys(layout, is_causal, ranks):
    options = {"layout": layout, "is_causal": is_causal}
    assert all(ranks(rank_jobs.matches_reference, "gather_attention", 37, **options))
    ranks(rank_jobs.matches_reference, "gather_attention", 5, 11, mask=None, **options)


@pytest.mark.claim("shared-ways-are-one-function")
@every("layout", LAYOUTS)
@every("is_causal", [False, True])
def test_heads(layout, is_causal, ranks):
    size = len(ranks.connections)
    options = {"layout": layout, "is_causal": is_causal}
    options |= {"lead": (2, 2 * size), "key_lead": (2, size)}
    assert all(ranks(rank_jobs.matches_reference, "ulysses_attention", 37, **options))
    ranks(rank_jobs.matches_reference, "ulysses_attention", 5, 11, **options)


@pytest.mark.claim("shared-ways-are-one-function")
@pytest.mark.parametrize(
    "mesh",
    [
        (2, 2),
        *(pytest.param(mesh, marks=pytest.mark.audit) for mesh in ((2, 4), (4, 2), (3, 1), (1, 3))),
    ],
)
@every("layout", LAYOUTS)
@every("is_causal", [False, True])
def test_meshes(mesh, layout, is_causal, pools):
    heads = {"lead": (1, 2 * mesh[1]), "key_lead": (2, mesh[1])}
    options = {"mesh": mesh, "layout": layout, "is_causal": is_causal, **heads}
    pool = pools(mesh[0] * mesh[1])
    assert all(pool(rank_jobs.matches_reference, "mesh_attention", 37, **options))
    pool(rank_jobs.matches_reference, "mesh_attention", 23, 5, **options)


@pytest.mark.parametrize("name", ["causal window", "documents", "padding", "nothing"])
def test_masks(name, pools):
    options = {"mask": name, "is_causal": True, "lead": (2, 8), "key_lead": (2, 4)}
    for function in ("gather_attention", "ulysses_attention"):
        pools(4)(rank_jobs.matches_reference, function, 31, **options)
    pools(4)(rank_jobs.matches_reference, "mesh_attention", 31, mesh=(2, 2), **options)


def test_gathering_sends_each_part_to_all(pools):
    """Padded to the longest part, 10 of 37; gradients go to their owners as they are."""
    for rank, found in enumerate(pools(4)(rank_jobs.bytes_sent, "gather_attention", 37)):
        own = length(rank_positions(37, ranks=4, rank=rank, layout="zigzag"))
        forward, backward, asked, asked_back, _ = found
        assert forward == 3 * 10 * 6 * ONE
        assert backward == forward + (37 - own) * 6 * ONE
        assert asked == asked_back == 3 * 24


def test_heads_are_sent_to_the_ranks_that_compute_them(pools):
    """Of 8 heads and 4 key heads, each rank keeps a quarter and sends the rest, and so back."""
    found = pools(4)(rank_jobs.bytes_sent, "ulysses_attention", 37, heads=(8, 4))
    for rank, (forward, backward, asked, asked_back, _) in enumerate(found):
        own = length(rank_positions(37, ranks=4, rank=rank, layout="zigzag"))
        arrives = 2 * 3 * own * (2 * rank_jobs.D_K + rank_jobs.D_K + rank_jobs.D_V) * 8
        leaves = 2 * (37 - own) * 2 * rank_jobs.D_V * 8
        assert forward == arrives + leaves
        back = 2 * (37 - own) * (2 * rank_jobs.D_K + rank_jobs.D_K + rank_jobs.D_V) * 8
        assert backward == 2 * 3 * own * 2 * rank_jobs.D_V * 8 + back
        assert asked == asked_back == 3 * 24


def test_a_mesh_sends_less_than_a_ring(pools):
    """Its ring has two ranks of half the heads."""
    ring = pools(4)(rank_jobs.bytes_sent, "ring_attention", 64, heads=(2, 2))
    mesh = pools(4)(rank_jobs.bytes_sent, "mesh_attention", 64, heads=(2, 2), mesh=(2, 2))
    for one, other in zip(ring, mesh, strict=True):
        assert one[0] == 3 * 16 * 4 * ONE
        turned = 16 * 2 * (3 * rank_jobs.D_K + 3 * rank_jobs.D_V - rank_jobs.D_K - rank_jobs.D_V)
        assert other[0] == 32 * 2 * ONE + turned * 8
    # The numbers told to agree: to 1 of a row, then for both of them to 1 of a column.
    assert {found[2] for found in mesh} == {24 + 48}


@pytest.mark.claim("split-cache-sends-results-only")
@every("n", [1, 3])
@every("mask", [False, True])
def test_decoding_from_a_divided_cache(mask, n, pools):
    sent = {2: set(), 4: set()}  # by the number of ranks
    for size, lengths in ((2, (5, 12)), (2, (61, 2)), (4, (7, 0, 11, 3)), (4, (1, 1, 1, 2))):
        (first, *others), counts = zip(
            *pools(size)(rank_jobs.decode, n, lengths, mask=mask), strict=True
        )
        assert all(torch.equal(first, one) for one in others)
        sent[size].update(counts)
    assert [len(counts) for counts in sent.values()] == [1, 1]


@pytest.mark.claim("ring-judged-by-pytorch")
@pytest.mark.parametrize("is_causal", [False, True])
def test_pytorch_finds_the_same_in_its_ring(is_causal, pools):
    """Its template takes any kernel; context_parallel itself knows those of GPUs alone."""
    assert all(pools(4)(rank_jobs.pytorch_ring, 32, is_causal))


def test_cut_takes_a_contiguous_piece_of_what_is_held():
    parts = rank_positions(37, ranks=3, rank=1, layout="zigzag")
    pieces = [cut(parts, ranks=4, rank=rank) for rank in range(4)]
    assert [i for piece in pieces for part in piece for i in part] == [i for x in parts for i in x]
    assert max(map(length, pieces)) - min(map(length, pieces)) <= 1


def outcomes(pool, job, *arguments, **options):
    pool.begin([(job, arguments, options)] * len(pool.connections))
    return pool.outcomes()


def test_on_a_mesh_all_ranks_hear_who_differs(pools):
    for failure in outcomes(pools(4), rank_jobs.differ_on_a_mesh, 3):
        assert isinstance(failure, Failure)
        same = "mesh_attention: expected the same is_causal on all ranks, got true on rank 3 and"
        assert failure.message.startswith(same)


def test_heads_that_ranks_do_not_divide_are_refused(pools):
    options = {"lead": (2, 6), "key_lead": (2, 3)}
    for failure in outcomes(
        pools(2), rank_jobs.matches_reference, "ulysses_attention", 8, **options
    ):
        wanted = (
            "key: expected a number of heads (dimension -3) that 2 ranks divide, got shape (2, "
        )
        assert failure.message.startswith(wanted)


def test_what_is_refused(one_rank):
    x, line = torch.ones(2, 3, 2), dist.init_device_mesh("cpu", (1,))
    several, learning = masks.causal(3).expand((2, 3, 3)), x.clone().requires_grad_()
    two = "mesh: expected a DeviceMesh of two dimensions, the ring and the heads, got"
    for function, arguments, options, message in (
        (
            ulysses_attention,
            [x] * 3,
            {"attn_mask": several},
            "attn_mask: expected one mask for all",
        ),
        (mesh_attention, [x] * 3, {"mesh": None}, f"{two} NoneType. Make it with init_device_mesh"),
        (mesh_attention, [x] * 3, {"mesh": line}, f"{two} 1 dimensions. Make it with"),
        (
            split_kv_attention,
            [learning, x, x],
            {},
            "query: expected tensors without gradients, got",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            function(*arguments, **options)


WAYS = [ring_attention, gather_attention, ulysses_attention, mesh_attention]


def test_a_gradient_penalty_is_refused(one_rank):
    """Of what has no record; also in a loss that depends on the output itself."""
    x = torch.ones(1, 3, 2, requires_grad=True)
    output = gather(x)
    message = (
        r"^gather: expected a backward pass without create_graph=True, .* penalty would be los"
    )
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(output.sum(), x, create_graph=True)
    output.sum().backward()
    assert x.grad is not None


def dual(call, x):
    with forward_ad.dual_level():
        call(forward_ad.make_dual(x, x))


TRANSFORMS = {
    lambda call, x: torch.func.vmap(call)(x[None]): "vmap, grad, jvp or another transform",
    lambda call, x: torch.func.vjp(call, x): "vmap, grad, jvp or another transform",
    lambda call, x: torch.func.jvp(call, (x,), (x,)): "vmap, grad, jvp or another transform",
    dual: "forward mode",
}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@every("way", [*WAYS, split_kv_attention, gather])
def test_transforms_are_refused(way, one_rank):
    x = torch.ones(2, 1, 3, 2)
    options = {"mesh": dist.init_device_mesh("cpu", (1, 1))} if way is mesh_attention else {}

    def call(query):
        return way(query) if way is gather else way(query, x, x, **options)

    for transform, got in TRANSFORMS.items():
        name = "tensor" if way is gather else "query"
        message = f"{name}: expected a tensor outside of torch.func, got one inside {got}."
        with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
            transform(call, x)


@pytest.mark.parametrize("name", ["ring", "ulysses"])
def test_the_minimal_function_of_each_rank(name, pools):
    assert all(pools(4)(rank_jobs.minimal_matches_reference, name, 12))
