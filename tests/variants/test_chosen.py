"""MoBA, the indexer and native sparse attention: the definition under the mask that was chosen.

What is chosen is compared with a choice made row by row in NumPy, apart from the functions.
"""

import re
from functools import partial

import numpy as np
import pytest
import torch

import attnref
from attnref.variants.indexer import index_scores, indexer_attention, indexer_choice
from attnref.variants.moba import moba_attention, moba_choice
from attnref.variants.native_sparse import native_sparse_attention, native_sparse_choice

B, D_K, D_V, D_I, H_I = 3, 5, 7, 11, 2
BOTH = pytest.mark.parametrize("is_causal", [False, True])
COUNTS = pytest.mark.parametrize("count", [1, 2, 3, 97])
SIZES = pytest.mark.parametrize(("n", "m", "past"), [(17, 17, 0), (19, 13, 0), (5, 17, 12)])


def tokens(randn, n, m, heads=(2, 6), key_heads=None):
    key_lead = heads if key_heads is None else (*heads[:-1], key_heads)
    shapes = (*heads, n, D_K), (*key_lead, m, D_K), (*key_lead, m, D_V)
    return [randn(*shape).requires_grad_() for shape in shapes]


def index(randn, n, m, lead=(2,)):
    shapes = (*lead, H_I, n, D_I), (*lead, m, D_I), (*lead, H_I, n)
    return [randn(*shape).requires_grad_() for shape in shapes]


def means(x):
    return torch.stack([block.mean(-2) for block in x.split(B, -2)], -2)


def best(scores, count):
    """The places of the largest numbers of a row that are not -inf."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [j for j in order if scores[j] > -np.inf]


def moba_row(query, key, position, count, is_causal):
    """Which keys a query of one head sees."""
    m = len(key)
    blocks = [range(first, min(first + B, m)) for first in range(0, m, B)]
    gates = np.array([query @ key[list(block)].mean(0) for block in blocks])
    position = position if is_causal else m
    for number, block in enumerate(blocks):
        if block.start > position:
            gates[number] = -np.inf
        elif is_causal and position // B == number:
            gates[number] = np.inf
    seen = np.zeros(m, bool)
    for number in best(gates, count):
        seen[[j for j in blocks[number] if j <= position]] = True
    return seen


# MoBA ------------------------------------------------------------------------------------------


@pytest.mark.claim("moba-is-the-definition-under-its-choice")
@pytest.mark.parametrize("grouped", [False, True])
@BOTH
@COUNTS
@SIZES
def test_moba_is_the_definition_under_its_choice(
    n, m, past, count, is_causal, grouped, randn, assert_same
):
    inputs = tokens(randn, n, m, key_heads=2 if grouped else None)
    past = past if is_causal else 0
    options = {"block_size": B, "count": count, "is_causal": is_causal, "past": past}
    options["enable_gqa"] = grouped
    mask = moba_choice(*inputs[:2], **options)
    expected = attnref.scaled_dot_product_attention(*inputs, mask, scale=0.7, enable_gqa=grouped)
    assert_same(moba_attention(*inputs, **options, scale=0.7), expected, inputs, 1e-11)


@BOTH
@COUNTS
@SIZES
def test_moba_chooses_the_blocks_of_the_best_means(n, m, past, count, is_causal, randn):
    query, key = randn(n, D_K), randn(m, D_K)
    past = past if is_causal else 0
    options = {"block_size": B, "count": count, "is_causal": is_causal, "past": past}
    found = moba_choice(query, key, **options).dense(query.device).cpu().numpy()
    queries, keys = query.cpu().numpy(), key.cpu().numpy()
    for i in range(n):
        row = moba_row(queries[i], keys, past + i, count, is_causal)
        assert (found[i] == row).all(), i


# The indexer -----------------------------------------------------------------------------------


@pytest.mark.claim("indexer-is-the-definition-under-its-choice")
@pytest.mark.parametrize("key_heads", [None, 2, 1])
@BOTH
@COUNTS
@SIZES
def test_the_indexer_is_the_definition_under_its_choice(
    n, m, past, count, is_causal, key_heads, randn, assert_same
):
    inputs, ranked = tokens(randn, n, m, key_heads=key_heads), index(randn, n, m)
    options = {"count": count, "is_causal": is_causal, "past": past if is_causal else 0}
    mask = indexer_choice(*ranked, **options).dense(inputs[0].device)[:, None]
    grouped = key_heads is not None
    expected = attnref.scaled_dot_product_attention(*inputs, mask, scale=0.7, enable_gqa=grouped)
    ours = indexer_attention(*inputs, *ranked, **options, scale=0.7, enable_gqa=grouped)
    assert_same(ours, expected, inputs, 1e-11)


@BOTH
@COUNTS
@SIZES
def test_the_indexer_keeps_the_keys_it_ranks_first(n, m, past, count, is_causal, randn):
    """Scores one by one, and each row sorted."""
    ranked = [x.detach() for x in index(randn, n, m, ())]
    past = past if is_causal else 0
    options = {"count": count, "is_causal": is_causal, "past": past}
    found = indexer_choice(*ranked, **options).dense(ranked[0].device).cpu().numpy()
    query, key, weights = (x.cpu().numpy() for x in ranked)
    scores = np.zeros((n, m))
    for i, j in np.ndindex(n, m):
        for h in range(H_I):
            scores[i, j] += weights[h, i] * max(query[h, i] @ key[j], 0.0)
    torch.testing.assert_close(index_scores(*ranked).cpu(), torch.from_numpy(scores))
    for i in range(n):
        row = scores[i].copy()
        if is_causal:
            row[i + past + 1 :] = -np.inf
        chosen = np.zeros(m, bool)
        chosen[best(row, count)] = True
        # Where all products are negative, scores are equal: 0. How many are kept is the same.
        assert found[i].sum() == chosen.sum()
        assert sorted(row[found[i]]) == pytest.approx(sorted(row[chosen]))


@pytest.mark.claim("indexer-gets-no-gradient-from-the-output")
def test_the_indexer_gets_no_gradient_from_the_output(randn):
    inputs, ranked = tokens(randn, 11, 11), index(randn, 11, 11)
    output = indexer_attention(*inputs, *ranked, count=3, is_causal=True)
    found = torch.autograd.grad(output.sum(), [*inputs, *ranked], allow_unused=True)
    assert all(gradient is not None for gradient in found[:3])
    assert found[3:] == (None, None, None)


@pytest.mark.claim("index-scores-learn-from-the-attention")
def test_the_loss_on_the_scores_leads_to_the_choice_of_the_heaviest_keys(device, generator, randn):
    """A few hundred steps on Kullback and Leibler's divergence keep more of the weight."""
    n, heads, count = 31, 2, 5
    query, key = randn(heads, n, D_K), randn(heads, n, D_K)
    weights = attnref.attention_weights(query, key, is_causal=True).mean(0)  # (n, n)
    ranked = index(randn, n, n, ())
    future = torch.ones(n, n, dtype=torch.bool, device=device).triu(1)

    def kept():
        mask = indexer_choice(*ranked, count=count, is_causal=True).dense(device)
        return float((weights * mask).sum() / n)

    before = kept()
    optimiser = torch.optim.Adam(ranked, lr=0.05)
    for _ in range(200):
        scores = index_scores(*ranked).masked_fill(future, -torch.inf)
        logs = torch.log_softmax(scores, -1).masked_fill(future, 0.0)
        loss = torch.nn.functional.kl_div(logs, weights, reduction="sum") / n
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    most = float(weights.sort(-1, descending=True).values[:, :count].sum() / n)
    assert most - kept() < (most - before) / 4


# Native sparse attention -----------------------------------------------------------------------


def sparse(function, **options):
    return partial(function, block_size=B, **options)


def by_definition(query, key, value, gates, mask, window, past, summaries=None, **options):
    """The three terms, each as the definition under its own mask."""
    n, m = query.shape[-2], key.shape[-2]
    position = past + torch.arange(n, device=query.device)[:, None]
    j = torch.arange(m, device=query.device)
    last = torch.arange(B - 1, B * -(-m // B), B, device=query.device)
    summaries = (means(key), means(value)) if summaries is None else summaries
    attend = partial(attnref.scaled_dot_product_attention, **options)
    terms = (
        attend(query, *summaries, last <= position),
        attend(query, key, value, mask),
        attend(query, key, value, (j <= position) & (j > position - window)),
    )
    return sum(gates[..., t : t + 1] * term for t, term in enumerate(terms))


@pytest.mark.claim("native-sparse-is-three-definitions")
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@COUNTS
@SIZES
def test_native_sparse_attention_is_three_definitions(
    n, m, past, count, grouped, given, randn, assert_same
):
    inputs = tokens(randn, n, m, key_heads=2 if grouped else None)
    gates = randn(2, 6, n, 3).requires_grad_()
    options = {"enable_gqa": grouped, "scale": 0.7}
    summaries = [randn(*x.shape[:2], -(-m // B), x.shape[-1]) for x in inputs[1:]]
    summaries = [x.requires_grad_() for x in summaries] if given else None
    extra = {"compressed_key": summaries[0]} if given else {}
    chosen = {"block_size": B, "count": count, "past": past}
    mask = native_sparse_choice(*inputs[:2], **chosen, **extra, **options)
    expected = by_definition(*inputs, gates, mask, 4, past, summaries, **options)
    extra |= {"compressed_value": summaries[1]} if given else {}
    ours = native_sparse_attention(*inputs, gates, window=4, **chosen, **extra, **options)
    assert_same(ours, expected, [*inputs, gates, *(summaries or [])], 1e-11)


@COUNTS
@SIZES
def test_native_sparse_attention_reads_what_its_summaries_point_at(n, m, past, count, randn):
    """Two query heads share a key head, and choose by the mean of their weights."""
    query, key = randn(2, n, D_K), randn(1, m, D_K)
    options = {"block_size": B, "count": count, "past": past, "enable_gqa": True}
    found = native_sparse_choice(query, key, **options).dense(query.device).cpu().numpy()
    queries, summaries = query.cpu().numpy(), means(key)[0].cpu().numpy()
    blocks = len(summaries)
    for i in range(n):
        position = past + i
        own, full = position // B, min((position + 1) // B, blocks)
        weights = np.zeros(blocks)
        for head in queries:
            powers = np.exp(summaries[:full] @ head[i] / D_K**0.5)
            weights[:full] += powers / powers.sum() / 2 if full else 0.0
        weights[own + 1 :] = -np.inf
        first = [number for number in (own, own - 1, 0) if 0 <= number < blocks]
        order = list(dict.fromkeys(first))
        order += [number for number in best(weights, blocks) if number not in order]
        chosen = {number for number in order[:count] if number <= own}
        row = [j // B in chosen and j <= position for j in range(m)]
        assert (found[:, i] == row).all(), i


@pytest.mark.claim("summaries-learn-where-to-read")
def test_of_the_three_terms_the_first_alone_reaches_the_summaries(randn):
    n = 17
    query, key, value = tokens(randn, n, n)
    summaries = [randn(2, 6, -(-n // B), d).requires_grad_() for d in (D_K, D_V)]
    given = {"compressed_key": summaries[0], "compressed_value": summaries[1]}
    for term in range(3):
        gates = torch.zeros(2, 6, n, 3, dtype=query.dtype, device=query.device)
        gates[..., term] = 1.0
        output = native_sparse_attention(
            query, key, value, gates, block_size=B, count=2, window=4, **given
        )
        reached = torch.autograd.grad(output.square().sum(), summaries)
        assert all((gradient != 0).any() == (term == 0) for gradient in reached)


# All three -------------------------------------------------------------------------------------


def functions(randn, n, m, count, lead=(2, 6), past=0):
    """Causal, as functions of query, key and value."""
    ranked = [x.detach() for x in index(randn, n, m, lead[:-1])]
    gates = randn(*lead, n, 3)
    chosen = {"count": count, "past": past}
    return {
        "moba": partial(moba_attention, block_size=B, is_causal=True, **chosen),
        "indexer": lambda q, k, v: indexer_attention(q, k, v, *ranked, is_causal=True, **chosen),
        "native_sparse": lambda q, k, v: native_sparse_attention(
            q, k, v, gates.to(q.dtype), block_size=B, window=4, **chosen
        ),
    }


NAMES = pytest.mark.parametrize("name", ["moba", "indexer", "native_sparse"])


@pytest.mark.claim("all-chosen-is-the-definition")
@pytest.mark.parametrize("name", ["moba", "indexer", "blocks of native_sparse"])
def test_with_everything_chosen_it_is_the_definition(name, randn, assert_same):
    n = 17
    inputs = tokens(randn, n, n)
    if name == "blocks of native_sparse":
        gates = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64, device=inputs[0].device)
        gates = gates.expand(2, 6, n, 3)
        ours = native_sparse_attention(*inputs, gates, block_size=B, count=6, window=1)
    else:
        ours = functions(randn, n, n, n)[name](*inputs)
    expected = attnref.scaled_dot_product_attention(*inputs, is_causal=True)
    assert_same(ours, expected, inputs, 1e-11)


@pytest.mark.claim("steps-with-a-cache-choose-the-same")
@NAMES
def test_steps_with_a_cache_give_what_the_whole_gives(name, randn):
    """Token by token, with the keys so far and ``past`` before each."""
    n = 17
    query, key, value = (x.detach() for x in tokens(randn, n, n))
    # Positive, or keys whose products are all negative would be equal: then any may be kept.
    ranked, gates = [x.detach().abs() for x in index(randn, n, n)], randn(2, 6, n, 3)

    def call(rows, stop):
        given = query[..., rows, :], key[..., :stop, :], value[..., :stop, :]
        options = {"count": 2, "past": rows.start}
        if name == "moba":
            return moba_attention(*given, block_size=B, is_causal=True, **options)
        if name == "native_sparse":
            options |= {"block_size": B, "window": 4}
            return native_sparse_attention(*given, gates[..., rows, :], **options)
        parts = ranked[0][..., rows, :], ranked[1][..., :stop, :], ranked[2][..., rows]
        return indexer_attention(*given, *parts, is_causal=True, **options)

    whole = call(slice(0, n), n)
    steps = torch.cat([call(slice(i, i + 1), i + 1) for i in range(n)], -2)
    torch.testing.assert_close(steps, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@NAMES
def test_derivatives_have_derivatives(name, randn):
    query, key, value = tokens(randn, 5, 7, heads=(1,))
    function = functions(randn, 5, 7, 2, lead=(1,))[name]
    assert torch.autograd.gradgradcheck(function, (query, key, value))
    assert torch.autograd.gradcheck(function, (query, key, value), check_forward_ad=True)


@NAMES
def test_it_compiles_whole_and_maps_over_a_batch(name, randn):
    query, key, value = (x.detach() for x in tokens(randn, 7, 11, heads=(3, 1)))
    function = functions(randn, 7, 11, 2, lead=(1,))[name]
    expected = torch.stack([function(*one) for one in zip(query, key, value, strict=True)])
    mapped = torch.vmap(function)(query, key, value)
    torch.testing.assert_close(mapped, expected, rtol=1e-12, atol=1e-12)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    found = compiled(query[0], key[0], value[0])
    torch.testing.assert_close(found, expected[0], rtol=1e-12, atol=1e-12)


@NAMES
@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (0, 0)])
def test_without_tokens_there_is_nothing_or_zero(name, n, m, randn):
    query, key, value = tokens(randn, n, m)
    output = functions(randn, n, m, 2)[name](query, key, value)
    assert output.shape == (2, 6, n, D_V)
    assert (output == 0).all()
    output.sum().backward()
    assert all((x.grad == 0).all() for x in (query, key, value))


@NAMES
@pytest.mark.parametrize(("heads", "key_heads"), [((0,), 0), ((2, 0), 0), ((0,), 1), ((1,), 0)])
def test_without_heads_there_is_nothing(name, heads, key_heads, randn):
    query, key, value = tokens(randn, 5, 7, heads, key_heads)
    lead = (*heads[:-1], 0)
    output = functions(randn, 5, 7, 2, lead)[name](query, key, value)
    assert output.shape == (*lead, 5, D_V)
    output.sum().backward()
    assert all((x.grad == 0).all() for x in (query, key, value))


@NAMES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_the_budget(name, dtype, randn):
    """Twice the error of PyTorch's own path, over the pairs that it chose."""
    n = 127
    exact_inputs = [x.detach().to(dtype) for x in tokens(randn, n, n)]
    inputs = [x.double() for x in exact_inputs]
    if name == "native_sparse":
        gates = torch.zeros(2, 6, n, 3, dtype=dtype, device=inputs[0].device)
        gates[..., 1] = 1.0
        options = {"block_size": B, "count": 5}
        ours = native_sparse_attention(*exact_inputs, gates, window=1, **options)
        mask = native_sparse_choice(*exact_inputs[:2], **options)
    elif name == "moba":
        options = {"block_size": B, "count": 5, "is_causal": True}
        ours = moba_attention(*exact_inputs, **options)
        mask = moba_choice(*exact_inputs[:2], **options)
    else:
        ranked = [x.detach().to(dtype) for x in index(randn, n, n)]
        ours = indexer_attention(*exact_inputs, *ranked, count=13, is_causal=True)
        mask = indexer_choice(*ranked, count=13, is_causal=True).dense(inputs[0].device)[:, None]
    allowed = mask if isinstance(mask, torch.Tensor) else mask.dense(inputs[0].device)
    exact = attnref.scaled_dot_product_attention(*inputs, allowed)
    theirs = torch.nn.functional.scaled_dot_product_attention(*exact_inputs, allowed)
    assert ours.dtype == dtype
    assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


@NAMES
def test_nothing_depends_on_autocast_or_memory_layout(name, device, randn):
    inputs = [x.detach().float() for x in tokens(randn, 17, 17)]
    ranked, gates = index(randn, 17, 17), randn(2, 6, 17, 3).float()
    ranked = [x.detach().float() for x in ranked]

    def call(q, k, v):
        if name == "indexer":
            return indexer_attention(q, k, v, *ranked, count=3, is_causal=True)
        if name == "moba":
            return moba_attention(q, k, v, block_size=B, count=3, is_causal=True)
        return native_sparse_attention(q, k, v, gates, block_size=B, count=3, window=4)

    expected = call(*inputs)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert torch.equal(call(*inputs), expected)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    torch.testing.assert_close(call(*strided), expected)


@pytest.mark.claim("ties-choose-as-many")
def test_equal_scores_choose_as_many(device):
    zeros = torch.zeros(1, 12, D_K, device=device)
    chosen = moba_choice(zeros, zeros, block_size=B, count=2).dense(device)
    assert (chosen.sum(-1) == 2 * B).all()
    chosen = indexer_choice(zeros, zeros[0], zeros[..., 0], count=5).dense(device)
    assert (chosen.sum(-1) == 5).all()
    chosen = native_sparse_choice(zeros, zeros, block_size=B, count=4).dense(device)
    assert chosen.sum(-1).tolist() == [[*range(1, 13)]]


def test_a_block_longer_than_the_text_is_not_filled_up(randn):
    """No memory holds 2^60 keys; what is chosen is everything before the query."""
    query, key, value = (x.detach() for x in tokens(randn, 5, 7, heads=(2,)))
    options = {"block_size": 2**60, "count": 1, "past": 2}
    mask = attnref.masks.causal(5, 7, alignment="bottom-right")
    expected = attnref.scaled_dot_product_attention(query, key, value, mask)
    gates = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64, device=query.device)
    for ours in (
        moba_attention(query, key, value, is_causal=True, **options),
        native_sparse_attention(query, key, value, gates, window=3, **options),
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_huge_scores_stay_finite(randn):
    query, key, value = tokens(randn, 17, 17)
    for name, function in functions(randn, 17, 17, 3).items():
        output = function(1e4 * query, key, value)
        assert output.isfinite().all(), name
        gradients = torch.autograd.grad(output.sum(), (query, key, value))
        assert all(gradient.isfinite().all() for gradient in gradients), name


@pytest.mark.parametrize("name", ["block_size", "count"])
@pytest.mark.parametrize("wrong", [0, True, 2.0])
def test_a_wrong_number_is_named(name, wrong, randn):
    q, k, v = (x.detach() for x in tokens(randn, 5, 5, heads=(2,)))
    options = {"block_size": B, "count": 2} | {name: wrong}
    calls = [
        lambda: moba_attention(q, k, v, **options),
        lambda: moba_choice(q, k, **options),
        lambda: native_sparse_attention(q, k, v, randn(2, 5, 3), window=2, **options),
        lambda: native_sparse_choice(q, k, **options),
    ]
    if name == "count":
        ranked = index(randn, 5, 5, ())
        calls += [
            lambda: indexer_attention(q, k, v, *ranked, count=wrong),
            lambda: indexer_choice(*ranked, count=wrong),
        ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"^{name}: expected an integer of 1 or more, got"):
            call()


def test_a_position_needs_order(randn):
    q, k, v = (x.detach() for x in tokens(randn, 5, 7, heads=(2,)))
    for call in (
        lambda: moba_attention(q, k, v, block_size=B, count=2, past=2),
        lambda: indexer_attention(q, k, v, *index(randn, 5, 7, ()), count=2, past=2),
    ):
        with pytest.raises(ValueError, match=r"^past: expected 0 without is_causal, got 2\."):
            call()
    with pytest.raises(ValueError, match=r"^past: expected an integer of 0 or more, got -1"):
        moba_choice(q, k, block_size=B, count=2, is_causal=True, past=-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index_query": (5, D_I)}, "index_query: expected shape (..., h_I, n, d_I), got (5, 11)."),
        ({"index_key": (D_I,)}, "index_key: expected shape (..., m, d_I), got (11,)."),
        ({"index_key": (7, 3)}, "index_key: expected last dimension 11, as index_query has, got 3"),
        ({"index_weights": (5, H_I)}, "index_weights: expected shape (2, 5), a number for each"),
        ({"index_key": (6, D_I)}, "index_query: expected 5 queries and index_key 7 keys, as many"),
        ({"index_key": (3, 7, D_I)}, "index_query: expected leading dimensions that broadcast to"),
    ],
)
def test_a_wrong_shape_of_the_indexer_is_named(change, message, randn):
    q, k, v = (x.detach() for x in tokens(randn, 5, 7, heads=(2,)))
    names = "index_query", "index_key", "index_weights"
    given = dict(zip(names, index(randn, 5, 7, ()), strict=True))
    given |= {name: randn(*shape) for name, shape in change.items()}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        indexer_attention(q, k, v, **given, count=2)


def test_keys_of_the_indexer_in_another_batch_are_named(randn):
    ranked = randn(2, H_I, 5, D_I), randn(3, 7, D_I), randn(2, H_I, 5)
    with pytest.raises(ValueError, match=r"^index_key: expected leading dimensions that broadcast"):
        index_scores(*ranked)


def test_wrong_gates_and_summaries_are_named(randn):
    q, k, v = (x.detach() for x in tokens(randn, 7, 7, heads=(2,)))
    call = sparse(native_sparse_attention, count=2, window=3)
    with pytest.raises(
        ValueError, match=r"^gates: expected a shape that broadcasts to \(2, 7, 3\),"
    ):
        call(q, k, v, randn(2, 7, 2))
    with pytest.raises(ValueError, match=r"^compressed_key: expected shape \(2, 3, 5\), a vector"):
        call(q, k, v, randn(2, 7, 3), compressed_key=randn(2, 2, D_K))
    with pytest.raises(TypeError, match=r"^gates: expected torch.float64, the dtype of query"):
        call(q, k, v, randn(2, 7, 3).float())
    with pytest.raises(ValueError, match=r"^window: expected an integer of 1 or more, got 0"):
        native_sparse_attention(q, k, v, randn(2, 7, 3), block_size=B, count=2, window=0)
