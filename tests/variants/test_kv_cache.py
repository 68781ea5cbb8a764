"""Attention to a cache: grouped heads, one token and several."""

import math
from functools import partial

import pytest
import torch

import attnref
from attnref import KVCache, masks
from attnref.variants import _kernels
from attnref.variants.kv_cache import kv_cache_attention
from tests.variants.every import every

D_K, D_V = 5, 3
CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # a few hundred roundings of float64


@pytest.mark.claim("cached-step-is-exact")
@pytest.mark.parametrize("key_heads", [1, 2, 6])
@every("n", [0, 1, 2, 7, 11])
def test_the_newest_tokens_see_the_past_and_themselves(key_heads, n, randn, assert_same):
    shapes = ((2, 6, n, D_K), (2, key_heads, 11, D_K), (2, key_heads, 11, D_V))
    inputs = [randn(*shape).requires_grad_() for shape in shapes]
    mask = masks.causal(n, 11, alignment="bottom-right")
    options = {"scale": 0.7, "enable_gqa": True}
    expected = attnref.scaled_dot_product_attention(*inputs, mask, **options)
    assert_same(kv_cache_attention(*inputs, **options), expected, inputs)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every("n", [1, 4])
@every("splits", [1, 2])
def test_components_may_lie_apart(n, splits, randn, device):
    """Turned, so that the last stride is not 1, as the kernel takes it to be."""
    shapes = (2, n, D_K), (2, 11, D_K), (2, 11, D_K)
    inputs = [randn(*shape).mT.contiguous().mT for shape in shapes]
    mask = masks.causal(n, 11, alignment="bottom-right").dense(device)
    for sink in (None, 0.5):
        ours = kv_cache_attention(*inputs, sink=sink, splits=splits)
        expected = attnref.scaled_dot_product_attention(*inputs, mask, sink=sink)
        torch.testing.assert_close(ours, expected, **CLOSE)
    apart = [torch.stack([x, x + 1.0], -1) for x in inputs]  # the batch of vmap between components
    mapped = torch.vmap(partial(kv_cache_attention, splits=splits), in_dims=-1)(*apart)
    torch.testing.assert_close(mapped[0], kv_cache_attention(*inputs, splits=splits), **CLOSE)


@pytest.mark.claim("pieces-give-the-whole")
@pytest.mark.parametrize("key_heads", [1, 3])
@every("n", [0, 1, 4, 11])
@every("splits", (1, 2, 3, 40))
@every(("d_v", "derived"), ((D_V, True), (D_K, False), (D_K, True)))
def test_any_number_of_pieces_gives_the_same(
    key_heads, n, splits, d_v, derived, randn, assert_same
):
    inputs = [randn(2, 6, n, D_K), randn(2, key_heads, 11, D_K), randn(2, key_heads, 11, d_v)]
    inputs = [x.requires_grad_(derived) for x in (*inputs, randn(6))]
    mask = masks.causal(n, 11, alignment="bottom-right")
    for sink in (None, inputs[3]):
        options = {"enable_gqa": True, "sink": sink}
        ours = kv_cache_attention(*inputs[:3], **options, splits=splits)
        expected = attnref.scaled_dot_product_attention(*inputs[:3], mask, **options)
        if derived:
            assert_same(ours, expected, inputs if sink is not None else inputs[:3])
        else:
            torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.claim("pieces-are-heads")
def test_pieces_go_to_the_kernel_as_heads_without_a_copy(randn, monkeypatch):
    """Of a preallocated cache, which is longer than what is read."""
    kernel, seen, held = _kernels._flash, [], []

    def recorded(query, key, value, *options, **more):
        seen.append((tuple(query.shape), tuple(key.shape)))
        held.append([x.untyped_storage().data_ptr() for x in (key, value)])
        return kernel(query, key, value, *options, **more)

    cache = KVCache(max_length=50)
    keys, values = cache.append(randn(2, 3, 13, D_K).cpu(), randn(2, 3, 13, D_K).cpu())
    query = randn(2, 6, 1, D_K).cpu()
    expected = kv_cache_attention(query, keys, values, enable_gqa=True)
    monkeypatch.setattr(_kernels, "_flash", recorded)
    ours = kv_cache_attention(query, keys, values, enable_gqa=True, splits=4)
    torch.testing.assert_close(ours, expected, **CLOSE)
    assert math.prod(seen[0][0][:2]) == math.prod(seen[0][1][:2]) == 2 * 3 * 4
    assert held[0] == [x.untyped_storage().data_ptr() for x in (keys, values)]


@every("splits", [1, 2])
def test_derivatives_have_derivatives(splits, randn):
    """Of one token too, whose fused kernel has none."""
    shapes = (1, 4, 1, 3), (1, 2, 5, 3), (1, 2, 5, 3)
    inputs = tuple(randn(*shape).requires_grad_() for shape in shapes)
    function = partial(kv_cache_attention, enable_gqa=True, splits=splits)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.claim("chunks-are-one-pass")
@pytest.mark.claim("cached-steps-are-one-pass")
@every("chunk", [1, 2, 5, 13])
def test_a_prompt_in_chunks_is_one_pass(chunk, randn):
    """Token by token too."""
    query, key, value = randn(2, 6, 13, D_K), randn(2, 3, 13, D_K), randn(2, 3, 13, D_V)
    cache, rows = KVCache(max_length=13), []
    for begin in range(0, 13, chunk):
        now = slice(begin, begin + chunk)
        keys, values = cache.append(key[..., now, :], value[..., now, :])
        rows.append(kv_cache_attention(query[..., now, :], keys, values, enable_gqa=True))
    expected = attnref.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(torch.cat(rows, -2), expected, **CLOSE)


def test_what_does_not_fit_is_named(randn):
    key, value = randn(5, D_K), randn(5, D_V)
    with pytest.raises(ValueError, match=r"^splits: expected an integer of 1 or more, got 0\."):
        kv_cache_attention(randn(1, D_K), key, value, splits=0)
    with pytest.raises(ValueError, match=r"^key: expected at least as .*, 7, got 5\..* append the"):
        kv_cache_attention(randn(7, D_K), key, value)


@every(("of_query", "of_key"), [((2, 6), (1, 3)), ((1, 6), (2, 3)), ((6,), (2, 3)), ((2, 6), (3,))])
@every("n", [1, 2])
def test_dimensions_broadcast(of_query, of_key, n, randn):
    query = randn(*of_query, n, D_K)
    key, value = randn(*of_key, 11, D_K), randn(*of_key, 11, D_V)
    ours = kv_cache_attention(query, key, value, enable_gqa=True)
    mask = masks.causal(n, 11, alignment="bottom-right").dense(device=query.device)
    expected = attnref.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.claim("shared-head-is-read-once")
def test_a_shared_head_is_read_once(randn, monkeypatch):
    """The kernel is given as many heads as there are keys, and their query heads as queries."""
    kernel, seen, held = _kernels.scaled_dot_product_attention, [], []

    def recorded(query, key, value, mask, **options):
        seen.append((tuple(query.shape), tuple(key.shape)))
        # The very tensors of the cache, in which no head has been repeated.
        held.append([x.untyped_storage().data_ptr() for x in (key, value)])
        return kernel(query, key, value, mask, **options)

    monkeypatch.setattr(_kernels, "scaled_dot_product_attention", recorded)
    query, key, value = randn(1, 6, 1, D_K), randn(1, 2, 11, D_K), randn(1, 2, 11, D_K)
    kv_cache_attention(query, key, value, enable_gqa=True)
    assert seen == [((1, 2, 3, D_K), (1, 2, 11, D_K))]
    assert held == [[x.untyped_storage().data_ptr() for x in (key, value)]]
