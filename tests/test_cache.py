"""What a cache takes, keeps and refuses; how attention uses it is asked in test_multihead.py."""

import pytest
import torch

from attnref import KVCache


@pytest.mark.claim("grouped-cache-size")
@pytest.mark.parametrize(("num_kv_heads", "expected"), [(64, 2_621_440), (8, 327_680), (1, 40_960)])
def test_bytes_of_a_cache(num_kv_heads, expected):
    """One token of 80 layers with heads of 128 in float16; shared heads divide it by h / h_kv."""
    row = torch.empty(1, num_kv_heads, 1, 128, dtype=torch.float16, device="meta")
    layers = [KVCache() for _ in range(80)]
    for cache in layers:
        assert cache.nbytes == 0
        cache.append(row, row)
    assert sum(cache.nbytes for cache in layers) == expected
    room = KVCache(max_length=97)
    room.append(row, row)
    assert room.nbytes * 80 == 97 * expected
    assert room.length == 1


def test_what_a_cache_refuses(randn):
    key, value = randn(2, 3, 5, 4), randn(2, 3, 5, 7)
    cache = KVCache()
    cache.append(key, value)
    with pytest.raises(
        ValueError,
        match=r"^key: expected \(2, 3, n, 4\) torch.float64 on .*, as the cache holds, got "
        r"\(1, 3, n, 4\) torch.float64 on .* One cache serves one layer and one batch",
    ):
        cache.append(key[:1], value[:1])
    with pytest.raises(ValueError, match=r"^value: expected .*float64 on .* got .*float32"):
        cache.append(key, value.float())
    with pytest.raises(ValueError, match=r"^value: expected shape \(2, 3, 5, 'd_v'\)"):
        cache.append(key, value[..., :4, :])
    assert cache.length == 5

    full = KVCache(max_length=7)
    full.append(key, value)
    with pytest.raises(
        ValueError,
        match=r"^key: expected room for 5 more tokens after 5, got a cache of max_length=7",
    ):
        full.append(key, value)
    assert full.length == 5
    with pytest.raises(ValueError, match=r"^key: expected .* without gradients, .* torch.no_grad"):
        full.append(key[..., :1, :].requires_grad_(), value[..., :1, :])
    with pytest.raises(ValueError, match=r"^max_length: expected an integer of 1 or more, got 0"):
        KVCache(0)


@pytest.mark.parametrize("max_length", [None, 7])
def test_a_cache_keeps_its_own_numbers(max_length, randn):
    """The caller's buffers may be written to again, from the first step on."""
    cache, key, value = KVCache(max_length), randn(2, 3, 5), randn(2, 3, 4)
    before = key.clone(), value.clone()
    cache.append(key, value)
    key.zero_()
    value.zero_()
    kept = cache.append(randn(2, 1, 5), randn(2, 1, 4))
    assert all(torch.equal(own[:, :3], x) for own, x in zip(kept, before, strict=True))


@pytest.mark.parametrize("max_length", [None, 7])
def test_a_cache_made_under_inference_mode_goes_on_without(max_length, randn):
    cache = KVCache(max_length)
    with torch.inference_mode():
        cache.append(randn(2, 3, 5), randn(2, 3, 4))
    with torch.no_grad():
        key, _ = cache.append(randn(2, 2, 5), randn(2, 2, 4))
    assert key.shape == (2, 5, 5)


def test_what_is_no_tensor_goes_into_no_cache(randn):
    for key in ([1.0], randn(3)):
        with pytest.raises(TypeError, match=r"^key: expected a torch\.Tensor \(\.\.\., h_kv, n, d"):
            KVCache().append(key, randn(2, 3))
