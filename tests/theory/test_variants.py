"""What the guide to the variants claims of the exact ones."""

import pytest
import torch

import attnref
from attnref import masks
from attnref.variants.block_sparse import block_sparse_attention
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.kv_cache import kv_cache_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.varlen import varlen_attention


@pytest.mark.claim("exact-variants-one-function")
@pytest.mark.parametrize(
    "name", ["blockwise", "sliding_window", "block_sparse", "varlen", "kv_cache"]
)
def test_exact_variants_are_the_definition_under_their_mask(name, device, generator):
    """In float64, values and gradients, within rounding: sums of at most 37 terms of order 1."""
    n, options = 37, {"dtype": torch.float64, "device": device, "generator": generator}
    query, key = torch.randn(2, 2, n, 5, **options)
    value = torch.randn(2, n, 3, **options)
    if name == "kv_cache":
        query = query[:, -4:]
    borders = torch.tensor([0, 11, 30, n], device=device)
    layout = torch.eye(8, dtype=torch.bool, device=device)
    layout[:, 2] = True
    ours, mask = {
        "blockwise": (lambda *qkv: blockwise_attention(*qkv, masks.causal(n)), masks.causal(n)),
        "sliding_window": (
            lambda *qkv: sliding_window_attention(*qkv, window=6, is_causal=True),
            masks.sliding_window(n, window=6, is_causal=True),
        ),
        "block_sparse": (
            lambda *qkv: block_sparse_attention(*qkv, layout, block_size=5),
            masks.block_layout(n, layout=layout, block_size=5),
        ),
        "varlen": (lambda *qkv: varlen_attention(*qkv, borders), masks.packed([11, 19, 7])),
        "kv_cache": (
            kv_cache_attention,
            masks.causal(4, n, alignment="bottom-right"),
        ),
    }[name]
    inputs = [x.requires_grad_() for x in (query, key, value)]
    allowed = mask.dense(device)
    found, expected = ours(*inputs), attnref.scaled_dot_product_attention(*inputs, allowed)
    upstream = torch.randn(expected.shape, **options)
    sides = zip(
        (found, *torch.autograd.grad(found, inputs, upstream)),
        (expected, *torch.autograd.grad(expected, inputs, upstream)),
        strict=True,
    )
    for mine, theirs in sides:
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    everything = attnref.scaled_dot_product_attention(*inputs)
    assert (found - everything).abs().max() > 1e-3  # the mask does matter
