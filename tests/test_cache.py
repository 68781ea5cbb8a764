"""What a cache takes, keeps and refuses; how attention uses it is asked in test_multihead.py."""

from functools import partial

import pytest
import torch

from attnref import KVCache, StreamingCache
from tests.variants.every import every


@pytest.mark.claim("grouped-cache-size")
@every(("num_kv_heads", "expected"), [(64, 2_621_440), (8, 327_680), (1, 40_960)])
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
    grown, full = KVCache(), KVCache(max_length=7)
    for cache in (grown, full):
        cache.append(key, value)
    row = key[..., :1, :], value[..., :1, :]
    fits = r"\(2, 3, n, 4\) torch.float64 on .* got \(1, 3, n, 4\) .* One cache serves one layer"
    for cache, given, message in (
        (grown, (key[:1], value[:1]), f"key: expected {fits}"),
        (grown, (key, value.float()), "value: expected .*float64 on .* got .*float32"),
        (grown, (key, value[..., :4, :]), r"value: expected shape \(2, 3, 5, 'd_v'\)"),
        (full, (key, value), "key: expected room for 5 more tokens after 5, .* max_length=7"),
        (full, (row[0].requires_grad_(), row[1]), "key: .* without gradients, .* torch.no_grad"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            cache.append(*given)
        assert cache.length == 5


@every("cache", [KVCache(), KVCache(7), StreamingCache(first=1, window=6)])
def test_a_cache_keeps_its_own_numbers(cache, randn):
    """The caller's buffers may be written to again, from the first step on."""
    key, value = randn(2, 3, 5), randn(2, 3, 4)
    before = key.clone(), value.clone()
    cache.append(key, value)
    key.zero_()
    value.zero_()
    kept = cache.append(randn(2, 1, 5), randn(2, 1, 4))
    assert all(torch.equal(own[:, :3], x) for own, x in zip(kept, before, strict=True))


@every(
    "cache",
    [KVCache(), KVCache(7), StreamingCache(first=1, window=6), StreamingCache(first=0, window=3)],
)
def test_what_a_cache_gives_is_its_own_and_is_cloned_to_be_written_to(cache, randn):
    """As the docstrings say: a clone may be written to, the tensors themselves are the past."""
    own = cache.append(randn(2, 3, 5), randn(2, 3, 4))
    for tensor in own:
        tensor.clone().zero_()
    kept = cache.append(randn(2, 0, 5), randn(2, 0, 4))
    places = [x[:, -kept[0].shape[1] :] for x in own]
    assert all(torch.equal(*pair) for pair in zip(kept, places, strict=True))
    if not isinstance(cache, StreamingCache):
        kept[0].zero_()
        assert not cache.append(randn(2, 1, 5), randn(2, 1, 4))[0][:, :3].any()


@pytest.mark.parametrize("cache", [KVCache, partial(StreamingCache, first=1, window=2)])
def test_keys_and_values_are_of_one_floating_dtype(cache, randn):
    key, value = randn(2, 3, 5), randn(2, 3, 4)
    text = "key: expected a floating dtype, or int8 of attnref.variants.quantized, got torch.int64."
    with pytest.raises(TypeError, match=f"^{text} Convert it with key.float"):
        cache().append(key.long(), value)
    text = "value: expected torch.float64, the dtype of key, got torch.float32. Convert one of them"
    with pytest.raises(TypeError, match=f"^{text}"):
        cache().append(key, value.float())
    cache().append(key.to(torch.int8), value.to(torch.int8))


def test_what_is_no_tensor_goes_into_no_cache(randn):
    for key in ([1.0], randn(3)):
        with pytest.raises(TypeError, match=r"^key: expected a torch\.Tensor \(\.\.\., h_kv, n, d"):
            KVCache().append(key, randn(2, 3))


KINDS = pytest.mark.parametrize("max_length", [None, 13])


def held(cache):
    """The keys and values of the cache, whatever room it has."""
    return [part[..., : cache.length, :] for part in cache._stored]


@KINDS
@every("lead", [(), (3,), (2, 3), (2, 2, 3)])
@every(
    ("tokens", "after"), [([0, 2], 4), ([3, 0, 2], 0), ([6, 5, 4, 3, 2, 1, 0], 0), ([], 5), ([], 0)]
)
def test_what_a_cache_keeps(max_length, lead, tokens, after, randn):
    """The oldest stay, then the tokens that are named, in the order in which they are."""
    key, value = randn(*lead, 7, 5), randn(*lead, 7, 4)
    cache = KVCache(max_length)
    cache.append(key, value)
    cache.keep(tokens, after=after)
    places = [*range(after), *(after + token for token in tokens)]
    assert cache.length == len(places)
    for kept, whole in zip(held(cache), (key, value), strict=True):
        assert torch.equal(kept, whole[..., places, :])
    new = randn(*lead, 2, 5), randn(*lead, 2, 4)
    longer = cache.append(*new)
    for own, whole, more in zip(longer, (key, value), new, strict=True):
        assert torch.equal(own, torch.cat([whole[..., places, :], more], dim=-2))


@KINDS
def test_each_sample_keeps_its_own(max_length, randn, device):
    key, value = randn(2, 3, 7, 5), randn(2, 3, 7, 4)
    for tokens in ([[4, 0, 1], [2, 3, 0]], torch.tensor([[4, 0, 1], [2, 3, 0]], dtype=torch.uint8)):
        cache = KVCache(max_length)
        cache.append(key, value)
        cache.keep(tokens, after=2)
        for kept, whole in zip(held(cache), (key, value), strict=True):
            assert torch.equal(kept[0], whole[0][:, [0, 1, 6, 2, 3]])
            assert torch.equal(kept[1], whole[1][:, [0, 1, 4, 5, 2]])


def test_gradients_flow_through_what_a_growing_cache_keeps(randn):
    key, value = randn(2, 3, 7, 5).requires_grad_(), randn(2, 3, 7, 4).requires_grad_()
    cache = KVCache()
    cache.append(key, value)
    cache.keep([3, 1], after=2)
    weights = [randn(*part.shape) for part in held(cache)]
    total = sum((part * weight).sum() for part, weight in zip(held(cache), weights, strict=True))
    for gradient, weight in zip(torch.autograd.grad(total, (key, value)), weights, strict=True):
        expected = torch.zeros_like(gradient)
        expected[:, :, [0, 1, 5, 3]] = weight
        assert torch.equal(gradient, expected)


def test_a_preallocated_cache_keeps_in_place(randn):
    """What lies before ``after`` is not touched, and no room is allocated again."""
    cache = KVCache(max_length=13)
    key, _ = cache.append(randn(2, 7, 5), randn(2, 7, 4))
    place, older = key.data_ptr(), key[:, :3].clone()
    cache.keep([2, 0], after=3)
    assert torch.equal(key[:, :3], older)
    assert cache.append(randn(2, 1, 5), randn(2, 1, 4))[0].data_ptr() == place


@KINDS
def test_a_cache_filled_under_inference_mode_goes_on_without(max_length, randn):
    cache = KVCache(max_length)
    with torch.inference_mode():
        cache.append(randn(2, 7, 5), randn(2, 7, 4))
    with torch.no_grad():
        assert cache.append(randn(2, 2, 5), randn(2, 2, 4))[0].shape == (2, 9, 5)
        cache.keep([1], after=3)
        assert cache.append(randn(2, 1, 5), randn(2, 1, 4))[0].shape == (2, 5, 5)


def test_an_empty_cache_keeps_nothing():
    cache = KVCache()
    cache.keep([], after=0)
    assert (cache.length, cache.nbytes) == (0, 0)


FEW = "places among the 4 behind the first 3, counted from 0, got"
NO_ROW = r"integers of shape \(n,\) or \(2, n\), got shape"
ADVICE, LENGTH = "Name the tokens to keep by their places", "an integer between 0 and 7, got"


@KINDS
@every(
    ("tokens", "after", "message"),
    [
        ([4], 3, rf"tokens: expected {FEW} 4\. Subtract `after` from places in the whole cache\.$"),
        ([-1], 3, rf"tokens: expected {FEW} -1\. Subtract"),
        ([0], 7, r"tokens: expected places among the 0 behind the first 7, .* got 0\. Subtract"),
        ([0, 2, 0], 3, r"tokens: expected each one once, got 0 twice\. .* would count twice\.$"),
        ([[0, 1], [2, 2]], 3, r"tokens: expected each one once, got 2 twice\."),
        ([[0], [1], [2]], 3, rf"tokens: expected {NO_ROW} \(3, 1\) of torch\.int64\. {ADVICE}"),
        (0, 3, rf"tokens: expected {NO_ROW} \(\) of torch\.int64\. {ADVICE}"),
        ([0.0], 3, rf"tokens: expected {NO_ROW} \(1,\) of torch\.float32\. {ADVICE}"),
        (torch.ones(4) > 0, 3, rf"tokens: expected {NO_ROW} \(4,\) of torch\.bool\. {ADVICE}"),
        ([[0, 1], [2]], 3, rf"tokens: .* lists of one length, got \[\[0, 1\], \[2\]\]\. {ADVICE}"),
        ([0], 8, rf"after: expected {LENGTH} 8\. .* the length before the drafts were appended\.$"),
        ([0], -1, f"after: expected {LENGTH} -1"),
    ],
)
def test_what_is_not_in_a_cache_is_not_kept(max_length, tokens, after, message, randn):
    key, value = randn(2, 3, 7, 5), randn(2, 3, 7, 4)
    cache = KVCache(max_length)
    cache.append(key, value)
    kind = TypeError if "float32" in message or "bool" in message else ValueError
    with pytest.raises(kind, match=f"^{message}"):
        cache.keep(tokens, after=after)
    assert all(torch.equal(*pair) for pair in zip(held(cache), (key, value), strict=True))


@every(
    ("tokens", "message"),
    [
        (None, f"expected integers .* of one length, got None. {ADVICE}"),
        ("ab", f"expected integers .* of one length, got 'ab'. {ADVICE}"),
        (torch.zeros(1, dtype=torch.complex64), r"expected .*\.complex64\. Convert them with"),
        (torch.zeros(1, dtype=torch.uint16), r"expected .*\.uint16\. .* tokens\.long\(\)"),
    ],
)
def test_what_names_no_token_is_not_kept(tokens, message, randn):
    cache = KVCache()
    cache.append(randn(7, 5), randn(7, 4))
    with pytest.raises(TypeError, match=f"^tokens: {message}"):
        cache.keep(tokens, after=3)
    cache.keep(torch.tensor([3, 1], dtype=torch.uint8), after=3)
    assert cache.length == 5


def test_samples_of_a_cache_without_heads_are_not_told_apart(randn):
    cache = KVCache()
    cache.append(randn(2, 7, 5), randn(2, 7, 4))
    message = rf"^tokens: expected integers of shape \(n,\), got shape \(2, 1\) .* {ADVICE}"
    with pytest.raises(ValueError, match=message):
        cache.keep([[0], [1]], after=0)
