"""Trees of drafts: the mask, the positions, and each path computed as if it were alone."""

import random
import re
from functools import partial

import pytest
import torch

from attnref import KVCache, MultiHeadAttention, blockwise_attention, masks
from attnref.masks import Mask
from attnref.positions import rotary
from attnref.reference import scaled_dot_product_attention
from tests.masks.definitions import PARENTS
from tests.variants.every import every

# Two layers of sums of some tens of products of numbers near 1, in float64: each sum is off by
# some tens of roundings of 2.2e-16, and the next layer magnifies that by less than a hundred.
BOUND = 1e-11

CHAIN, STAR, ROOTS = [-1, 0, 1, 2, 3], [-1, 0, 0, 0, 0], [-1, -1, -1, -1, -1]
FORESTS = {
    "one": [-1],
    "chain": CHAIN,
    "star": STAR,
    "roots": ROOTS,
    "binary": [-1, 0, 0, 1, 1, 2, 2],
    "forest": [-1, -1, 0, 1, 1, 2, 4, 0, 2, 7, 5],
}


def path(parents, node):
    """From the root to the node, by walking up."""
    nodes = [node]
    while parents[nodes[0]] >= 0:
        nodes.insert(0, parents[nodes[0]])
    return nodes


def random_forest(n, numbers):
    """Parents of n nodes, which may come in any order."""
    order = numbers.sample(range(n), n)
    parents = [-1] * n
    for place, node in enumerate(order):
        if place and numbers.random() < 0.85:
            parents[node] = order[numbers.randrange(place)]
    return parents


@pytest.mark.claim("tree-pairs")
@every("seed", range(30))
def test_random_forests_are_what_walking_up_finds(seed, device):
    numbers = random.Random(seed)
    n, past = numbers.randrange(1, 23), numbers.choice([0, 1, 7])
    parents = random_forest(n, numbers)
    expected = torch.zeros(n, past + n, dtype=torch.bool, device=device)
    expected[:, :past] = True
    for node in range(n):
        expected[node, [past + other for other in path(parents, node)]] = True
    given = torch.tensor(parents, dtype=torch.int32, device=device)
    mask = masks.tree(given, past=past)
    assert torch.equal(mask.dense(device), expected)
    depths = [len(path(parents, node)) - 1 for node in range(n)]
    assert (mask.dense(device).sum(-1) - 1).tolist() == [past + depth for depth in depths]
    assert mask.count() == n * (past + 1) + sum(depths)


@pytest.mark.claim("chain-is-causal")
@every("past", [0, 1, 13])
def test_a_chain_is_causal_and_a_star_sees_its_middle(past, device):
    chain = masks.tree(CHAIN, past=past).dense(device)
    assert torch.equal(chain, masks.causal(5, past + 5, alignment="bottom-right").dense(device))
    star = masks.tree(STAR, past=past).dense(device)[:, past:]
    assert star.tolist() == [[i == j or j == 0 for j in range(5)] for i in range(5)]
    assert torch.equal(
        masks.tree(ROOTS).dense(device), torch.eye(5, dtype=torch.bool, device=device)
    )


def test_a_deep_chain_needs_no_recursion():
    n = 5003
    chain = torch.arange(-1, n - 1)
    assert masks.tree(chain, past=3).count() == 3 * n + n * (n + 1) // 2


def test_no_nodes_at_all_and_several_trees(device):
    nothing = torch.zeros(2, 0, dtype=torch.long, device=device)
    assert masks.tree([], past=3).dense(device).shape == (0, 3)
    assert masks.tree(nothing, past=3).dense(device).shape == (2, 1, 0, 3)
    assert masks.tree(nothing.mT).dense(device).shape == (0, 1, 2, 2)
    several = masks.tree([CHAIN, STAR, [1, 2, 3, 4, -1]]).dense(device)
    seen = [[[1, 2, 3, 4, 5]], [[1, 2, 2, 2, 2]], [[5, 4, 3, 2, 1]]]
    assert several.sum(-1).tolist() == seen


# Each path as if it were alone -------------------------------------------------------------------


HEADS, KEY_HEADS, D_K, D_V = 6, 3, 4, 5


def drawn(randn, past, n):
    """Query of the nodes, and key and value of the past and of them, that ask for gradients."""
    shapes = ((HEADS, n, D_K), (KEY_HEADS, past + n, D_K), (KEY_HEADS, past + n, D_V))
    return [randn(2, *shape).requires_grad_() for shape in shapes]


def turned(query, key, parents, past):
    """Rotated by the positions: 0, 1, … for the past, and each node by its depth behind it."""
    depths = masks.tree(parents).dense(query.device).sum(-1) - 1
    older, nodes = key[..., :past, :], key[..., past:, :]
    nodes = rotary(nodes, offset=past, positions=depths)
    return (rotary(query, offset=past, positions=depths), torch.cat([rotary(older), nodes], dim=-2))


def alone(query, key, value, parents, past, node):
    """The row of a node, its path the only text behind the past, with positions in a row."""
    nodes = path(parents, node)
    text = [*range(past), *(past + one for one in nodes)]
    q = rotary(query[..., nodes, :], offset=past)
    k, v = rotary(key[..., text, :]), value[..., text, :]
    mask = masks.causal(len(nodes), len(text), alignment="bottom-right").dense(query.device)
    rows = scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return rows[..., -1:, :]


def definition(query, key, value, mask):
    return scaled_dot_product_attention(
        query, key, value, mask.dense(query.device), enable_gqa=True
    )


def blockwise(query, key, value, mask):
    return blockwise_attention(query, key, value, mask, enable_gqa=True)


@pytest.mark.claim("each-path-as-if-alone")
@pytest.mark.parametrize("attention", [definition, blockwise])
@pytest.mark.parametrize("past", [0, 7])
@every("name", [*FORESTS, "any order"])
def test_each_path_is_computed_as_if_it_were_alone(name, past, attention, randn):
    """Values and gradients of one pass under the mask, and of a pass for each node's path."""
    parents = FORESTS.get(name, PARENTS)
    n = len(parents)
    query, key, value = inputs = drawn(randn, past, n)
    mask = masks.tree(parents, past=past)
    together = attention(*turned(query, key, parents, past), value, mask)
    apart = torch.cat([alone(*inputs, parents, past, node) for node in range(n)], dim=-2)
    torch.testing.assert_close(together, apart, rtol=BOUND, atol=BOUND)
    weight = randn(*together.shape)
    torch.testing.assert_close(
        torch.autograd.grad(together, inputs, weight),
        torch.autograd.grad(apart, inputs, weight),
        rtol=BOUND,
        atol=BOUND,
    )


@pytest.mark.claim("tree-window-needs-positions")
def test_a_window_goes_by_positions_not_by_places(randn, device):
    """With & a sliding window counts places; a rule of positions and the tree give each path's."""
    parents, past, window = FORESTS["forest"], 7, 4
    n = len(parents)
    depths = masks.tree(parents).dense(device).sum(-1) - 1
    where = torch.cat([torch.arange(past, device=device), past + depths])  # (past + n,)

    def near(i, j):
        return where[past + i] - where[j] < window

    mask = masks.tree(parents, past=past) & Mask((n, past + n), near)
    allowed = mask.dense(device)
    for node in range(n):
        text = [*range(past), *(past + one for one in path(parents, node))]
        assert allowed[node].nonzero().flatten().tolist() == sorted(text[-window:])
    places = masks.sliding_window(
        n, past + n, window=window, is_causal=True, alignment="bottom-right"
    )
    assert (masks.tree(parents, past=past) & places).count() < mask.count()


def test_blockwise_attention_asks_for_a_part_of_the_mask_at_a_time(randn, monkeypatch):
    n, past, asked = 1511, 13, []
    block = Mask.block

    def seen(self, rows, columns, place=None):
        part = block(self, rows, columns, place)
        asked.append(part.numel())
        return part

    monkeypatch.setattr(Mask, "block", seen)
    monkeypatch.setattr("attnref.variants.blockwise._PAIRS_AT_ONCE", n * n // 3)
    query, key, value = (randn(1, 1, size, 4) for size in (n, past + n, past + n))
    mask = masks.tree(random_forest(n, random.Random(0)), past=past)
    rows = blockwise_attention(query, key, value, mask)
    assert len(asked) > 1
    assert max(asked) < n * (past + n)
    expected = scaled_dot_product_attention(query, key, value, mask.dense(query.device))
    torch.testing.assert_close(rows, expected, rtol=BOUND, atol=BOUND)


# A model, its caches, and what is kept of them ----------------------------------------------------


WIDTH = 10


@pytest.fixture
def layers(generator, device):
    """Two layers with rotary positions and shared key heads."""
    make = partial(MultiHeadAttention, WIDTH, HEADS, num_kv_heads=KEY_HEADS, head_dim=D_K)
    options = {"generator": generator, "device": device, "dtype": torch.float64}
    return [make(value_head_dim=D_V, rotate=rotary, **options) for _ in range(2)]


def model(layers, tokens, caches, **options):
    """Both layers over the newest tokens, each with its own cache."""
    for layer, cache in zip(layers, caches, strict=True):
        tokens = tokens + layer(tokens, is_causal=True, cache=cache, **options)
    return tokens


def read(layers, *parts, max_length=None):
    """The rows of all tokens, and the caches that hold them."""
    caches = [KVCache(max_length) for _ in layers]
    return torch.cat([model(layers, part, caches) for part in parts], dim=-2), caches


@pytest.mark.claim("each-path-as-if-alone")
@pytest.mark.parametrize("past", [0, 3])
@every("name", FORESTS)
def test_one_pass_of_a_model_gives_the_rows_of_every_path(name, past, layers, randn):
    """Values, and gradients of both layers' weights, of the past and of the nodes."""
    parents = FORESTS[name]
    n = len(parents)
    before, drafts = randn(2, past, WIDTH).requires_grad_(), randn(2, n, WIDTH).requires_grad_()
    _, caches = read(layers, before)
    depths = masks.tree(parents).dense(drafts.device).sum(-1) - 1
    mask = masks.tree(parents, past=past)
    together = model(layers, drafts, caches, attn_mask=mask, positions=depths)
    apart = torch.cat(
        [
            read(layers, torch.cat([before, drafts[:, path(parents, node)]], 1))[0][:, -1:]
            for node in range(n)
        ],
        dim=1,
    )
    torch.testing.assert_close(together, apart, rtol=BOUND, atol=BOUND)
    weight = randn(*together.shape)
    leaves = [drafts, *(parameter for layer in layers for parameter in layer.parameters())]
    leaves += [before] if past else []
    for ours, theirs in zip(
        torch.autograd.grad(together, leaves, weight),
        torch.autograd.grad(apart, leaves, weight),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=10 * BOUND, atol=10 * BOUND)


@pytest.mark.claim("accepted-path-is-kept")
@pytest.mark.parametrize("max_length", [None, 23])
@every("accepted", [[0], [0, 2], [1, 4, 6], [0, 2, 5, 10], []])
def test_what_is_kept_of_an_accepted_path_goes_on_as_if_it_had_been_read(
    max_length, accepted, layers, randn
):
    """The other drafts leave no trace in what comes after, in both kinds of cache."""
    parents, past = FORESTS["forest"], 3
    before, drafts, after = (randn(2, size, WIDTH) for size in (past, len(parents), 4))
    with torch.no_grad():
        _, caches = read(layers, before, max_length=max_length)
        depths = masks.tree(parents).dense(drafts.device).sum(-1) - 1
        mask = masks.tree(parents, past=past)
        model(layers, drafts, caches, attn_mask=mask, positions=depths)
        for cache in caches:
            cache.keep(accepted, after=past)
            assert cache.length == past + len(accepted)
        rows = model(layers, after, caches)
        text = torch.cat([before, drafts[:, accepted], after], dim=1)
        whole, others = read(layers, text)
    torch.testing.assert_close(rows, whole[:, -4:], rtol=BOUND, atol=BOUND)
    for cache, other in zip(caches, others, strict=True):
        for kept, made in zip(cache._stored, other._stored, strict=True):
            kept = kept[..., : cache.length, :]
            torch.testing.assert_close(kept, made, rtol=BOUND, atol=BOUND)


# What is refused ---------------------------------------------------------------------------------


A_CIRCLE = "parents: expected each node to lead to -1, got a circle through node"


INTEGERS = "parents: expected integers of shape (n,) or (b, n), got"


@every(
    ("parents", "text"),
    [
        ([-2, 0], "parents: expected an integer of -1 or more, got -2. Give each node the number"),
        ([-1, 0, 3], "parents: expected an integer between -1 and 2, got 3. Give each node the"),
        ([0], f"{A_CIRCLE} 0. A node continues a token of its own path, never one of its descend"),
        ([-1, 2, 3, 1, 3, 4], f"{A_CIRCLE} 1."),
        ([3, -1, 3, 2], f"{A_CIRCLE} 2."),
        ([[-1, 0], [1, 0]], f"{A_CIRCLE} 0."),
        ([-1.0, 0.0], f"{INTEGERS} shape (2,) of torch.float32. Give each node the number of"),
        (torch.tensor([False, True]), f"{INTEGERS} shape (2,) of torch.bool."),
        (-1, f"{INTEGERS} shape () of torch.int64."),
        ([[-1, 0], [-1]], f"{INTEGERS} list, which is no tensor: rows differ in length, or entr"),
        (["a"], f"{INTEGERS} list, which is no tensor"),
        (None, f"{INTEGERS} NoneType, which is no tensor"),
        ([2**70], f"{INTEGERS} list, which is no tensor"),
    ],
)
def test_what_is_no_tree_is_refused(parents, text):
    other = re.search(r"float|bool|no tensor", text)
    with pytest.raises(TypeError if other else ValueError, match=f"^{re.escape(text)}"):
        masks.tree(parents)


@every("past", [-1, 2.0, True, None])
def test_what_is_no_past_is_refused(past):
    text = f"past: expected an integer of 0 or more, got {past}. It counts the tokens before the"
    with pytest.raises(ValueError if past == -1 else TypeError, match=f"^{re.escape(text)}"):
        masks.tree([-1], past=past)


@pytest.mark.claim("places-are-no-positions")
@pytest.mark.claim("each-path-as-if-alone")
def test_places_in_the_cache_are_no_positions(randn, device):
    """Turned by their depths, the rows are those of each path alone; by their places, not."""
    parents, past = FORESTS["binary"], 5
    query, key, value = inputs = drawn(randn, past, len(parents))
    apart = torch.cat([alone(*inputs, parents, past, node) for node in range(len(parents))], -2)
    mask = masks.tree(parents, past=past).dense(device)
    by_depth, by_place = (
        scaled_dot_product_attention(q, k, value, mask, enable_gqa=True)
        for q, k in (
            turned(query, key, parents, past),
            (rotary(query, offset=past), rotary(key)),
        )
    )
    torch.testing.assert_close(by_depth, apart, rtol=BOUND, atol=BOUND)
    assert (by_place - apart).abs().max() > 0.05
