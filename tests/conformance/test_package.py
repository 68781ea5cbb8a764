"""The checker asks every public attention function of the package: what nobody lists goes unasked.

Each is called so that the definition says the same, and those that only come near it as they are.
"""

import inspect

import pytest
import torch
import torch.distributed as dist

import attnref
from attnref import distributed, masks, variants
from attnref.conformance import Verdict, check

APPROXIMATE = {"gated_delta", "linear", "nystrom", "performer", "quantized"}


@pytest.fixture(scope="module", autouse=True)
def mesh():
    """One rank, in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1, 1))
    dist.destroy_process_group()


def kv_cache(query, key, value, **options):
    """One new token after the other."""
    steps = [attnref.kv_cache_attention(q, key, value, **options) for q in query.split(1, -2)]
    return torch.cat(steps, -2) if query.shape[-2] else query.new_zeros(0)


def paged(query, key, value, **options):
    """Pages of one token; every query is the newest of a text of its own."""
    (b, h, n, d), m = query.shape, key.shape[-2]
    pools = [x.transpose(1, 2).flatten(0, 1)[:, None] for x in (key, value)]
    table = torch.arange(b * m).view(b, m).repeat_interleave(n, 0)
    queries = query.transpose(1, 2).reshape(b * n, h, 1, d)
    lengths = torch.full((b * n,), m)
    found = attnref.paged_attention(queries, *pools, table, lengths, **options)
    return found.view(b, n, h, -1).transpose(1, 2)


def latent(query, key, value, *masks, **options):
    """A latent that holds the keys and values of all heads."""
    heads, d_k = key.shape[-3], key.shape[-1]
    held = torch.cat([x.transpose(-3, -2).flatten(-2) for x in (key, value)], -1)
    up = torch.eye(held.shape[-1], dtype=key.dtype)
    ups = (
        up[rows].unflatten(0, (heads, -1))
        for rows in (slice(heads * d_k), slice(heads * d_k, None))
    )
    return attnref.latent_attention(query, held, *ups, *masks, **options)


def differential(query, key, value, *masks, **options):
    """Two equal maps, of which one half is taken away."""
    query, key = (torch.cat([x, x], -1) for x in (query, key))
    return 2 * attnref.differential_attention(query, key, value, *masks, **options)


# Those that are called in another way, and what the others need beside query, key and value.
OTHERWISE = {"differential": differential, "kv_cache": kv_cache, "latent": latent, "paged": paged}
NEED = {
    "block_sparse": lambda n, m, q: {
        "layout": torch.ones(-(-n // 4), -(-m // 4), dtype=torch.bool),
        "block_size": 4,
    },
    "differential": lambda n, m, q: {"lambd": 0.5},
    "distance_bias": lambda n, m, q: {"bias": q.new_zeros(max(0, n + m - 1))},
    "indexer": lambda n, m, q: {
        "index_query": q.new_ones(1, n, 1),
        "index_key": q.new_ones(m, 1),
        "index_weights": q.new_ones(1, n),
        "count": max(1, m),
    },
    "linformer": lambda n, m, q: dict.fromkeys(
        ("key_projection", "value_projection"), torch.eye(m, dtype=q.dtype)
    ),
    "lsh": lambda n, m, q: {"rotations": q.new_ones(1, q.shape[-1], 1), "chunk_size": max(1, m)},
    "mesh": lambda n, m, q: {"mesh": dist.init_device_mesh("cpu", (1, 1))},
    "moba": lambda n, m, q: {"block_size": 2, "count": max(1, m)},
    "native_sparse": lambda n, m, q: {
        "gates": q.new_tensor([0.0, 0.0, 1.0]),
        "block_size": 2,
        "count": 1,
        "window": max(1, m),
    },
    "nystrom": lambda n, m, q: {"num_landmarks": 1},
    "performer": lambda n, m, q: {"projection": torch.eye(q.shape[-1], dtype=q.dtype)},
    "sliding_window": lambda n, m, q: {"window": 2 * max(1, n, m) - 1},
    "topk": lambda n, m, q: {"count": max(1, m)},
    "varlen": lambda n, m, q: {
        "cu_seqlens": torch.tensor([0, n]),
        "cu_seqlens_key": torch.tensor([0, m]),
    },
}
PUBLIC = {
    name.removesuffix("_attention"): getattr(room, name)
    for room in (variants, distributed)
    for name in room.__all__
    if name.endswith("_attention")
} | {name: getattr(attnref, name) for name in ("attend", "scaled_dot_product_attention")}


def called(name):
    """The function of query, key and value, with the options of the public one."""
    function, need = OTHERWISE.get(name, PUBLIC[name]), NEED.get(name, lambda n, m, q: {})
    signature = inspect.signature(PUBLIC[name])
    given = {"latent", "key_up", "value_up", "block_table", "lengths"}
    given |= need(2, 2, torch.ones(2, 2)).keys() | {"query", "key", "value"}
    options = [one for one in signature.parameters.values() if one.name not in given]
    three = [
        inspect.Parameter(x, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for x in ("query", "key", "value")
    ]

    def attention(query, key, value, *masks, **options):
        options |= need(query.shape[-2], key.shape[-2], query)
        return function(query, key, value, *masks, **options)

    attention.__signature__ = signature.replace(parameters=[*three, *options])
    return attention


@pytest.mark.parametrize("name", PUBLIC)
def test_no_gradient_penalty_is_lost(name):
    """It has the gradient of the formula, or is refused."""
    generator = torch.Generator().manual_seed(0)
    shape, within = (2, 3, 5, 4), {"rtol": 1e-10, "atol": 1e-10}
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    function = called(name)
    if name in APPROXIMATE:  # the checker has no formula for them
        leaves = [x.requires_grad_() for x in inputs]
        if name != "quantized":  # differences of what is rounded say nothing
            assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)
        first = torch.autograd.grad(function(*leaves).square().sum(), leaves, create_graph=True)
        assert all(x.requires_grad for x in first)
        return
    output = function(*inputs)
    expected = attnref.scaled_dot_product_attention(*inputs, is_causal=name == "native_sparse")
    torch.testing.assert_close(output[0] if name == "attend" else output, expected, **within)
    report = check(function, only=["gradient_penalty"], limit=None)
    assert [result.verdict for result in report.results] == [Verdict.PASS], report.text()


@pytest.mark.parametrize("name", ["gather", "mesh", "ring", "split_kv", "ulysses"])
def test_the_default_device_of_a_rank_is_not_asked(name):
    """What ranks tell each other are numbers of the processor, or of their GPU."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 4, 5, 3, generator=generator) for _ in range(3)]
    mask = masks.causal(5)
    expected = called(name)(*inputs, attn_mask=mask)
    with torch.device("meta"):
        assert torch.equal(called(name)(*inputs, attn_mask=mask), expected)


def test_a_rank_may_hold_no_keys():
    query, none = torch.ones(2, 4, 1, 3), torch.ones(2, 2, 0, 3)
    assert not distributed.split_kv_attention(query, none, none, enable_gqa=True).any()
    nobody = query[:0], none[:0], none[:0]
    assert distributed.split_kv_attention(*nobody, enable_gqa=True).shape == (0, 4, 1, 3)


@pytest.mark.parametrize("name", ["mesh", "ulysses"])
def test_a_mask_of_no_kind_is_named(name):
    tokens = torch.ones(4, 5, 3)
    with pytest.raises(TypeError, match=r"^attn_mask: expected a torch\.Tensor or a mask"):
        called(name)(tokens, tokens, tokens, attn_mask="causal")
