"""What each minimal function is held to: the whole function, called in the same way.

One generator a file of ``attnref/minimal``, of its name. It draws the tensors, and yields those
that carry a gradient with what the minimal function makes of them; then what the whole one does.
"""

import importlib
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.nn.functional import normalize

import attnref.minimal
from attnref import masks as patterns
from attnref import positions, softmax

PAIRS = {}
FILES = sorted(Path(attnref.minimal.__file__).parent.glob("[!_]*.py"))
minimal = SimpleNamespace(
    **{path.stem: importlib.import_module(f"attnref.minimal.{path.stem}") for path in FILES}
)
HEADS, KEY_HEADS, D_K, D_V = 6, 3, 8, 5


def pair(function):
    PAIRS[function.__name__] = function
    return function


def heads(draw, n, m, key_heads=HEADS):
    return draw(2, HEADS, n, D_K), draw(2, key_heads, m, D_K), draw(2, key_heads, m, D_V)


@pair
def attention(draw, n, m):
    q, k, v = heads(draw, n, m)
    ours = minimal.attention.scaled_dot_product_attention(q, k, v)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v)


@pair
def causal(draw, n, m):
    q, k, v = heads(draw, n, m)
    mask = patterns.causal(n, m, alignment="bottom-right")
    ours = minimal.causal.causal_attention(q, k, v)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v, mask)


@pair
def padding(draw, n, m):
    q, k, v = heads(draw, n, m)
    lengths = torch.tensor([m, max(1, m // 2)], device=draw.device)
    ours = minimal.padding.padded_attention(q, k, v, lengths)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v, patterns.padding(lengths, m))


@pair
def cross(draw, n, m):
    x, memory = draw(2, n, 7), draw(2, m, 9)
    weights = draw(D_K, 7), draw(D_K, 9), draw(D_V, 9)
    q, k, v = (y @ w.mT for y, w in zip((x, memory, memory), weights, strict=True))
    ours = minimal.cross.cross_attention(x, memory, *weights)
    yield (x, memory, *weights), ours
    yield attnref.scaled_dot_product_attention(q, k, v)


@pair
def multi_head(draw, n, m):
    x, into, out = draw(2, n, 12), draw(36, 12), draw(12, 12)
    whole = attnref.MultiHeadAttention(12, 3, bias=False, device=draw.device, dtype=x.dtype)
    names = ("query_proj.weight", "key_proj.weight", "value_proj.weight", "out_proj.weight")
    weights = dict(zip(names, (*into.chunk(3), out), strict=True))
    ours = minimal.multi_head.multi_head_attention(x, into, out, 3)
    yield (x, into, out), ours
    yield torch.func.functional_call(whole, weights, x)


@pair
def grouped(draw, n, m):
    q, k, v = heads(draw, n, m, KEY_HEADS)
    ours = minimal.grouped.grouped_query_attention(q, k, v)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pair
def dropout(draw, n, m):
    q, k, v = heads(draw, n, m)
    torch.manual_seed(0)
    ours = minimal.dropout.dropout_attention(q, k, v, 0.25)
    torch.manual_seed(0)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v, dropout_p=0.25)


@pair
def kv_cache(draw, n, m):
    """A prompt, and then the last tokens in a step."""
    q, k, v = heads(draw, n, n)
    cache, outputs = None, []
    for part in zip(*(x.split((n - n // 3, n // 3), -2) for x in (q, k, v)), strict=True):
        output, cache = minimal.kv_cache.cached_attention_step(*part, cache)
        outputs.append(output)
    yield (q, k, v), torch.cat(outputs, -2)
    yield attnref.scaled_dot_product_attention(q, k, v, is_causal=True)


@pair
def stable_softmax(draw, n, m):
    scores = draw(2, n, m)
    ours = minimal.stable_softmax.stable_softmax(100 * scores)
    yield (scores,), ours
    yield softmax.stable(100 * scores)


@pair
def online_softmax(draw, n, m):
    scores = draw(2, n, m)
    ours = minimal.online_softmax.online_softmax(100 * scores, block_size=3)
    yield (scores,), ours
    yield softmax.online(100 * scores, block_size=3)


@pair
def merge(draw, n, m):
    q, k, v = heads(draw, n, m + 1)
    scores = q @ k.mT / D_K**0.5
    parts = [
        softmax.partial_attention(s, x)
        for s, x in zip(scores.tensor_split([1], -1), v.tensor_split([1], -2), strict=True)
    ]
    (one, one_lse), (other, other_lse) = ((x.output, x.log_sum_exp()) for x in parts)
    whole = attnref.attend(q, k, v)
    ours = minimal.merge.merge(one, one_lse, other, other_lse)
    yield (q, k, v), ours
    yield (whole.output, whole.lse)


@pair
def rotary(draw, n, m):
    x = draw(2, n, D_K)
    t = torch.arange(n, device=draw.device)
    ours = minimal.rotary.rotary(x, t), minimal.rotary.rotary_half_split(x, t)
    yield (x,), ours
    yield (positions.rotary(x), positions.rotary_half_split(x))


@pair
def sinusoidal(draw, n, m):
    yield (), minimal.sinusoidal.sinusoidal(n, 2 * m)
    yield positions.sinusoidal(n, 2 * m)


@pair
def alibi(draw, n, m):
    slopes = [minimal.alibi.alibi_slopes(h) for h in (1, 2, 8, 12, 20)]
    whole = [positions.alibi_slopes(h) for h in (1, 2, 8, 12, 20)]
    yield (), (*slopes, minimal.alibi.alibi(12, n))
    yield (*whole, positions.alibi(12, n))


@pair
def relative_buckets(draw, n, m):
    table, distance = draw(HEADS, 32), torch.arange(-300, 300, device=draw.device)
    whole = positions.relative_buckets(
        torch.arange(n) - torch.arange(n)[:, None], bidirectional=False
    )
    ours = (
        minimal.relative_buckets.bucket_bias(table, n),
        minimal.relative_buckets.relative_buckets(distance).double(),
    )
    buckets = positions.relative_buckets(distance, bidirectional=False).double()
    yield (table,), ours
    yield (table[:, whole], buckets)


@pair
def softcap(draw, n, m):
    q, k, v = heads(draw, n, m)
    ours = minimal.softcap.softcap_attention(q, k, v, 2.0)
    yield (q, k, v), ours
    yield attnref.scaled_dot_product_attention(q, k, v, softcap=2.0)


@pair
def sink(draw, n, m):
    q, k, v = heads(draw, n, m)
    s = draw(HEADS)
    ours = minimal.sink.sink_attention(q, k, v, s)
    yield (q, k, v, s), ours
    yield attnref.scaled_dot_product_attention(q, k, v, sink=s)


@pair
def masks(draw, n, m):
    own, lengths = minimal.masks, torch.tensor([1, m])
    ours = [own.causal_mask(n, m, alignment) for alignment in ("top-left", "bottom-right")]
    ours += [own.causal_window_mask(n, 3), own.padding_mask(lengths, m), own.packed_mask(lengths)]
    whole = [
        patterns.causal(n, m, alignment="top-left"),
        patterns.causal(n, m, alignment="bottom-right"),
    ]
    whole += [patterns.sliding_window(n, window=3, is_causal=True), patterns.padding(lengths, m)]
    whole += [patterns.packed(lengths)]
    yield (), ours
    yield [x.dense() for x in whole]


@pair
def blockwise(draw, n, m):
    q, k, v = heads(draw, n, m)
    ours = minimal.blockwise.blockwise_attention(q, k, v, block_size=4)
    yield (q, k, v), ours
    yield attnref.blockwise_attention(q, k, v)


@pair
def causal_window(draw, n, m):
    q, k, v = heads(draw, n, n)
    ours = minimal.causal_window.causal_window_attention(q, k, v, window=5)
    yield (q, k, v), ours
    yield attnref.sliding_window_attention(q, k, v, window=5, is_causal=True)


@pair
def block_sparse(draw, n, m):
    q, k, v = heads(draw, n, m)
    layout = torch.rand(-(-n // 4), -(-m // 4), generator=draw.generator) < 0.5
    ours = minimal.block_sparse.block_sparse_attention(q, k, v, layout, block_size=4)
    yield (q, k, v), ours
    yield attnref.block_sparse_attention(q, k, v, layout, block_size=4)


@pair
def varlen(draw, n, m):
    q, k, v = heads(draw, n, n)
    cu_seqlens = torch.tensor([0, n // 3, n // 3, n])
    ours = minimal.varlen.varlen_attention(q, k, v, cu_seqlens)
    yield (q, k, v), ours
    yield attnref.varlen_attention(q, k, v, cu_seqlens)


@pair
def linear(draw, n, m):
    own = minimal.linear
    q, k, v = heads(draw, n, m)
    keys, values = draw(2, HEADS, n, D_K), draw(2, HEADS, n, D_V)
    state, normaliser = q.new_zeros(2, HEADS, D_K, D_V), q.new_zeros(2, HEADS, D_K)
    steps = []
    for t in range(n):
        token = q[..., t, :], keys[..., t, :], values[..., t, :]
        output, state, normaliser = own.linear_attention_step(*token, state, normaliser)
        steps.append(output)
    whole = attnref.linear_attention(q, keys, values, is_causal=True)
    ours = (
        own.linear_attention(q, k, v),
        own.causal_linear_attention(q, keys, values, block_size=4),
        torch.stack(steps, -2),
    )
    wholes = attnref.linear_attention(q, k, v), whole, whole
    yield (q, k, v, keys, values), ours
    yield wholes


@pair
def gated_delta(draw, n, m):
    q, k, v = heads(draw, n, n)
    rates = -draw(2, HEADS, n).square(), draw(2, HEADS, n).sigmoid()
    unit = normalize(k, dim=-1)
    own = minimal.gated_delta
    ours = (
        own.gated_delta_attention(q, unit, v, *rates),
        own.chunked_gated_delta_attention(q, unit, v, *rates, block_size=4),
    )
    log_decay, beta = rates
    whole = attnref.gated_delta_attention(q, unit, v, log_decay=log_decay, beta=beta)
    yield (q, k, v, *rates), ours
    yield (whole, whole)


@pair
def latent(draw, n, m):
    q, c = draw(2, HEADS, n, D_K), draw(2, m, 11)
    key_up, value_up = draw(HEADS, D_K, 11), draw(HEADS, D_V, 11)
    rotary = draw(2, HEADS, n, 4), draw(2, m, 4)
    tensors = q, c, key_up, value_up, *rotary
    ours = (
        minimal.latent.latent_attention(*tensors),
        minimal.latent.latent_attention_step(*tensors),
    )
    names = dict(zip(("query_rotary", "key_rotary"), rotary, strict=True))
    whole = attnref.latent_attention(q, c, key_up, value_up, **names)
    yield tensors, ours
    yield (whole, whole)


@pair
def paged(draw, n, m):
    block_size, pages = 4, -(-m // 4)
    q = draw(2, HEADS, 1, D_K)
    pools = tuple(draw(2 * pages + 3, block_size, HEADS, width) for width in (D_K, D_V))
    table = torch.randperm(2 * pages, generator=draw.generator).view(2, pages).to(draw.device)
    lengths = torch.tensor([m, 1], device=draw.device)
    ours = minimal.paged.paged_attention_step(q, *pools, table, lengths)
    yield (q, *pools), ours
    yield attnref.paged_attention(q, *pools, table, lengths)


@pair
def split_kv(draw, n, m):
    q, k, v = heads(draw, 1, m)
    ours = minimal.split_kv.split_kv_attention(q, k, v, splits=3)
    yield (q, k, v), ours
    yield attnref.kv_cache_attention(q, k, v, splits=3)


@pair
def moba(draw, n, m):
    q, k, v = heads(draw, n, n)
    ours = minimal.moba.causal_moba_attention(q, k, v, block_size=4, num_blocks=2)
    options = {"block_size": 4, "num_blocks": 2, "is_causal": True}
    yield (q, k, v), ours
    yield attnref.moba_attention(q, k, v, **options)


@pair
def differential(draw, n, m):
    q, k, v = heads(draw, n, m)
    lambd = draw(HEADS, 1, 1)
    ours = minimal.differential.differential_attention(q, k, v, lambd)
    yield (q, k, v, lambd), ours
    yield attnref.differential_attention(q, k, v, lambd)


@pair
def topk(draw, n, m):
    q, k, v = heads(draw, n, m)
    ours = minimal.topk.topk_attention(q, k, v, 4)
    yield (q, k, v), ours
    yield attnref.topk_attention(q, k, v, num_keys=min(4, m))


@pair
def performer(draw, n, m):
    q, k, v = heads(draw, n, m)
    directions = draw(16, D_K)
    ours = minimal.performer.performer_attention(q, k, v, directions)
    yield (q, k, v), ours
    yield attnref.performer_attention(q, k, v, projection=directions.detach())


@pair
def linformer(draw, n, m):
    q, k, v = heads(draw, n, m)
    e, f = draw(4, m), draw(4, m)
    ours = minimal.linformer.linformer_attention(q, k, v, e, f)
    whole = attnref.linformer_attention(q, k, v, key_projection=e, value_projection=f)
    yield (q, k, v, e, f), ours
    yield whole


@pair
def ring(draw, n, m):
    q, k, v = (x.detach() for x in heads(draw, n, m))
    yield (), minimal.ring.ring_attention(q, k, v)
    yield attnref.scaled_dot_product_attention(q, k, v)


@pair
def ulysses(draw, n, m):
    q, k, v = (draw(HEADS, n, width).detach() for width in (D_K, D_K, D_V))
    ours = minimal.ulysses.ulysses_attention(q, k, v)
    yield (), ours
    yield attnref.scaled_dot_product_attention(q, k, v)


@pair
def indexer(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, n, 8), draw(2, 3, n, 6)
    index = draw(2, 4, n, 5).detach(), draw(2, n, 5).detach(), draw(2, 4, n).detach()
    ours = minimal.indexer.causal_indexer_attention(q, k, v, *index, num_keys=6)
    whole = attnref.indexer_attention(q, k, v, *index, num_keys=6, is_causal=True)
    yield (q, k, v), ours
    yield whole


@pair
def native_sparse(draw, n, m):
    q, k, v, gates = draw(2, 3, n, 8), draw(2, 3, n, 8), draw(2, 3, n, 6), draw(2, 3, n, 3)
    sizes = {"block_size": 4, "num_blocks": 4, "window": 5}
    ours = minimal.native_sparse.causal_native_sparse_attention(q, k, v, gates, **sizes)
    yield (q, k, v, gates), ours
    yield attnref.native_sparse_attention(q, k, v, gates, **sizes)


@pair
def hierarchical(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, n, 8), draw(2, 3, n, 6)
    ours = minimal.hierarchical.hierarchical_attention(q, k, v, block_size=4, num_means=2)
    yield (q, k, v), ours
    yield attnref.hierarchical_attention(q, k, v, block_size=4, num_means=2)


@pair
def nystrom(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, m, 8), draw(2, 3, m, 6)
    r = min(4, n, m)
    ours = minimal.nystrom.nystrom_attention(q, k, v, num_landmarks=r)
    yield (q, k, v), ours
    yield attnref.nystrom_attention(q, k, v, num_landmarks=r)


@pair
def lsh(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, n, 8), draw(2, 3, n, 6)
    rotations = draw(3, 8, 4).detach()
    ours = minimal.lsh.lsh_attention(q, k, v, rotations, block_size=4)
    yield (q, k, v), ours
    yield attnref.lsh_attention(q, k, v, rotations=rotations, block_size=4)


@pair
def quantized(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, m, 8), draw(2, 3, m, 6)
    ours = minimal.quantized.quantized_attention(q, k, v)
    yield (q, k, v), ours
    yield attnref.quantized_attention(q, k, v)


@pair
def eight_bit_floats(draw, n, m):
    q, k, v = draw(2, 3, n, 8), draw(2, 3, m, 8), draw(2, 3, m, 6)
    ours = minimal.eight_bit_floats.float8_attention(q, k, v, block_size=4)
    options = {"dtype": torch.float8_e4m3fn, "smooth": False, "values": True, "weights": True}
    yield (q, k, v), ours
    yield attnref.quantized_attention(q, k, v, block_size=4, **options)


@pair
def gated(draw, n, m):
    q, k, v, tokens = draw(2, 3, n, 8), draw(2, 3, m, 8), draw(2, 3, m, 6), draw(2, n, 10)
    gate_weight = draw(3, 10, 1), draw(3, 10, 6)  # headwise, elementwise
    gates = tuple(torch.sigmoid(tokens[:, None] @ w) for w in gate_weight)
    ours = tuple(minimal.gated.gated_attention(q, k, v, tokens, w) for w in gate_weight)
    found = attnref.scaled_dot_product_attention(q, k, v)
    yield (q, k, v, tokens, *gate_weight), ours
    yield tuple(gate * found for gate in gates)


@pair
def distance_bias(draw, n, m):
    q, k, v, bias = draw(2, 3, n, 8), draw(2, 3, m, 8), draw(2, 3, m, 6), draw(3, n + m - 1)
    ours = minimal.distance_bias.distance_bias_attention(q, k, v, bias)
    yield (q, k, v, bias), ours
    yield attnref.distance_bias_attention(q, k, v, bias)


@pair
def tree_mask(draw, n, m):
    """A tree of random depth, and a chain; parents may come after their children."""
    order = torch.randperm(n, generator=draw.generator)
    parents = torch.full((2, n), -1)
    for place in range(1, n):
        before = int(torch.randint(-1, place, (), generator=draw.generator))
        parents[0, order[place]] = order[before] if before >= 0 else -1
        parents[1, order[place]] = order[place - 1]
    parents = parents.to(draw.device)
    yield (), (minimal.tree_mask.tree_mask(parents), minimal.tree_mask.tree_mask(parents[0]))
    whole = patterns.tree(parents).dense()[:, 0]  # (2, n, n)
    yield whole, whole[0]
