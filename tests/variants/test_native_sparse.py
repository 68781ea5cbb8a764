"""Native sparse attention: three definitions, and its choice made row by row in NumPy."""

from functools import partial

import numpy as np
import pytest
import torch

from attnref.variants.native_sparse import METHOD, native_sparse_attention, native_sparse_choice
from tests.variants.choices import COUNTS, D_K, D_V, SIZES, B, best_places, means, tokens
from tests.variants.every import every


def sparse(function, **options):
    return partial(function, block_size=B, **options)


@pytest.mark.claim("native-sparse-is-three-definitions")
@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
@every(("grouped", "given"), ((False, True), (True, False), (True, True)))
def test_native_sparse_attention_is_three_definitions(
    n, m, past, count, grouped, given, randn, assert_same
):
    inputs = tokens(randn, n, m, key_heads=2 if grouped else None)
    inputs.append(randn(2, 6, n, 3).requires_grad_())
    options = {"enable_gqa": grouped, "scale": 0.7, "num_blocks": count, "past": past}
    if given:
        summaries = [randn(*x.shape[:2], -(-m // B), x.shape[-1]) for x in inputs[1:3]]
        inputs += [x.requires_grad_() for x in summaries]
    names = "query", "key", "value", "gates", "compressed_key", "compressed_value"
    arguments = dict(zip(names, inputs, strict=False)) | options | {"block_size": B, "window": 4}
    assert_same(native_sparse_attention(**arguments), METHOD.formula(**arguments), inputs, 1e-11)


@every(("n", "m", "past"), SIZES)
@every("count", COUNTS)
def test_native_sparse_attention_reads_what_its_summaries_point_at(n, m, past, count, randn):
    """Two query heads share a key head, and choose by the mean of their weights."""
    query, key = randn(2, n, D_K), randn(1, m, D_K)
    options = {"block_size": B, "num_blocks": count, "past": past, "enable_gqa": True}
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
        order += [number for number in best_places(weights, blocks) if number not in order]
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
            query, key, value, gates, block_size=B, num_blocks=2, window=4, **given
        )
        reached = torch.autograd.grad(output.square().sum(), summaries)
        assert all((gradient != 0).any() == (term == 0) for gradient in reached)


def test_wrong_gates_and_summaries_are_named(randn):
    q, k, v = (x.detach() for x in tokens(randn, 7, 7, heads=(2,)))
    call = sparse(native_sparse_attention, num_blocks=2, window=3)
    with pytest.raises(
        ValueError, match=r"^gates: expected a shape that broadcasts to \(2, 7, 3\),"
    ):
        call(q, k, v, randn(2, 7, 2))
    with pytest.raises(ValueError, match=r"^compressed_key: expected shape \(2, 3, 5\), a vector"):
        call(q, k, v, randn(2, 7, 3), compressed_key=randn(2, 2, D_K))
    with pytest.raises(TypeError, match=r"^gates: expected torch.float64, the dtype of query"):
        call(q, k, v, randn(2, 7, 3).float())
    with pytest.raises(ValueError, match=r"^window: expected an integer of 1 or more, got 0"):
        native_sparse_attention(q, k, v, randn(2, 7, 3), block_size=B, num_blocks=2, window=0)
