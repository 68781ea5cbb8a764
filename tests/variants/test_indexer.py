"""The indexer: the definition under its choice, compared with one made row by row in NumPy."""

import re

import numpy as np
import pytest
import torch

import attnref
from attnref.variants.indexer import _index_scores, indexer_attention, indexer_choice
from tests.variants.choices import COUNTS, D_I, D_K, H_I, SIZES, best_places, index, tokens
from tests.variants.every import every


@pytest.mark.claim("indexer-is-the-definition-under-its-choice")
@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
@every(("is_causal", "key_heads"), ((False, None), (True, 2), (True, 1)))
def test_the_indexer_is_the_definition_under_its_choice(
    n, m, past, count, is_causal, key_heads, randn, assert_same
):
    inputs, ranked = tokens(randn, n, m, key_heads=key_heads), index(randn, n, m)
    options = {"num_keys": count, "is_causal": is_causal, "past": past if is_causal else 0}
    mask = indexer_choice(*ranked, **options).dense(inputs[0].device)[:, None]
    grouped = key_heads is not None
    expected = attnref.scaled_dot_product_attention(*inputs, mask, scale=0.7, enable_gqa=grouped)
    ours = indexer_attention(*inputs, *ranked, **options, scale=0.7, enable_gqa=grouped)
    assert_same(ours, expected, inputs, 1e-11)


@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
@every("is_causal", (False, True))
def test_the_indexer_keeps_the_keys_it_ranks_first(n, m, past, count, is_causal, randn):
    """Scores one by one, and each row sorted."""
    ranked = [x.detach() for x in index(randn, n, m, ())]
    past = past if is_causal else 0
    options = {"num_keys": count, "is_causal": is_causal, "past": past}
    found = indexer_choice(*ranked, **options).dense(ranked[0].device).cpu().numpy()
    query, key, weights = (x.cpu().numpy() for x in ranked)
    scores = np.zeros((n, m))
    for i, j in np.ndindex(n, m):
        for h in range(H_I):
            scores[i, j] += weights[h, i] * max(query[h, i] @ key[j], 0.0)
    torch.testing.assert_close(_index_scores(*ranked).cpu(), torch.from_numpy(scores))
    for i in range(n):
        row = scores[i].copy()
        if is_causal:
            row[i + past + 1 :] = -np.inf
        chosen = np.zeros(m, bool)
        chosen[best_places(row, count)] = True
        # Where all products are negative, scores are equal: 0. How many are kept is the same.
        assert found[i].sum() == chosen.sum()
        assert sorted(row[found[i]]) == pytest.approx(sorted(row[chosen]))


@pytest.mark.claim("indexer-gets-no-gradient-from-the-output")
def test_the_indexer_gets_no_gradient_from_the_output(randn):
    inputs, ranked = tokens(randn, 11, 11), index(randn, 11, 11)
    output = indexer_attention(*inputs, *ranked, num_keys=3, is_causal=True)
    found = torch.autograd.grad(output.sum(), [*inputs, *ranked], allow_unused=True)
    chosen = indexer_choice(*ranked, num_keys=3, is_causal=True).dense(output.device)[:, None]
    expected = attnref.scaled_dot_product_attention(*inputs, chosen)
    torch.testing.assert_close(found[:3], torch.autograd.grad(expected.sum(), inputs))
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
        mask = indexer_choice(*ranked, num_keys=count, is_causal=True).dense(device)
        return float((weights * mask).sum() / n)

    before = kept()
    optimiser = torch.optim.Adam(ranked, lr=0.05)
    for _ in range(200):
        scores = _index_scores(*ranked).masked_fill(future, -torch.inf)
        logs = torch.log_softmax(scores, -1).masked_fill(future, 0.0)
        loss = torch.nn.functional.kl_div(logs, weights, reduction="sum") / n
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    most = float(weights.sort(-1, descending=True).values[:, :count].sum() / n)
    assert most - kept() < (most - before) / 4


@every(
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
        indexer_attention(q, k, v, **given, num_keys=2)


def test_keys_of_the_indexer_in_another_batch_are_named(randn):
    ranked = randn(2, H_I, 5, D_I), randn(3, 7, D_I), randn(2, H_I, 5)
    with pytest.raises(ValueError, match=r"^index_key: expected leading dimensions that broadcast"):
        indexer_choice(*ranked, num_keys=2)
