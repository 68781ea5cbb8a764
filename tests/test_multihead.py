import copy
import math
import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnref import (
    PagedCache,
    StreamingCache,
    blockwise_attention,
    masks,
    positions,
    scaled_dot_product_attention,
)
from attnref.cache import KVCache
from attnref.multihead import MultiHeadAttention
from attnref.scaling import LearnedTemperature
from attnref.variants.differential import LearnedLambda
from attnref.variants.linformer import mean_projection
from attnref.variants.lsh import random_rotations
from attnref.variants.performer import random_projection
from tests.variants.every import every

# In float64 a sum of some hundred products of numbers near 1 is off by about 100 eps = 2e-14.
# Two orders of magnitude more is still far below any mistake.
BOUND = 2e-12

EMBED, HEADS = 13, 6
HEAD_DIM, VALUE_DIM = 4, 3
KV_HEADS = [6, 3, 2, 1]
FUNCTIONS = [scaled_dot_product_attention, F.scaled_dot_product_attention]


@pytest.fixture
def make(device, generator):
    """Builds a small float64 layer from the seeded generator."""

    def build(embed_dim=EMBED, num_heads=HEADS, **options):
        given = {"head_dim": HEAD_DIM, "value_head_dim": VALUE_DIM} | options
        layer = MultiHeadAttention(
            embed_dim, num_heads, generator=generator, device=device, dtype=torch.float64, **given
        )
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):  # zeros at the start, which would hide a mistake
                nn.init.normal_(parameter, generator=generator)
        return layer

    return build


def distance(one, other):
    return (one - other).abs().max().item()


def projected(layer, query, key, value):
    """Query, key and value of each query head, by slicing the weights: lists of h tensors."""

    def head(linear, tensor, index, width):
        rows = slice(index * width, (index + 1) * width)
        return tensor @ linear.weight[rows].mT + linear.bias[rows]

    shared = [h * layer.num_kv_heads // layer.num_heads for h in range(layer.num_heads)]
    return (
        [head(layer.query_proj, query, h, layer.head_dim) for h in range(layer.num_heads)],
        [head(layer.key_proj, key, g, layer.head_dim) for g in shared],
        [head(layer.value_proj, value, g, layer.value_head_dim) for g in shared],
    )


def by_hand(layer, query, key, value, allowed=None):
    """Multi-head attention as a sum over heads, each with its gates and its rows of W_O."""
    total, width = layer.out_proj.bias, layer.value_head_dim
    gates = [1.0] * layer.num_heads
    if layer.gate_proj is not None:
        every_gate = torch.sigmoid(query @ layer.gate_proj.weight.mT + layer.gate_proj.bias)
        gates = every_gate.chunk(layer.num_heads, dim=-1)  # (..., n, 1 or d_v) each
    for h, (q, k, v) in enumerate(zip(*projected(layer, query, key, value), strict=True)):
        scores = q @ k.mT / math.sqrt(layer.head_dim)  # (..., n, m)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        block = layer.out_proj.weight[:, h * width : (h + 1) * width]  # (D, d_v)
        total = total + gates[h] * (torch.softmax(scores, dim=-1) @ v) @ block.mT
    return total


def agree(layer, output, expected, *inputs):
    """Values, and gradients of all inputs and weights."""
    assert distance(output, expected) < BOUND
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device)
    every_gradient = (
        torch.autograd.grad(one, [*inputs, *layer.parameters()], weight.view_as(output))
        for one in (output, expected)
    )
    for ours, theirs in zip(*every_gradient, strict=True):
        assert distance(ours, theirs) < BOUND * 10  # sums over all positions of the batch


@pytest.mark.claim("joining-is-adding")
@every("num_kv_heads", KV_HEADS)
@every("lead", [(), (2,), (3, 2)])
def test_values_and_gradients_are_those_of_a_sum_over_heads(num_kv_heads, lead, make, randn):
    """MHA(X) = sum over h of softmax(c Q_h K_h^T) V_h W_O^(h): heads joined or summed, the same."""
    n, m = 5, 7
    layer = make(num_kv_heads=num_kv_heads)
    query = randn(*lead, n, EMBED).requires_grad_()
    key, value = (randn(*lead, m, EMBED).requires_grad_() for _ in range(2))
    before = query.detach().clone()
    output = layer(query, key, value)
    assert output.shape == (*lead, n, EMBED)
    agree(layer, output, by_hand(layer, query, key, value), query, key, value)
    assert torch.equal(query, before)


def test_self_attention_and_cross_attention_fill_in_what_is_left_out(make, randn):
    layer = make()
    x, memory = randn(2, 5, EMBED), randn(2, 7, EMBED)
    assert torch.equal(layer(x), layer(x, x, x))
    assert torch.equal(layer(x, memory), layer(x, memory, memory))
    assert distance(layer(x, memory), layer(x)) > 0.1
    assert torch.equal(layer(x[0], memory[0]), layer(x[0][None], memory[0][None])[0])


@every("attention", FUNCTIONS)
@every("num_kv_heads", KV_HEADS)
def test_masks(attention, num_kv_heads, make, randn, device):
    layer = make(num_kv_heads=num_kv_heads, attention=attention)
    n, m = 5, 7
    query, memory = randn(2, n, EMBED), randn(2, m, EMBED)
    allowed = randn(2, 1, n, m) > -0.5
    allowed[..., 0] = True  # no row without keys: PyTorch's fused kernels differ there
    expected = by_hand(layer, query, memory, memory, allowed[:, 0])
    added = torch.zeros(allowed.shape, device=device, dtype=torch.float64).masked_fill(
        ~allowed, -torch.inf
    )
    assert distance(layer(query, memory, attn_mask=allowed), expected) < BOUND
    assert distance(layer(query, memory, attn_mask=added), expected) < BOUND
    begun_together = torch.ones(n, m, dtype=torch.bool, device=device).tril()
    expected = by_hand(layer, query, memory, memory, begun_together)
    assert distance(layer(query, memory, is_causal=True), expected) < BOUND
    # Together they mean both, whatever function computes them.
    expected = by_hand(layer, query, memory, memory, begun_together & allowed[:, 0])
    for mask in (allowed, added):
        assert distance(layer(query, memory, attn_mask=mask, is_causal=True), expected) < BOUND


def test_the_function_is_given_the_options_in_use_only(make, randn):
    seen = {}

    def attention(query, key, value, **options):
        seen.clear()
        seen.update(options)
        return scaled_dot_product_attention(query, key, value, **options)

    x = randn(5, EMBED)
    make(attention=attention)(x)
    assert seen == {}
    make(attention=attention, num_kv_heads=2, scale=0.5)(x, is_causal=True)
    assert seen == {"is_causal": True, "enable_gqa": True, "scale": 0.5}
    make(attention=attention, position_bias=positions.alibi)(x, is_causal=True)
    assert list(seen) == ["attn_mask"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'is_causal'"):
        make(attention=lambda query, key, value: value)(x, is_causal=True)
    with pytest.raises(
        ValueError, match=r"^attention: expected attnref\.scaled_dot_product_attention,"
    ):
        make(attention=F.scaled_dot_product_attention).attend(x)


@every("attention", FUNCTIONS)
@every("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype(attention, dtype, make, randn):
    layer = make(attention=attention, rotate=positions.rotary, position_bias=positions.alibi)
    x = randn(2, 7, EMBED)
    expected = layer(x, is_causal=True)
    output = layer.to(dtype)(x.to(dtype), is_causal=True)
    assert output.dtype == dtype
    # Weights, inputs, three stages of results: each is rounded to eps/2 of numbers near 1 to 4.
    assert distance(output.double(), expected) < 16 * torch.finfo(dtype).eps


@pytest.mark.claim("dropout-in-training-only")
def test_dropout_acts_in_training_only(make, randn):
    seen = []

    def attention(query, key, value, dropout_p=0.0):
        seen.append(dropout_p)
        return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p)

    layer = make(dropout_p=0.25, attention=attention)
    x = randn(2, 7, EMBED)
    assert distance(layer(x), layer(x)) > 0
    assert torch.equal(layer.eval()(x), layer(x))
    assert torch.equal(layer(x), layer.train(False)(x))
    assert seen == [0.25, 0.25, 0.0, 0.0, 0.0, 0.0]


def test_vmap_over_a_further_dimension(make, randn):
    layer = make(num_kv_heads=2, rotate=positions.rotary)
    x = randn(3, 2, 5, EMBED)
    found = torch.vmap(lambda part: layer(part, is_causal=True))(x)
    assert distance(found, layer(x, is_causal=True)) < BOUND


@pytest.mark.claim("two-heads-are-two-projections")
def test_a_projection_of_two_heads_is_two_projections(make, randn):
    """X [W_1 | W_2] = [X W_1 | X W_2]: only the softmax of its own makes a block a head."""
    layer = make(num_heads=2)
    x = randn(7, EMBED)
    whole = layer.query_proj(x)
    weights, biases = layer.query_proj.weight.chunk(2), layer.query_proj.bias.chunk(2)
    parts = [F.linear(x, *one) for one in zip(weights, biases, strict=True)]
    assert distance(whole, torch.cat(parts, dim=-1)) < BOUND
    one_head = make(num_heads=1, head_dim=2 * HEAD_DIM, value_head_dim=2 * VALUE_DIM)
    one_head.load_state_dict(layer.state_dict())
    for either in (layer, one_head):
        assert distance(either(x), by_hand(either, x, x, x)) < BOUND
    assert distance(layer(x), one_head(x)) > 0.1


def permuted(layer, query_rows=None, value_rows=None):
    """A copy with the columns of query and key, or of value and output, in another order."""
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for linear, rows in (
            (other.query_proj, query_rows),
            (other.key_proj, query_rows),
            (other.value_proj, value_rows),
        ):
            if rows is not None:
                linear.weight.copy_(linear.weight[rows])
                linear.bias.copy_(linear.bias[rows])
        if value_rows is not None:
            other.out_proj.weight.copy_(other.out_proj.weight[:, value_rows])
    return other


@pytest.mark.claim("columns-have-no-order")
def test_the_order_of_columns_within_a_head_means_nothing(make, randn, device):
    layer = make(num_heads=3)
    x = randn(2, 7, EMBED)
    expected = layer(x)

    def within(width):
        order = [
            h * width + torch.randperm(width, generator=torch.Generator().manual_seed(h))
            for h in range(3)
        ]
        return torch.cat(order).to(device)

    def whole_heads(width):
        return torch.arange(3 * width, device=device).view(3, width)[[2, 0, 1]].flatten()

    inside = permuted(layer, within(HEAD_DIM), within(VALUE_DIM))
    assert distance(inside(x), expected) < BOUND
    heads = permuted(layer, whole_heads(HEAD_DIM), whole_heads(VALUE_DIM))
    assert distance(heads(x), expected) < BOUND
    # Columns regrouped across heads, or heads moved in one projection only, are another function.
    across = torch.arange(3 * HEAD_DIM, device=device).view(3, HEAD_DIM).mT.flatten()
    assert distance(permuted(layer, query_rows=across)(x), expected) > 0.1
    assert distance(permuted(layer, whole_heads(HEAD_DIM))(x), expected) > 0.1
    # Rotations take components in pairs, so that their order does mean something then.
    layer.rotate = positions.rotary
    shifted = torch.arange(3 * HEAD_DIM, device=device).view(3, HEAD_DIM).roll(1, -1).flatten()
    assert distance(permuted(layer, query_rows=shifted)(x), layer(x)) > 0.1


@pytest.mark.claim("grouped-is-tied-multi-head")
@every("num_kv_heads", [3, 2, 1])
def test_grouped_queries_are_repeated_key_and_value_heads(num_kv_heads, make, randn):
    """Head h uses key head floor(h / group). The wrong version tiles: it uses h mod h_kv."""
    layer = make(num_kv_heads=num_kv_heads)
    x = randn(2, 7, EMBED)
    expected = layer(x)
    group = HEADS // num_kv_heads

    def expanded(order):
        full = make()
        state = layer.state_dict()
        for name, width in (("key_proj", HEAD_DIM), ("value_proj", VALUE_DIM)):
            for part in ("weight", "bias"):
                entry = state[f"{name}.{part}"]
                heads = entry.view(num_kv_heads, width, -1)[order]
                state[f"{name}.{part}"] = heads.reshape(HEADS * width, *entry.shape[1:])
        full.load_state_dict(state)
        return full

    repeated = [h // group for h in range(HEADS)]
    tiled = [h % num_kv_heads for h in range(HEADS)]
    assert distance(expanded(repeated)(x), expected) < BOUND
    if num_kv_heads > 1:
        assert distance(expanded(tiled)(x), expected) > 0.1
    else:
        assert repeated == tiled


@pytest.mark.parametrize("attention", FUNCTIONS)
def test_a_scale_per_head_is_absorbed_by_its_query_projection(attention, make, randn, device):
    """It adds no function, only another start and speed of learning."""
    factors = torch.tensor([0.1, 0.3, 0.5, 0.9, 1.7, 2.5], device=device, dtype=torch.float64)
    layer = make(head_scale=factors, attention=attention)
    absorbed = make(attention=attention)
    state = layer.state_dict()
    del state["head_scale"]
    absorbed.load_state_dict(state)
    ratio = (factors * math.sqrt(HEAD_DIM)).repeat_interleave(HEAD_DIM)  # (h d_k,)
    with torch.no_grad():
        absorbed.query_proj.weight.mul_(ratio[:, None])
        absorbed.query_proj.bias.mul_(ratio)
    x = randn(2, 7, EMBED)
    assert distance(layer(x), absorbed(x)) < BOUND
    # As a constant it is the plain scale.
    same = make(head_scale=torch.full((HEADS,), 0.3, device=device, dtype=torch.float64))
    plain = make(scale=0.3)
    plain.load_state_dict({k: v for k, v in same.state_dict().items() if k != "head_scale"})
    assert distance(same(x), plain(x)) < BOUND
    factors.zero_()
    assert layer.head_scale.min() > 0  # a copy


def test_a_learned_scale_per_head_learns(make, randn, device):
    temperature = LearnedTemperature(HEADS, init=1.0).to(device, torch.float64)
    layer = make(head_scale=temperature)
    plain = make(scale=1.0)
    plain.load_state_dict(layer.state_dict(), strict=False)
    x = randn(2, 7, EMBED)
    assert distance(layer(x), plain(x)) < BOUND
    assert "head_scale.log_temperature" in layer.state_dict()
    assert torch.autograd.gradcheck(
        lambda logarithms: torch.func.functional_call(
            layer, {"head_scale.log_temperature": logarithms}, x
        ),
        temperature.log_temperature.detach().clone().requires_grad_(),
        fast_mode=True,
    )


def test_rotary_turns_queries_and_keys_and_not_values(make, randn):
    layer = make(num_kv_heads=2, rotate=positions.rotary)
    x = randn(7, EMBED)
    q, k, v = (torch.stack(parts) for parts in projected(layer, x, x, x))
    turned = scaled_dot_product_attention(positions.rotary(q), positions.rotary(k), v)
    assert distance(layer(x), layer.out_proj(turned.transpose(0, 1).flatten(1))) < BOUND
    plain = copy.deepcopy(layer)
    plain.rotate = None
    assert distance(layer(x), plain(x)) > 0.1


@pytest.mark.parametrize("attention", FUNCTIONS)
def test_alibi_is_added_to_the_scores_and_goes_with_masks(attention, make, randn, device):
    layer = make(position_bias=positions.alibi, attention=attention)
    n, m = 5, 7
    query, memory = randn(2, n, EMBED), randn(2, m, EMBED)
    q, k, v = (torch.stack(parts, dim=1) for parts in projected(layer, query, memory, memory))
    bias = positions.alibi(HEADS, n, m, alignment="top-left", dtype=torch.float64, device=device)
    causal = torch.ones(n, m, dtype=torch.bool, device=device).tril()
    padding = masks.padding([4, 7], m).dense(device)
    extra = randn(n, m)
    for options, mask in (
        ({}, bias),
        ({"is_causal": True}, bias.masked_fill(~causal, -torch.inf)),
        ({"attn_mask": padding}, bias.masked_fill(~padding, -torch.inf)),
        ({"attn_mask": extra}, bias + extra),
        (
            {"attn_mask": padding, "is_causal": True},
            bias.masked_fill(~(padding & causal), -torch.inf),
        ),
    ):
        attended = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        expected = layer.out_proj(attended.transpose(1, 2).flatten(2))
        assert distance(layer(query, memory, **options), expected) < BOUND


def decoded(layer, x, cache, chunks):
    parts = [layer(part, is_causal=True, cache=cache) for part in x.split(chunks, dim=-2)]
    return torch.cat(parts, dim=-2)


@pytest.mark.claim("cached-equals-uncached")
@pytest.mark.parametrize("attention", FUNCTIONS)
@pytest.mark.parametrize("num_kv_heads", [6, 2, 1])
@pytest.mark.parametrize(
    "place",
    [
        {},
        {"rotate": positions.rotary},
        {"rotate": positions.rotary_half_split},
        {"position_bias": positions.alibi},
        {"rotate": positions.rotary, "position_bias": positions.alibi},
        {"gate": "headwise"},
    ],
    ids=["none", "rotary", "half-split", "alibi", "both", "gate"],
)
@torch.no_grad()
def test_decoding_with_a_cache_is_the_whole_causal_pass(
    attention, num_kv_heads, place, make, randn
):
    layer = make(num_kv_heads=num_kv_heads, attention=attention, **place)
    n = 13
    for x in (randn(2, n, EMBED), randn(n, EMBED)):
        whole = layer(x, is_causal=True)
        for max_length in (None, n, 17):
            for chunks in ([1] * n, [7, 5, 1], [2, 3, 5, 3], [11, 1, 1], [n]):
                cache = KVCache(max_length)
                assert distance(decoded(layer, x, cache, chunks), whole) < BOUND
                assert cache.length == n


@pytest.mark.claim("cached-chunk-needs-bottom-right")
@pytest.mark.claim("cached-chunk-is-bottom-right")
@torch.no_grad()
def test_a_cached_chunk_needs_its_mask_aligned_bottom_right(make, randn):
    """The wrong version: is_causal of the kernel itself, which lets both sequences begin together.

    The new tokens then see the oldest keys only.
    """
    layer = make()
    x = randn(2, 13, EMBED)
    whole, weights, _ = layer.attend(x, is_causal=True)
    q, k, v = (torch.stack(parts, dim=1) for parts in projected(layer, x, x, x))
    for past in (5, 12):
        for function in FUNCTIONS:
            attended = function(q[:, :, past:], k, v, is_causal=True)
            wrong = layer.out_proj(attended.transpose(1, 2).flatten(2))
            assert distance(wrong, whole[:, past:]) > 0.1
    cache = KVCache()
    layer(x[:, :5], is_causal=True, cache=cache)
    rows, own, _ = layer.attend(x[:, 5:], is_causal=True, cache=cache)
    assert distance(rows, whole[:, 5:]) < BOUND
    assert distance(own, weights[..., 5:, :]) < BOUND


@torch.no_grad()
def test_padding_masks_go_with_a_cache(make, randn, device):
    """Sequences padded on the left: the mask counts all keys, cached ones too."""
    layer = make(num_kv_heads=3)
    n, past = 11, 7
    x = randn(2, n, EMBED)
    starts = torch.tensor([0, 3], device=device)
    allowed = (torch.arange(n, device=device) >= starts[:, None])[:, None, None]  # (b, 1, 1, m)
    whole = layer(x, is_causal=True, attn_mask=allowed)
    cache = KVCache(n)
    layer(x[:, :past], is_causal=True, cache=cache, attn_mask=allowed[..., :past])
    chunk = layer(x[:, past:-1], is_causal=True, cache=cache, attn_mask=allowed[..., :-1])
    step = layer(x[:, -1:], is_causal=True, cache=cache, attn_mask=allowed)
    assert distance(torch.cat([chunk, step], dim=1), whole[:, past:]) < BOUND


def test_gradients_flow_through_a_growing_cache(make, randn):
    layer = make(num_kv_heads=2, rotate=positions.rotary)
    x = randn(2, 7, EMBED).requires_grad_()
    agree(layer, decoded(layer, x, KVCache(), [3, 2, 2]), layer(x, is_causal=True), x)


@pytest.fixture
def theirs(device, randn):
    def build(**options):
        module = nn.MultiheadAttention(15, 3, device=device, dtype=torch.float64, **options)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(randn(*parameter.shape) / 4)
        return module

    return build


@every("attention", FUNCTIONS)
@every("batch_first", [True, False])
@every("bias", [True, False])
@every("training", [True, False])
def test_torch_weights_give_torch_outputs_and_gradients(
    attention, batch_first, bias, training, theirs, randn
):
    module = theirs(bias=bias, batch_first=batch_first).train(training)
    layer = MultiHeadAttention.from_torch(module, attention=attention)
    assert layer.training == training
    x, weight = randn(2, 7, 15).requires_grad_(), randn(2, 7, 15)
    inputs = x if batch_first else x.transpose(0, 1)
    expected, _ = module(inputs, inputs, inputs)
    expected = expected if batch_first else expected.transpose(0, 1)
    output = layer(x)
    assert distance(output, expected) < BOUND

    found = dict(layer.named_parameters())
    names = ("query_proj", "key_proj", "value_proj")
    ours, theirs = [[x], [found["out_proj.weight"]]], [x, module.out_proj.weight]
    ours.append([found[f"{name}.weight"] for name in names])
    theirs.append(module.in_proj_weight)
    if bias:
        ours += [[found["out_proj.bias"]], [found[f"{name}.bias"] for name in names]]
        theirs += [module.out_proj.bias, module.in_proj_bias]
    wanted = torch.autograd.grad(expected, theirs, weight)
    for parameters, gradient in zip(ours, wanted, strict=True):
        mine = torch.autograd.grad(output, parameters, weight, retain_graph=True)
        assert distance(torch.cat(mine), gradient) < BOUND * 10


@pytest.mark.claim("torch-masks-mean-the-opposite")
def test_torch_masks_mean_the_opposite(theirs, randn, device):
    """True drops a key in nn.MultiheadAttention and keeps it here: negate, or it is wrong."""
    module = theirs(batch_first=True)
    layer = MultiHeadAttention.from_torch(module)
    n, m = 5, 7
    query, memory = randn(2, n, 15), randn(2, m, 15)
    dropped = randn(n, m) > 0.3
    dropped[:, 2], dropped[:, 3] = False, True  # either way a key is left
    expected, theirs_by_head = module(
        query, memory, memory, attn_mask=dropped, average_attn_weights=False
    )
    output, weights, _ = layer.attend(query, memory, attn_mask=~dropped)
    assert distance(output, expected) < BOUND
    assert distance(weights, theirs_by_head) < BOUND
    assert distance(layer(query, memory, attn_mask=dropped), expected) > 0.1

    padded = torch.arange(m, device=device) >= torch.tensor([[4], [7]], device=device)  # (b, m)
    expected, _ = module(query, memory, memory, key_padding_mask=padded)
    output = layer(query, memory, attn_mask=~padded[:, None, None, :])
    assert distance(output, expected) < BOUND

    # An additive mask means the same in both; one a head is stacked along theirs.
    added = randn(2, 3, n, m)
    expected, _ = module(query, memory, memory, attn_mask=added.flatten(0, 1))
    assert distance(layer(query, memory, attn_mask=added), expected) < BOUND

    nothing = torch.ones(n, m, dtype=torch.bool, device=device)
    output = layer(query, memory, attn_mask=~nothing)
    assert torch.equal(output, layer.out_proj.bias.expand(2, n, 15))
    assert module(query, memory, memory, attn_mask=nothing)[0].isnan().all()


def test_torch_unbatched_causal_and_copied(theirs, randn, device):
    module = theirs(dropout=0.2).eval()
    layer = MultiHeadAttention.from_torch(module)
    assert layer.dropout_p == 0.2
    x = randn(7, 15)
    future = torch.ones(7, 7, dtype=torch.bool, device=device).triu(1)
    expected, _ = module(x, x, x, attn_mask=future)
    assert distance(layer(x, is_causal=True), expected) < BOUND
    with torch.no_grad():
        module.in_proj_weight.zero_()
    assert distance(layer(x, is_causal=True), expected) < BOUND
    assert all(parameter.requires_grad for parameter in layer.parameters())


@every("options", [{"kdim": 4}, {"vdim": 4}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_torch_layers_of_another_kind_are_refused(options):
    name, value = next(iter(options.items()))
    with pytest.raises(ValueError, match=rf"^module: expected .* got one with .*{name}={value}"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(15, 3, **options))


def test_rounding_is_within_the_budget_of_torch(theirs, randn):
    """In float32 at most 1.5 times the root mean square error of nn.MultiheadAttention."""
    module = theirs(batch_first=True)
    layer = MultiHeadAttention.from_torch(module)
    x = randn(7, 101, 15)
    exact = layer(x)
    single = x.float()
    expected, _ = module.float()(single, single, single)
    errors = [
        (output.double() - exact).square().mean().sqrt().item()
        for output in (layer.float()(single), expected)
    ]
    assert 0 < errors[0] <= 1.5 * errors[1]


@pytest.mark.claim("gate-is-its-formula")
@every("attention", [scaled_dot_product_attention, blockwise_attention])
@every("num_kv_heads", [6, 2])
@every(("gate", "each"), [("headwise", 1), ("elementwise", VALUE_DIM)])
def test_a_gate_multiplies_what_a_head_answers(gate, each, num_kv_heads, attention, make, randn):
    layer = make(num_kv_heads=num_kv_heads, gate=gate, attention=attention)
    assert layer.gate_proj.weight.shape == (HEADS * each, EMBED)
    x = randn(2, 7, EMBED).requires_grad_()
    agree(layer, layer(x), by_hand(layer, x, x, x), x)


def test_a_gate_reads_the_token_of_the_query(make, randn):
    layer = make(gate="elementwise")
    query, memory = randn(2, 5, EMBED), randn(2, 7, EMBED)
    output, weights, _ = layer.attend(query, memory)
    plain = make()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "gate" not in k})
    expected, same, _ = plain.attend(query, memory)
    assert torch.equal(weights, same)  # those of the softmax
    assert distance(output, expected) > 0.1
    assert torch.equal(layer(query, memory), output)
    with torch.no_grad():
        layer.gate_proj.bias.fill_(50.0)  # open: sigmoid is 1 up to 2e-22
        layer.gate_proj.weight.zero_()
    assert distance(layer(query, memory), expected) < BOUND


def test_a_gate_leaves_the_other_weights_as_they_were_drawn(device):
    one, other = (
        MultiHeadAttention(
            6, 2, gate=gate, generator=torch.Generator(device).manual_seed(3), device=device
        )
        for gate in (None, "elementwise")
    )
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, other.get_parameter(name))
    assert not any("gate" in name for name in one.state_dict())
    assert (other.gate_proj.bias == 0).all()  # half open


def test_initial_weights_give_scores_of_variance_one(make):
    """Each has variance 1 over the width that it reads, whatever the number of heads."""
    layer = make(128, 8, num_kv_heads=2, head_dim=16, value_head_dim=8, gate="elementwise")
    linears = [one for one in layer.modules() if isinstance(one, nn.Linear)]
    assert [one.in_features for one in linears] == [128, 128, 128, 64, 128]
    for linear in linears:
        scaled = linear.weight * linear.in_features**0.5
        # Relative s.d. of a sample variance is sqrt(2 / N); five of them.
        bound = 5 * math.sqrt(2 / scaled.numel())
        assert scaled.var().item() == pytest.approx(1.0, rel=bound)


def test_the_generator_alone_sets_the_weights(device, generator):
    state, outside = generator.get_state(), torch.get_rng_state()
    one = MultiHeadAttention(EMBED, 1, generator=generator, device=device)
    assert torch.equal(torch.get_rng_state(), outside)
    other = MultiHeadAttention(EMBED, 1, generator=generator, device=device)
    assert distance(one.query_proj.weight, other.query_proj.weight) > 0
    generator.set_state(state)
    again = MultiHeadAttention(EMBED, 1, generator=generator, device=device)
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name)), name
    assert not any(one.get_parameter(f"{name}.bias").any() for name in ("query_proj", "out_proj"))
    assert MultiHeadAttention(EMBED, 1, bias=False).query_proj.bias is None


@pytest.mark.claim("grouped-parameters")
def test_parameters_follow_from_heads_and_widths():
    """D (h + h_kv)(d_k + d_v), of which a wider d_k enlarges query and key only."""
    for d_k, expected in ((64, 1_048_576), (128, 1_572_864)):
        layer = MultiHeadAttention(
            512, 8, head_dim=d_k, value_head_dim=64, bias=False, device="meta"
        )
        assert sum(parameter.numel() for parameter in layer.parameters()) == expected
    shared = MultiHeadAttention(15, 6, num_kv_heads=2, head_dim=5, value_head_dim=7, bias=False)
    assert sum(parameter.numel() for parameter in shared.parameters()) == 15 * 8 * 12


@every(
    ("options", "message"),
    [
        ({"embed_dim": 0}, "embed_dim: expected an integer of 1 or more, got 0"),
        ({"num_heads": 2.0}, "num_heads: expected an integer of 1 or more, got 2.0"),
        ({"num_kv_heads": True}, "num_kv_heads: expected an integer of 1 or more, got True"),
        ({"num_kv_heads": 4}, "num_kv_heads: expected a divisor of num_heads=6, got 4"),
        ({"embed_dim": 13}, "head_dim: .* num_heads=6 does not divide embed_dim=13, got None"),
        ({"head_dim": -1}, "head_dim: expected an integer of 1 or more, got -1"),
        ({"value_head_dim": 0}, "value_head_dim: expected an integer of 1 or more, got 0"),
        ({"scale": math.inf}, "scale: expected a finite number, got inf"),
        ({"scale": 1.0, "head_scale": torch.ones(6)}, "scale: expected None beside head_scale"),
        ({"head_scale": torch.ones(6, 1, 1)}, r"head_scale: .* shape \(6,\), got \(6, 1, 1\)"),
        ({"gate": "sigmoid"}, "gate: expected 'headwise', 'elementwise' or None, got 'sigmoid'"),
        ({"dropout_p": 1.0}, r"dropout_p: expected a probability in \[0, 1\), got 1.0"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(options, message):
    kind = TypeError if re.search(r"an integer .* got (2\.0|True)", message) else ValueError
    with pytest.raises(kind, match=f"^{message}"):
        MultiHeadAttention(**{"embed_dim": 12, "num_heads": 6} | options)


def test_what_a_layer_is_made_of_has_a_kind():
    """And so for all that draws numbers."""
    draw, drawn = torch.Generator(), "dtype: expected a floating dtype, got torch.int32"
    made = "generator: expected a torch.Generator or None, got int"
    layer = partial(MultiHeadAttention, 12, 6)
    for make, message in (
        (partial(layer, head_scale=[1.0] * 6), "head_scale: expected a tensor, a module or None"),
        (partial(layer, attention=None), "attention: expected a function, got NoneType"),
        (partial(layer, generator=0), made),
        (partial(layer, dtype=torch.int32), drawn),
        (partial(positions.LearnedPositions, 3, 4, generator=0), made),
        (partial(LearnedLambda, 4, layer=1, dtype=torch.int32), drawn),
        (partial(mean_projection, 2, 4, dtype=torch.int32), drawn),
        (partial(random_projection, 2, 4, generator=draw, dtype=torch.int32), drawn),
        (partial(random_rotations, 2, 4, num_buckets=2, generator=draw, dtype=torch.int32), drawn),
    ):
        with pytest.raises(TypeError, match=f"^{message}"):
            make()


TURNED, BIASED = {"rotate": positions.rotary}, {"position_bias": positions.alibi}
ROW, PLACES, CAUSAL = torch.ones(5, 12), torch.arange(5), {"is_causal": True}
STREAM = StreamingCache(first=0, window=3)


@every(
    ("options", "arguments", "message"),
    [
        ({}, {"query": torch.ones(12)}, r"query: expected shape .*embed_dim=12\), got \(12,\)"),
        ({}, {"query": torch.ones(2, 5, 7)}, r"query: .* got \(2, 5, 7\)\. Batches come first"),
        ({}, {"key": torch.ones(5, 7)}, r"key: expected .* got \(5, 7\)"),
        ({}, {"key": ROW, "value": torch.ones(5, 7)}, r"value: expected .* got \(5, 7\)"),
        ({}, {"value": ROW}, "value: expected None without a key, got a tensor"),
        ({}, {"positions": PLACES}, "positions: expected None except in self-attention"),
        (TURNED, {"positions": PLACES, "key": ROW}, "positions: expected None except"),
        (TURNED | BIASED, {"positions": PLACES}, "positions: expected None except"),
        ({}, {"cache": KVCache()}, "cache: expected causal self-attention, got is_causal=False"),
        ({}, CAUSAL | {"cache": KVCache(), "key": ROW}, "cache: expected causal .* got a key"),
        (BIASED, CAUSAL | {"cache": STREAM}, "cache: expected a KVCache beside position_bias="),
    ],
)
def test_a_call_that_cannot_be_is_refused(options, arguments, message):
    layer = MultiHeadAttention(12, 3, **options)
    with pytest.raises(ValueError, match=f"^{message}"):
        layer(**{"query": ROW} | arguments)


@every(
    ("arguments", "message"),
    [
        ({"query": [[1.0]]}, r"query: expected a torch\.Tensor, got list.* torch\.as_tensor"),
        ({"key": [[1.0]]}, r"key: expected a torch\.Tensor, got list.* torch\.as_tensor\(key"),
        ({"query": ROW.double()}, r"query: expected torch\.float32.* layer\.to"),
        ({"key": ROW.half()}, r"key: expected torch\.float32.* got torch\.float16\. Convert"),
        ({"query": ROW.long()}, r"query: .*int64\. Convert it with query\.to\(torch\.float32\)\.$"),
        ({"positions": [0, 1]}, r"positions: expected a torch\.Tensor of integers, got list"),
        ({"is_causal": "no"}, "is_causal: expected True or False, got str"),
        ({"cache": {}}, r"cache: .* got dict\. Make one for each layer, cache=attnref\.KVCache"),
        ({"cache": PagedCache(2, 3)}, r"cache: .* got PagedCache\. .* attnref\.paged_attention"),
        ({"attn_mask": torch.ones(5, 5).int()}, r"attn_mask: .*int32.*attn_mask\.bool\(\)"),
        ({"attn_mask": [[True]]}, "attn_mask: expected .* mask of attnref.masks, got list"),
    ],
)
def test_a_call_of_another_type_is_refused(arguments, message):
    layer = MultiHeadAttention(12, 3, **TURNED)
    with pytest.raises(TypeError, match=f"^{message}"):
        layer(**{"query": ROW} | CAUSAL | arguments)


def test_autocast_gives_inputs_and_weights_one_dtype():
    layer = MultiHeadAttention(12, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.ones(5, 12).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("attention", [*FUNCTIONS, blockwise_attention])
@pytest.mark.parametrize(("first", "window"), [(0, 1), (2, 3), (1, 20)])
@torch.no_grad()
def test_a_streaming_cache_forgets_the_same_in_any_pieces(first, window, attention, make, randn):
    """All at once, in pieces and token by token: the rows of one pass under its mask."""
    layer, x = make(attention=attention, rotate=positions.rotary), randn(2, 13, EMBED)
    distant = masks.Mask((13, 13), lambda i, j: (i - j < window) | (j < first))
    whole = layer(x, attn_mask=distant & masks.causal(13))
    for pieces in ((13,), (4, 2, 7), (1, 11, 1), (1,) * 13):
        cache = StreamingCache(first=first, window=window)
        assert distance(decoded(layer, x, cache, pieces), whole) < BOUND
        assert cache.length == 13


def test_positions_of_a_call_are_those_of_its_rotations(make, randn, device):
    """Behind the cached tokens, the same for all heads, and for each sample its own."""
    layer = make(num_kv_heads=2, rotate=positions.rotary)
    x, new = randn(2, 3, EMBED), randn(2, 5, EMBED)
    text = torch.cat([x, new], dim=1)
    whole = layer(text, is_causal=True)
    for own in (torch.arange(5, device=device), torch.arange(5, device=device).expand(2, 5)):
        cache = KVCache()
        layer(x, is_causal=True, cache=cache)
        rows = layer(new, is_causal=True, cache=cache, positions=own)
        assert distance(rows, whole[:, 3:]) < BOUND
    # Two positions of the second sample are exchanged: so are its two tokens, but for the mask.
    own = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 4, 3]], device=device)
    rows = layer(new, positions=own)
    order = torch.tensor([0, 1, 2, 4, 3], device=device)
    assert distance(rows[0], layer(new[:1])[0]) < BOUND
    assert distance(rows[1, order], layer(new[1:, order])[0]) < BOUND


@pytest.mark.parametrize("max_length", [None, 7])
def test_a_call_that_fails_leaves_the_cache_as_it_was(max_length, device, randn):
    layer, x = MultiHeadAttention(12, 3, dtype=torch.float64, device=device), randn(5, 12)
    with torch.no_grad():
        whole, cache = layer(x, is_causal=True), KVCache(max_length)
        for part in (slice(0, 2), slice(2, 5)):
            with pytest.raises(ValueError, match=r"^attn_mask: expected a shape that broadcasts"):
                layer(x[part], attn_mask=randn(4, 4), is_causal=True, cache=cache)
            assert cache.length == part.start
            torch.testing.assert_close(layer(x[part], is_causal=True, cache=cache), whole[part])


def test_frozen_weights_stay_frozen():
    module = nn.MultiheadAttention(12, 3)
    module.in_proj_weight.requires_grad_(False)
    module.out_proj.bias.requires_grad_(False)
    layer = MultiHeadAttention.from_torch(module)
    trained = {name for name, parameter in layer.named_parameters() if parameter.requires_grad}
    biases = {f"{name}_proj.bias" for name in ("query", "key", "value")}
    assert trained == {*biases, "out_proj.weight"}
    with pytest.raises(TypeError, match=r"^module: expected nn\.MultiheadAttention, got Linear\."):
        MultiHeadAttention.from_torch(nn.Linear(2, 2))


@every("bias", [None, positions.alibi])
@every("attention", [*FUNCTIONS, blockwise_attention])
def test_a_mask_object_is_what_its_tensor_is(attention, bias, device, randn):
    """Whoever declares Mask gets the object; others a tensor, and so do all beside a bias."""
    seen = []

    def watched(query, key, value, attn_mask=None, **options):
        seen.append(type(attn_mask))
        return attention(query, key, value, attn_mask, **options)

    watched.__annotations__ = dict(getattr(attention, "__annotations__", {}))
    make = partial(MultiHeadAttention, 12, 3, position_bias=bias, dtype=torch.float64)
    layer, x = make(attention=watched, device=device), randn(2, 5, 12)
    mask = masks.padding([2, 5], 5)
    expected = layer(x, attn_mask=mask.dense(x.device), is_causal=True)
    torch.testing.assert_close(layer(x, attn_mask=mask, is_causal=True), expected)
    handed = attention is not F.scaled_dot_product_attention and bias is None
    assert seen[1] is (masks.Mask if handed else torch.Tensor)
