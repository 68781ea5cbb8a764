"""MoBA: the definition under its choice, which is compared with one made row by row in NumPy."""

import numpy as np
import pytest

import attnref
from attnref.variants.moba import moba_attention, moba_choice
from tests.variants.choices import COUNTS, D_K, SIZES, B, best_places, tokens
from tests.variants.every import every


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
    for number in best_places(gates, count):
        seen[[j for j in blocks[number] if j <= position]] = True
    return seen


@pytest.mark.claim("moba-is-the-definition-under-its-choice")
@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
@every(("is_causal", "grouped"), ((False, True), (True, False), (True, True)))
def test_moba_is_the_definition_under_its_choice(
    n, m, past, count, is_causal, grouped, randn, assert_same
):
    inputs = tokens(randn, n, m, key_heads=2 if grouped else None)
    past = past if is_causal else 0
    options = {"block_size": B, "num_blocks": count, "is_causal": is_causal, "past": past}
    options["enable_gqa"] = grouped
    mask = moba_choice(*inputs[:2], **options)
    expected = attnref.scaled_dot_product_attention(*inputs, mask, scale=0.7, enable_gqa=grouped)
    assert_same(moba_attention(*inputs, **options, scale=0.7), expected, inputs, 1e-11)


@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
@every("is_causal", (False, True))
def test_moba_chooses_the_blocks_of_the_best_means(n, m, past, count, is_causal, randn):
    query, key = randn(n, D_K), randn(m, D_K)
    past = past if is_causal else 0
    options = {"block_size": B, "num_blocks": count, "is_causal": is_causal, "past": past}
    found = moba_choice(query, key, **options).dense(query.device).cpu().numpy()
    queries, keys = query.cpu().numpy(), key.cpu().numpy()
    for i in range(n):
        row = moba_row(queries[i], keys, past + i, count, is_causal)
        assert (found[i] == row).all(), i
