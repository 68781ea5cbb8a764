from functools import partial

import pytest
import torch

import attnref
from attnref import masks
from attnref.variants import block_sparse
from attnref.variants.block_sparse import block_sparse_attention
from tests.variants.every import every

N, M, D_K, D_V, SIZE = 37, 29, 5, 3, 8


@pytest.fixture
def layout(device, generator):
    def draw(*lead):
        return torch.rand(*lead, 5, 4, device=device, generator=generator) < 0.4

    return draw


def draw_inputs(randn, lead=(2, 3)):
    shapes = ((*lead, N, D_K), (*lead, M, D_K), (*lead, M, D_V))
    return [randn(*shape).requires_grad_() for shape in shapes]


@pytest.mark.claim("block-sparse-is-exact")
@every("dense", [0.0, 0.4, 1.0])
@every("lead", [(), (3,), (2, 1)])
def test_it_is_attention_under_the_mask(
    lead, dense, device, randn, layout, assert_same, monkeypatch
):
    """Also of queries without blocks, and by strips."""
    monkeypatch.setattr(block_sparse, "_DENSE", dense)
    monkeypatch.setattr(block_sparse, "_STRIP", 16)
    inputs, blocks = draw_inputs(randn), layout(*lead)
    blocks[..., 1, :] = False
    mask = masks.block_layout(N, M, layout=blocks, block_size=SIZE).dense(device)
    ours = block_sparse_attention(*inputs, blocks, block_size=SIZE)
    assert (ours[..., SIZE : 2 * SIZE, :] == 0).all()
    assert_same(ours, attnref.scaled_dot_product_attention(*inputs, mask), inputs)


@pytest.mark.claim("block-sparse-pays-for-its-blocks")
def test_products_are_those_of_the_allowed_blocks(randn, device, count):
    query, key, value = (randn(1, 40, D_K) for _ in range(3))
    for allowed in (0, 1, 7, 25):
        blocks = (torch.arange(25, device=device) < allowed).reshape(5, 5)
        run = partial(block_sparse_attention, query, key, value, blocks, block_size=SIZE)
        assert count(run).products == allowed * SIZE * SIZE * 2 * D_K
        mask = masks.block_layout(40, layout=blocks, block_size=SIZE)
        expected = attnref.scaled_dot_product_attention(query, key, value, mask)
        torch.testing.assert_close(run(), expected)


def test_a_layout_of_another_shape_is_refused(randn, layout):
    with pytest.raises(ValueError, match=r"^layout: expected shape \(\.\.\., 3, 2\)"):
        block_sparse_attention(*draw_inputs(randn), layout(), block_size=16)
    with pytest.raises(ValueError, match=r"^attn_mask: expected a shape that broadcasts"):
        block_sparse_attention(*draw_inputs(randn), layout(5), block_size=SIZE)


@pytest.mark.parametrize("factor", [300.0, 1e24])
def test_scores_and_values_of_any_size(factor, device, randn, layout, assert_same):
    """Powers of such scores, and of smaller ones times such values, would overflow float32."""
    query, key, value = (x.detach() for x in draw_inputs(randn))
    ones = torch.full_like(query, 17.0**0.5)  # all scores are 17 sqrt(5), powers some 2^55
    large = (
        (factor * query, key, value) if factor < 1e9 else (ones, ones[..., :M, :], factor * value)
    )
    inputs, blocks = [x.requires_grad_() for x in large], layout()
    mask = masks.block_layout(N, M, layout=blocks, block_size=SIZE).dense(device)
    expected = attnref.scaled_dot_product_attention(*inputs, mask)
    if factor < 1e9:
        ours = block_sparse_attention(*inputs, blocks, block_size=SIZE)
        # The scores, not their weights, are rounded: some thousands times the precision.
        assert_same(ours, expected, inputs, tolerance=1e-8)
    single = block_sparse_attention(*(x.float() for x in inputs), blocks, block_size=SIZE)
    assert single.isfinite().all()
    assert (single - expected).norm() <= 1e-3 * expected.norm()
