"""How the package's own methods are called for each task.

A variant without an entry here is called as ``function(query, key, value)`` for ``dense``. What
an entry does before it returns is not timed: it makes modules, masks and projections.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from attnref.bench.methods import Registry
from attnref.bench.problems import (
    BLOCK_SIZE,
    CHOSEN_COUNT,
    CHOSEN_SIZE,
    LSH_ROUNDS,
    WINDOW,
    DeltaProblem,
    DifferentialProblem,
    DistanceProblem,
    LatentProblem,
    PagedProblem,
    Problem,
    SinkProblem,
)
from attnref.cache import KVCache
from attnref.multihead import MultiHeadAttention
from attnref.variants.block_sparse import block_sparse_attention
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.differential import differential_attention
from attnref.variants.distance_bias import distance_bias_attention
from attnref.variants.gated_delta import gated_delta_attention
from attnref.variants.hierarchical import hierarchical_attention
from attnref.variants.indexer import indexer_attention
from attnref.variants.kv_cache import kv_cache_attention
from attnref.variants.latent import latent_attention
from attnref.variants.linear import linear_attention
from attnref.variants.linformer import linformer_attention, mean_projection
from attnref.variants.lsh import lsh_attention, random_rotations
from attnref.variants.moba import moba_attention
from attnref.variants.native_sparse import native_sparse_attention
from attnref.variants.paged import paged_attention
from attnref.variants.performer import performer_attention, random_projection
from attnref.variants.quantized import quantized_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.topk import topk_attention
from attnref.variants.varlen import varlen_attention

cases = Registry()

Run = Callable[[], Tensor]


@cases.case("multihead", "layer", defined=("attnref.multihead", "MultiHeadAttention"))
def multihead(problem: Problem) -> Run:
    assert problem.layer is not None
    layer = MultiHeadAttention.from_torch(problem.layer, attention=F.scaled_dot_product_attention)
    return lambda: layer(problem.query)


@cases.case("kv_cache", "decode")
def kv_cache(problem: Problem) -> Run:
    # One step: the last token joins those that are there, and is taken away for the next call.
    query, past = problem.query, problem.key.shape[-2] - 1
    cache = KVCache(max_length=past + 1)
    cache.append(problem.key[..., :past, :].detach(), problem.value[..., :past, :].detach())
    key, value = problem.key[..., past:, :], problem.value[..., past:, :]

    def run() -> Tensor:
        cache.length = past
        keys, values = cache.append(key, value)
        return kv_cache_attention(query, keys, values, enable_gqa=True)

    return run


@cases.case("latent", "latent")
def latent(problem: Problem) -> Run:
    assert isinstance(problem, LatentProblem)
    query, latents, ups = problem.query, problem.latent, (problem.key_up, problem.value_up)
    return lambda: latent_attention(query, latents, *ups)


@cases.case("gated_delta", "delta")
def gated_delta(problem: Problem) -> Run:
    assert isinstance(problem, DeltaProblem)
    query, key, value = problem.query, problem.key, problem.value
    log_decay, beta = problem.log_decay, problem.beta
    return lambda: gated_delta_attention(query, key, value, log_decay=log_decay, beta=beta)


@cases.case("distance_bias", "distance")
def distance_bias(problem: Problem) -> Run:
    assert isinstance(problem, DistanceProblem)
    query, key, value, bias = problem.query, problem.key, problem.value, problem.bias
    return lambda: distance_bias_attention(query, key, value, bias=bias)


@cases.case("differential", "differential")
def differential(problem: Problem) -> Run:
    assert isinstance(problem, DifferentialProblem)
    query, key, value, lambd = problem.query, problem.key, problem.value, problem.lambd
    return lambda: differential_attention(query, key, value, lambd=lambd)


@cases.case("paged", "paged")
def paged(problem: Problem) -> Run:
    assert isinstance(problem, PagedProblem)
    query, pool = problem.query, (problem.key_pages, problem.value_pages)
    table, lengths = problem.block_table, torch.tensor(problem.lengths, device=query.device)
    shared = query.shape[1] != problem.key.shape[1]
    return lambda: paged_attention(query, *pool, table, lengths, enable_gqa=shared)


@cases.case("moba", "chosen")
def moba(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    return lambda: moba_attention(
        query, key, value, block_size=CHOSEN_SIZE, count=CHOSEN_COUNT, is_causal=True
    )


@cases.case("indexer", "chosen")
def indexer(problem: Problem) -> Run:
    # As many keys as four blocks have, ranked by four heads of random numbers.
    query, key, value = problem.query, problem.key, problem.value
    generator = torch.Generator(query.device).manual_seed(0)
    index = [
        torch.randn(1, *size, generator=generator, device=query.device).to(query.dtype)
        for size in ((4, query.shape[-2], 32), (key.shape[-2], 32), (4, query.shape[-2]))
    ]
    count = CHOSEN_SIZE * CHOSEN_COUNT
    return lambda: indexer_attention(query, key, value, *index, count=count, is_causal=True)


@cases.case("native_sparse", "chosen")
def native_sparse(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    gates = torch.ones(3, dtype=query.dtype, device=query.device)
    size, count = CHOSEN_SIZE, CHOSEN_COUNT
    return lambda: native_sparse_attention(
        query, key, value, gates, block_size=size, count=count, window=size
    )


@cases.case("block_sparse", "blocks")
def block_sparse(problem: Problem) -> Run:
    query, key, value, layout = problem.query, problem.key, problem.value, problem.layout
    assert layout is not None
    return lambda: block_sparse_attention(query, key, value, layout, block_size=BLOCK_SIZE)


@cases.case(
    "blockwise", "dense", "causal", "window", "blocks", "chosen", "packed", "decode", "drafts"
)
def blockwise(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    mask = None if problem.is_causal else problem.mask
    shared = query.shape[1] != key.shape[1]
    return lambda: blockwise_attention(
        query, key, value, mask, is_causal=problem.is_causal, enable_gqa=shared
    )


@cases.case("blockwise", "sink")
def blockwise_sink(problem: Problem) -> Run:
    assert isinstance(problem, SinkProblem)
    query, key, value, sink = problem.query, problem.key, problem.value, problem.sink
    return lambda: blockwise_attention(query, key, value, is_causal=True, sink=sink)


@cases.case("linear", "dense", "causal")
def linear(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    return lambda: linear_attention(query, key, value, is_causal=problem.is_causal)


@cases.case("performer", "dense", "causal")
def performer(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    projection = random_projection(
        256,
        query.shape[-1],
        generator=torch.Generator(query.device).manual_seed(0),
    )
    return lambda: performer_attention(
        query, key, value, projection=projection, is_causal=problem.is_causal
    )


@cases.case("linformer", "dense")
def linformer(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    m = key.shape[-2]
    means = mean_projection(min(256, m), m, device=key.device, dtype=key.dtype)
    return lambda: linformer_attention(
        query, key, value, key_projection=means, value_projection=means
    )


@cases.case("hierarchical", "dense", "causal")
def hierarchical(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    return lambda: hierarchical_attention(query, key, value, is_causal=problem.is_causal)


@cases.case("lsh", "dense", "causal")
def lsh(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    generator = torch.Generator(query.device).manual_seed(0)
    buckets = 2 * max(1, key.shape[-2] // 128)
    rotations = random_rotations(
        LSH_ROUNDS, query.shape[-1], num_buckets=buckets, generator=generator
    )
    return lambda: lsh_attention(
        query, key, value, rotations=rotations, is_causal=problem.is_causal
    )


@cases.case("quantized", "dense", "causal")
def quantized(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    return lambda: quantized_attention(query, key, value, is_causal=problem.is_causal)


@cases.case("sliding_window", "window")
def sliding_window(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    return lambda: sliding_window_attention(query, key, value, window=WINDOW, is_causal=True)


@cases.case("topk", "dense", "causal")
def topk(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    count = min(64, key.shape[-2])
    return lambda: topk_attention(query, key, value, count=count, is_causal=problem.is_causal)


@cases.case("varlen", "packed")
def varlen(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    borders = torch.tensor((0, *(problem.lengths or ()))).cumsum(0).to(query.device)
    return lambda: varlen_attention(query, key, value, borders)
