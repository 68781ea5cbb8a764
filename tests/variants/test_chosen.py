"""What MoBA, the indexer and native sparse attention have in common."""

from functools import partial

import pytest
import torch

import attnref
from attnref.variants.indexer import indexer_attention, indexer_choice
from attnref.variants.moba import moba_attention, moba_choice
from attnref.variants.native_sparse import native_sparse_attention, native_sparse_choice
from tests.variants.choices import D_K, B, index, tokens
from tests.variants.every import every


def functions(randn, n, m, count, lead=(2, 6), past=0):
    """Causal, as functions of query, key and value."""
    ranked = [x.detach() for x in index(randn, n, m, lead[:-1])]
    gates = randn(*lead, n, 3)
    blocks, past = {"block_size": B, "num_blocks": count}, {"past": past}
    return {
        "moba": partial(moba_attention, is_causal=True, **blocks, **past),
        "indexer": lambda q, k, v: indexer_attention(
            q, k, v, *ranked, num_keys=count, is_causal=True, **past
        ),
        "native_sparse": lambda q, k, v: native_sparse_attention(
            q, k, v, gates.to(q.dtype), window=4, **blocks, **past
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
        ours = native_sparse_attention(*inputs, gates, block_size=B, num_blocks=6, window=1)
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
        blocks, past = {"block_size": B, "num_blocks": 2}, {"past": rows.start}
        if name == "moba":
            return moba_attention(*given, is_causal=True, **blocks, **past)
        if name == "native_sparse":
            return native_sparse_attention(*given, gates[..., rows, :], window=4, **blocks, **past)
        parts = ranked[0][..., rows, :], ranked[1][..., :stop, :], ranked[2][..., rows]
        return indexer_attention(*given, *parts, num_keys=2, is_causal=True, **past)

    whole = call(slice(0, n), n)
    steps = torch.cat([call(slice(i, i + 1), i + 1) for i in range(n)], -2)
    torch.testing.assert_close(steps, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.claim("ties-choose-as-many")
def test_equal_scores_choose_as_many(device):
    zeros = torch.zeros(1, 12, D_K, device=device)
    chosen = moba_choice(zeros, zeros, block_size=B, num_blocks=2).dense(device)
    assert (chosen.sum(-1) == 2 * B).all()
    chosen = indexer_choice(zeros, zeros[0], zeros[..., 0], num_keys=5).dense(device)
    assert (chosen.sum(-1) == 5).all()
    chosen = native_sparse_choice(zeros, zeros, block_size=B, num_blocks=4).dense(device)
    assert chosen.sum(-1).tolist() == [[*range(1, 13)]]


def test_a_block_longer_than_the_text_is_not_filled_up(randn):
    """No memory holds 2^60 keys; what is chosen is everything before the query."""
    query, key, value = (x.detach() for x in tokens(randn, 5, 7, heads=(2,)))
    options = {"block_size": 2**60, "num_blocks": 1, "past": 2}
    mask = attnref.masks.causal(5, 7, alignment="bottom-right")
    expected = attnref.scaled_dot_product_attention(query, key, value, mask)
    gates = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64, device=query.device)
    for ours in (
        moba_attention(query, key, value, is_causal=True, **options),
        native_sparse_attention(query, key, value, gates, window=3, **options),
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", [4, 7])
def test_means_of_the_largest_numbers_do_not_overflow(m, randn):
    key = torch.full((m, 1), 3e38)
    value, query = randn(m, 2, dtype=torch.float32), torch.full((m, 1), -1e-38)
    ours = attnref.moba_attention(query, key, value, block_size=4, num_blocks=2)
    torch.testing.assert_close(ours, value.mean(0).expand(m, 2))


def test_huge_scores_stay_finite(randn):
    query, key, value = tokens(randn, 17, 17)
    for name, function in functions(randn, 17, 17, 3).items():
        output = function(1e4 * query, key, value)
        assert output.isfinite().all(), name
        gradients = torch.autograd.grad(output.sum(), (query, key, value))
        assert all(gradient.isfinite().all() for gradient in gradients), name


@every("name", ["block_size", "num_blocks", "num_keys"])
def test_a_wrong_number_is_named(name, randn):
    q, k, v = (x.detach() for x in tokens(randn, 5, 5, heads=(2,)))
    options, ranked = {"block_size": B, "num_blocks": 2}, index(randn, 5, 5, ())
    if name == "num_keys":
        calls = [
            partial(indexer_attention, q, k, v, *ranked, num_keys=0),
            partial(indexer_choice, *ranked, num_keys=0),
        ]
    else:
        options |= {name: 0}
        calls = [
            partial(moba_attention, q, k, v, **options),
            partial(moba_choice, q, k, **options),
            partial(native_sparse_attention, q, k, v, randn(2, 5, 3), window=2, **options),
            partial(native_sparse_choice, q, k, **options),
        ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"^{name}: expected an integer of 1 or more, got 0"):
            call()


def test_a_position_needs_order(randn):
    q, k, v = (x.detach() for x in tokens(randn, 5, 7, heads=(2,)))
    for call in (
        lambda: moba_attention(q, k, v, block_size=B, num_blocks=2, past=2),
        lambda: indexer_attention(q, k, v, *index(randn, 5, 7, ()), num_keys=2, past=2),
    ):
        with pytest.raises(ValueError, match=r"^past: expected 0 without is_causal, got 2\."):
            call()
    with pytest.raises(ValueError, match=r"^past: expected an integer of 0 or more, got -1"):
        moba_choice(q, k, block_size=B, num_blocks=2, is_causal=True, past=-1)
