"""What sizes say of memory, beside tensors of these sizes; and wrong sizes."""

import re
from dataclasses import replace

import pytest
import torch

import attnref
from attnref import cost
from attnref.cost import Cost, Sizes
from attnref.positions import rotary
from tests.cost.programs import inputs
from tests.variants.every import every


@pytest.mark.parametrize(("num_kv_heads", "bytes_"), [(64, 2_621_440), (8, 327_680), (1, 40_960)])
def test_cache_of_a_token(num_kv_heads, bytes_, device):
    layers = [
        [torch.zeros(num_kv_heads, 1, 128, dtype=torch.float16, device=device) for _ in "kv"]
        for _ in range(80)
    ]
    kept = sum(tensor.untyped_storage().nbytes() for layer in layers for tensor in layer)
    sizes = Sizes(
        n=1, m=1, d_k=128, d_v=128, num_heads=64, num_kv_heads=num_kv_heads, dtype=torch.float16
    )
    assert 80 * sizes.cache_bytes == kept == bytes_


def test_cache_of_many_tokens_and_unequal_widths():
    sizes = Sizes(n=1, m=17, d_k=5, d_v=7, batch=2, num_heads=6, num_kv_heads=3)
    assert sizes.cache_bytes == torch.ones(2, 3, 17, 5).nbytes + torch.ones(2, 3, 17, 7).nbytes


TWO = Sizes(n=2, m=3, d_k=5, d_v=7)


ONE_OR_MORE = "expected an integer of 1 or more, got 0"


@pytest.mark.claim("latent-cache")
def test_latent_cache(randn):
    """512 latent and 64 rotary numbers per token, 1.76 % of 128 heads of keys and values.

    A step from such a cache is run: the keys and values of every head come out of it.
    """
    n, heads, d, latent_width, rotary_width = 5, 128, 128, 512, 64
    x = randn(n, 31, dtype=torch.float32)
    down, turn = randn(31, latent_width).float() / 31**0.5, randn(31, rotary_width).float()
    up_key, up_value = (randn(heads, latent_width, d).float() / latent_width**0.5 for _ in "kv")
    query = randn(heads, 1, d + rotary_width).float()

    def expanded(tokens, turned):
        keys = torch.cat([tokens @ up_key, turned.expand(heads, -1, -1)], dim=-1)
        return keys, tokens @ up_value  # (heads, n, d + 64), (heads, n, d)

    cache = torch.cat([x @ down, rotary(x @ turn)], dim=-1)  # what is kept of each token
    assert cache.shape[-1] == 576
    keys, values = expanded(x @ down, rotary(x @ turn))
    ours = expanded(*cache.split([latent_width, rotary_width], dim=-1))
    whole_output = attnref.scaled_dot_product_attention(query, keys, values)
    # Without the keys: the matrix that would make them goes to the query's side.
    absorbed = torch.cat([query[..., :d] @ up_key.mT, query[..., d:]], dim=-1)
    scale = (d + rotary_width) ** -0.5
    short = attnref.scaled_dot_product_attention(
        absorbed, cache, cache[:, :latent_width], scale=scale
    )
    torch.testing.assert_close(short @ up_value, whole_output, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours[1], values)
    assert values.numel() + keys[..., :d].numel() == n * 32_768
    latent = Sizes(n=1, m=1, d_k=512 + 64, d_v=0, num_heads=128, num_kv_heads=1)
    whole = Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=128)
    assert latent.cache_bytes == cache[0].nbytes
    assert whole.cache_bytes // 4 == 32_768
    assert round(100 * latent.cache_bytes / whole.cache_bytes, 2) == 1.76
    groups = Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=128, num_kv_heads=1)
    assert latent.cache_bytes / groups.cache_bytes == 2.25


def test_state_against_cache(generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7, num_heads=3)
    _, key, value, _ = inputs(sizes, generator)
    state, norm = key.mT @ value, key.sum(-2)
    assert sizes.state_bytes == state.nbytes + norm.nbytes
    # The cache is larger from about d/2 tokens on.
    short, long = (Sizes(n=1, m=m, d_k=64, d_v=64) for m in (32, 33))
    assert short.cache_bytes < short.state_bytes == long.state_bytes < long.cache_bytes


@pytest.mark.claim("score-memory")
def test_memory_of_the_scores():
    expected = {2048: 0.25, 8192: 4, 32768: 64, 131072: 1024}
    for n, gibibytes in expected.items():
        sizes = Sizes(n=n, m=n, d_k=128, d_v=128, num_heads=32, dtype=torch.float16)
        query = torch.empty(32, n, 128, dtype=torch.float16, device="meta")
        assert sizes.score_bytes == (query @ query.mT).nbytes == gibibytes * 2**30


@every("name", ["n", "m", "d_k", "batch", "num_heads", "num_kv_heads"])
@every("wrong", [0, "4"])
def test_a_wrong_size_is_named(name, wrong):
    text = f"^{name}: expected an integer of 1 or more, got {wrong!r}. Read it off the shape of a"
    with pytest.raises(ValueError if wrong == 0 else TypeError, match=text):
        replace(TWO, **{name: wrong})


@every(
    ("call", "message"),
    [
        (lambda: replace(TWO, d_v=-1), "d_v: expected an integer of 0 or more, got -1"),
        (
            lambda: replace(TWO, num_heads=6, num_kv_heads=4),
            "num_kv_heads: expected a divisor of num_heads = 6, got 4. Each key head serves",
        ),
        (
            lambda: cost.of("linear", replace(TWO, num_heads=6, num_kv_heads=3)),
            "num_kv_heads: expected 6, as many as num_heads, got 3. Each head has a state",
        ),
        (
            lambda: cost.of("fused", TWO, pairs=7),
            "pairs: expected at most n m = 6, got 7. Count those of",
        ),
        (lambda: cost.of("fused", TWO, pairs=-1), "pairs: expected an integer of 0 or more"),
        (lambda: cost.allowed_pairs(0, 3), f"n: {ONE_OR_MORE}"),
        (
            lambda: cost.allowed_pairs(2, 3, window=(1, -2)),
            "window: expected left + right of at least 0, got (1, -2). Query i sees the keys",
        ),
        (lambda: cost.of("blockwise", TWO, block=(0, 4)), f"block_q: {ONE_OR_MORE}"),
        (lambda: cost.useful_share([]), f"sequences: {ONE_OR_MORE}"),
        (lambda: cost.useful_share([3, 0]), f"lengths: {ONE_OR_MORE}"),
        (lambda: cost.multihead(TWO, 0, Cost()), f"embed_dim: {ONE_OR_MORE}"),
        (lambda: cost.parameters(TWO, 0), f"embed_dim: {ONE_OR_MORE}"),
        (lambda: cost.feedforward(1, 2, 0), f"hidden: {ONE_OR_MORE}"),
        (lambda: cost.parameters(TWO, 2, hidden=0), f"hidden: {ONE_OR_MORE}"),
    ],
)
def test_a_wrong_value_is_named(call, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        call()


@every(
    ("call", "message"),
    [
        (lambda: cost.of("fused", None), "sizes: expected attnref.cost.Sizes, got NoneType."),
        (lambda: cost.parameters(None, 8), "sizes: expected attnref.cost.Sizes, got NoneType."),
        (
            lambda: replace(TWO, dtype="float16"),
            "dtype: expected a torch.dtype, got 'float16'. Write",
        ),
        (
            lambda: cost.allowed_pairs(2, 3, window=(1.5, 0)),
            "window: expected (left, right) of integers or None, got (1.5, 0). None is without",
        ),
    ],
)
def test_a_wrong_type_is_named(call, message):
    with pytest.raises(TypeError, match="^" + re.escape(message)):
        call()
