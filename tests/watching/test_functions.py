"""Functions of libraries that need a GPU: stand-ins with their signatures are read as they are."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attnref

N, M = 5, 11
Q, K, V = torch.randn(3, 2, 11, 4, 8, generator=torch.Generator().manual_seed(0)).unbind()
STARTS = torch.tensor([0, 3, 11])


def allowed(n, m, window, causal):
    back, ahead = window
    place = torch.arange(m) - torch.arange(n)[:, None] - (m - n)
    ahead = 0 if causal else ahead
    return ((place >= -back) | (back < 0)) & ((place <= ahead) | (ahead < 0))


def flash(q, k, v, softmax_scale, causal, window_size):
    """What FlashAttention documents: (b, n, h, d), aligned at the bottom right."""
    seen = allowed(q.shape[1], k.shape[1], window_size, causal)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return sdpa(q, k, v, seen, scale=softmax_scale, enable_gqa=True).transpose(1, 2)


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
):
    return flash(q, k, v, softmax_scale, causal, window_size)


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False):
    return flash(*qkv.unbind(2), softmax_scale, causal, (-1, -1))


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None, causal=False):
    return flash(q, *kv.unbind(2), softmax_scale, causal, (-1, -1))


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, softmax_scale=None, causal=False
):
    length = int(torch.as_tensor(cache_seqlens).max())
    if k is not None:
        k_cache[:, length : length + k.shape[1]] = k
        v_cache[:, length : length + v.shape[1]] = v
        length += k.shape[1]
    return flash(q, k_cache[:, :length], v_cache[:, :length], softmax_scale, causal, (-1, -1))


def pieces(q, k, v, starts, scale, causal, window):
    parts = [slice(*each) for each in zip(starts.tolist(), starts[1:].tolist(), strict=False)]
    return torch.cat(
        [flash(q[None, p], k[None, p], v[None, p], scale, causal, window)[0] for p in parts]
    )


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    block_table=None,
):
    return pieces(q, k, v, cu_seqlens_q, softmax_scale, causal, window_size)


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
):
    return pieces(query, key, value, cu_seq_q, scale, False, window_size)


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    shape = (len(query), query.shape[2], query.shape[1], key.shape[1])
    mask = attn_bias.materialize(shape) if hasattr(attn_bias, "materialize") else attn_bias
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return sdpa(q, k, v, mask, scale=scale).transpose(1, 2)


def lower_triangle(shape, dtype=torch.float32, device="cpu"):
    return torch.full(shape, -torch.inf, dtype=dtype, device=device).triu(1)


TRIANGLE = SimpleNamespace(materialize=lower_triangle)


def packed(x):
    return x[0]


def heads_first(*tensors):
    return tuple(x.transpose(1, 2) for x in tensors)


def causal(sample, head, query, key):
    return query >= key


BLOCKS = create_block_mask(causal, 2, None, 11, 11, device="cpu")


# By name: the function, its arguments, and the mask that it means; None where it is unknown.
CALLS = {
    "all keys": (flash_attn_func, (Q, K, V), {}, "none"),
    "causal": (flash_attn_func, (Q, K, V), {"causal": True}, "causal"),
    "fewer queries": (flash_attn_func, (Q[:, -N:], K, V), {"causal": True}, "causal, bottom-right"),
    "window": (
        *(flash_attn_func, (Q, K[:, :, :2], V[:, :, :2])),
        {"causal": True, "window_size": (3, 0), "softmax_scale": 0.2, "deterministic": True},
        "causal, window of 4",
    ),
    "band": (flash_attn_func, (Q, K, V), {"window_size": (2, 1)}, "window, 2 back and 1 ahead"),
    "slopes": (flash_attn_func, (Q, K, V), {"alibi_slopes": torch.ones(4)}, None),
    "three in one": (flash_attn_qkvpacked_func, (torch.stack([Q, K, V], 2),), {}, "none"),
    "two in one": (flash_attn_kvpacked_func, (Q, torch.stack([K, V], 2)), {}, "none"),
    "cache": (
        *(flash_attn_with_kvcache, (Q[:, :1], K.clone(), V.clone())),
        {"k": K[:, :1], "v": V[:, :1], "cache_seqlens": 6, "causal": True},
        "all allowed",
    ),
    "caches": (
        *(flash_attn_with_kvcache, (Q[:, :1], K.clone(), V.clone())),
        {"cache_seqlens": torch.tensor([6, 4])},
        None,
    ),
    "sequences": (
        *(flash_attn_varlen_func, (*map(packed, (Q, K, V)), STARTS, STARTS, 8, 8)),
        {"causal": True},
        "causal",
    ),
    "pages": (
        *(flash_attn_varlen_func, (*map(packed, (Q, K, V)), STARTS, STARTS, 8, 8)),
        {"block_table": torch.zeros(2, 1)},
        None,
    ),
    "PyTorch's": (
        *(varlen_attn, (*map(packed, (Q, K, V)), STARTS, STARTS, 8, 8)),
        {"window_size": (-1, 0), "scale": 0.3},
        "causal",
    ),
    "flex": (flex_attention, heads_first(Q, K, V), {"scale": 0.3}, "none"),
    "blocks": (flex_attention, heads_first(Q, K, V), {"block_mask": BLOCKS}, "causal"),
    "another score": (
        *(flex_attention, heads_first(Q, K, V)),
        *({"score_mod": lambda score, *place: score + 1}, None),
    ),
    "xFormers'": (memory_efficient_attention, (Q, K, V), {"scale": 0.3}, "none"),
    "its mask": (memory_efficient_attention, (Q, K, V, TRIANGLE), {}, "causal"),
    "its numbers": (
        *(memory_efficient_attention, (Q, K, V, lower_triangle((N + 6, M)))),
        *({}, "causal"),
    ),
}
PLACES = {
    flex_attention: "torch.nn.attention.flex_attention",
    varlen_attn: "torch.nn.attention.varlen",
    memory_efficient_attention: "xformers.ops",
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("function", "given", "options", "mask"), CALLS.values(), ids=CALLS)
def test_a_call_is_read_as_its_library_means_it(function, given, options, mask, monkeypatch):
    place = PLACES.get(function, "flash_attn")
    module = sys.modules.get(place) or ModuleType(place)
    monkeypatch.setitem(sys.modules, place, module)
    monkeypatch.setattr(module, function.__name__, function, raising=False)

    class Attention(nn.Module):
        def forward(self):
            return getattr(module, function.__name__)(*given, **options)

    layer = Attention().eval()
    with attnref.watch(layer) as seen:
        layer()
        layer()
    (site,) = seen.sites.values()
    (way,) = site.ways.values()
    assert (way.count, seen.missed) == (2, {})
    if mask is None:
        assert site.statistics.error is None
    else:
        assert str(way.mask.pattern) == mask
        assert site.statistics.error < 1
