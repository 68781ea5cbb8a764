"""Programs that choose keys run under a counter of what they really do, row by row."""

from dataclasses import replace

import pytest
import torch

from attnref import cost, masks
from attnref.cost import Operations, Sizes
from attnref.cost.chosen_attention import block_pairs
from attnref.variants.indexer import indexer_choice
from attnref.variants.moba import moba_choice
from attnref.variants.native_sparse import native_sparse_choice
from tests.cost.counter import Counter

B, KEPT, WINDOW, H_I, D_I = 3, 2, 4, 2, 11
SIZES = Sizes(n=21, m=21, d_k=7, d_v=5, batch=2, num_heads=3)


def row(query, key, value):
    """One query against some keys."""
    scores = key @ query[:, None]  # (keys, 1)
    return (scores - scores.amax()).exp().mT @ value


def gathered(chosen, key, value):
    """The keys and values of each query, found before anything is counted."""
    return [(key[seen], value[seen]) for seen in chosen]


@pytest.fixture
def given(generator):
    lead, n = (SIZES.batch, SIZES.num_heads), SIZES.n
    widths = SIZES.d_k, SIZES.d_k, SIZES.d_v
    return [torch.randn(*lead, n, width, generator=generator) for width in widths]


def heads(tensors):
    return zip(*(x.flatten(0, 1) for x in tensors), strict=True)


@pytest.mark.claim("choosing-costs-what-is-counted")
def test_blocks_cost_what_the_program_does(given):
    choice = moba_choice(*given[:2], block_size=B, num_blocks=KEPT, is_causal=True).dense()
    spent = Operations()
    for (query, key, value), chosen in zip(heads(given), choice.flatten(0, 1), strict=True):
        pieces = gathered(chosen, key, value)
        means = torch.stack([block.mean(0) for block in key.split(B)])
        with Counter() as counter:
            for i in range(SIZES.n):
                means[: i // B] @ query[i][:, None]
                row(query[i], *pieces[i])
        spent += counter.cost.operations
    found = cost.of("moba", SIZES, block_size=B, num_blocks=KEPT)
    assert found.operations.matmul == spent.matmul
    assert block_pairs(SIZES.n, block_size=B, num_blocks=KEPT) * 6 == choice.sum()


@pytest.mark.claim("choosing-costs-what-is-counted")
def test_the_indexer_costs_what_the_program_does(given, generator):
    n, b = SIZES.n, SIZES.batch
    index = [torch.randn(b, *s, generator=generator) for s in ((H_I, n, D_I), (n, D_I), (H_I, n))]
    choice = indexer_choice(*index, num_keys=KEPT, is_causal=True).dense()
    with Counter() as counter:
        for sample in range(b):
            queries, keys, weights = (x[sample] for x in index)
            for i in range(n):
                ranks = torch.relu(keys[: i + 1] @ queries[:, i].mT)  # (i + 1, h_I)
                (weights[:, i] * ranks).sum(-1)
    ranking, average = counter.cost.operations, Operations()
    for sample in range(b):
        for query, key, value in zip(*(x[sample] for x in given), strict=True):
            pieces = gathered(choice[sample], key, value)
            with Counter() as counter:
                for i in range(n):
                    row(query[i], *pieces[i])
            average += counter.cost.operations
    found = cost.of("indexer", SIZES, num_keys=KEPT, index_heads=H_I, index_dim=D_I)
    assert found.operations.matmul == ranking.matmul + average.matmul
    kept = cost.allowed_pairs(n, n, window=(KEPT - 1, 0))
    assert kept * b == choice.sum()
    core = cost.of("fused", SIZES, pairs=kept)
    assert found.operations.elementwise - core.operations.elementwise == ranking.elementwise
    numbers = sum(x.numel() for x in index) + given[0].numel()
    numbers += sum(int(choice.sum()) * SIZES.num_heads * d for d in (SIZES.d_k, SIZES.d_v))
    assert found.bytes_read == 4 * numbers + 8 * choice.sum()
    assert found.bytes_written == 4 * given[2].numel() + 8 * choice.sum()


@pytest.mark.claim("choosing-costs-what-is-counted")
def test_three_terms_cost_what_the_program_does(given):
    choice = native_sparse_choice(*given[:2], block_size=B, num_blocks=KEPT).dense()
    near = masks.sliding_window(SIZES.n, window=WINDOW, is_causal=True).dense()
    spent = Operations()
    for (query, key, value), chosen in zip(heads(given), choice.flatten(0, 1), strict=True):
        pieces = [gathered(seen, key, value) for seen in (chosen, near)]
        means = [torch.stack([block.mean(0) for block in x.split(B)]) for x in (key, value)]
        with Counter() as counter:
            for i in range(SIZES.n):
                if i >= B - 1:  # some block is full
                    full = [x[: (i + 1) // B] for x in means]
                    full[0] @ query[i][:, None]  # to choose
                    row(query[i], *full)
                for piece in pieces:
                    row(query[i], *piece[i])
        spent += counter.cost.operations
    found = cost.of("native_sparse", SIZES, block_size=B, num_blocks=KEPT, window=WINDOW)
    assert found.operations.matmul == spent.matmul


def test_what_is_not_counted_is_refused():
    with pytest.raises(ValueError, match=r"^n: expected a multiple of block_size=4, got 21"):
        cost.of("moba", SIZES, block_size=4, num_blocks=2)
    with pytest.raises(ValueError, match=r"^m: expected 21, as many keys as queries, got 13"):
        cost.of("indexer", replace(SIZES, m=13), num_keys=2, index_heads=1, index_dim=1)
    with pytest.raises(ValueError, match=r"^window: expected"):
        cost.of("native_sparse", SIZES, block_size=3, num_blocks=2, window=0)
