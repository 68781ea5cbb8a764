"""A learned sink in the definition and in every function that takes one."""

import math
import re
from functools import partial

import pytest
import torch

import attnref
from attnref import attend, attention_weights, masks, oracle
from attnref.variants import blockwise, sliding_window
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.kv_cache import kv_cache_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.varlen import varlen_attention
from tests.variants.every import every

H, N, M, D_K, D_V = 3, 11, 13, 5, 2
BOOL = torch.arange(N * M).reshape(N, M) % 3 != 0
BOOL[4] = False  # this query may attend to no key
FLOAT = torch.linspace(-1, 1, N * M, dtype=torch.float64).reshape(N, M)
# Some thousand roundings of float64; a sink that is left out moves the output by tenths.
close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-12)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blockwise, "ROWS", 4)
    monkeypatch.setattr(blockwise, "CHUNK", 2)
    monkeypatch.setattr(sliding_window, "_ROWS", 4)


# The function, the lengths, how it is called, and the mask of the definition that says the same.
WINDOW = masks.sliding_window(N, window=3, is_causal=True)
CALLS = {
    "plain": (blockwise_attention, (N, M), None),
    "causal": (
        partial(blockwise_attention, is_causal=True),
        (N, M),
        masks.causal(N, M, alignment="top-left"),
    ),
    "causal, negative scale": (
        partial(blockwise_attention, is_causal=True, scale=-0.3),
        (N, M),
        masks.causal(N, M, alignment="top-left"),
    ),
    "bool": (lambda *t, **o: blockwise_attention(*t, BOOL.to(t[0].device), **o), (N, M), BOOL),
    "float": (lambda *t, **o: blockwise_attention(*t, FLOAT.to(t[0].device), **o), (N, M), FLOAT),
    "window mask": (lambda *t, **o: blockwise_attention(*t, WINDOW, **o), (N, N), WINDOW),
    "window": (partial(sliding_window_attention, window=3, is_causal=True), (N, N), WINDOW),
    "window, two-sided": (
        partial(sliding_window_attention, window=5),
        (N, N),
        masks.sliding_window(N, window=5),
    ),
    "one token": (kv_cache_attention, (1, M), None),
    "several tokens": (kv_cache_attention, (4, M), masks.causal(4, M, alignment="bottom-right")),
    "packed": (
        lambda *t, **o: varlen_attention(*t, torch.tensor([0, 3, N]), **o),
        (N, N),
        masks.packed([3, N - 3]),
    ),
}


@pytest.fixture
def drawn(randn):
    """Query, key, value and a sink for each head, which want gradients."""

    def drawn(n, m, groups=1, lead=(2,)):
        tensors = (
            randn(*lead, H * groups, n, D_K),
            randn(*lead, H, m, D_K),
            randn(*lead, H, m, D_V),
            randn(H * groups),
        )
        return [tensor.requires_grad_() for tensor in tensors]

    return drawn


def to_dense(mask, device):
    if isinstance(mask, masks.Mask):
        return mask.dense(device)
    return None if mask is None else mask.to(device)


# The definition --------------------------------------------------------------------------------


@pytest.mark.claim("sink-is-the-oracles")
@pytest.mark.parametrize("kind", [None, "bool", "float"])
@every("shape", [(), (H,), (1,), (2, 1), (2, H)])
@every("options", [{}, {"is_causal": True}, {"softcap": 1.5}])
def test_values_and_gradients_are_the_oracles(kind, options, shape, drawn, randn):
    query, key, value, _ = drawn(N, M)
    sink = randn(1, *shape)[0].requires_grad_()
    mask = {None: None, "bool": BOOL, "float": FLOAT}[kind]
    mask = to_dense(mask, query.device)
    output, weights, lse = attend(query, key, value, mask, sink=sink, **options)
    arrays = [x.detach().cpu().numpy() for x in (query, key, value)]
    arrays.append(None if mask is None else mask.cpu().numpy())
    said = {**options, "sink": sink.detach().cpu().numpy()}
    for found, right in zip((output, weights, lse), oracle.attend(*arrays, **said), strict=True):
        close(found.detach().cpu(), torch.from_numpy(right))
    close(attention_weights(query, key, mask, sink=sink, **options), weights)
    g_output, g_lse = randn(*output.shape), randn(*lse.shape)
    ours = torch.autograd.grad((output, lse), (query, key, value, sink), (g_output, g_lse))
    theirs = oracle.gradients(g_output.cpu().numpy(), *arrays, **said, grad_lse=g_lse.cpu().numpy())
    for one, other in zip(ours, (*theirs[:3], theirs.sink), strict=True):
        close(one.cpu(), torch.from_numpy(other))


@pytest.mark.claim("sink-is-one-more-key")
def test_a_sink_is_a_key_of_that_score_whose_value_is_zero(drawn):
    query, key, value, sink = drawn(N, M)
    one = torch.ones_like(query[..., :1])
    asked = torch.cat([query, sink[:, None, None] * D_K**0.5 * one], -1)  # (..., n, d_k + 1)
    keys = torch.cat([key, torch.zeros_like(key[..., :1])], -1)
    extra = torch.zeros_like(keys[..., :1, :])
    extra[..., -1] = 1
    keys = torch.cat([keys, extra], -2)  # (..., m + 1, d_k + 1)
    values = torch.cat([value, torch.zeros_like(value[..., :1, :])], -2)
    expected = attnref.scaled_dot_product_attention(asked, keys, values, scale=D_K**-0.5)
    ours = attnref.scaled_dot_product_attention(query, key, value, sink=sink)
    close(ours, expected)


@pytest.mark.claim("sink-takes-mass")
def test_a_row_sums_to_what_the_sink_leaves(drawn):
    query, key, value, sink = drawn(N, M)
    weights, plain = attention_weights(query, key, sink=sink), attend(query, key, value)
    left = torch.sigmoid(plain.lse - sink[:, None])  # (..., n)
    close(weights.sum(-1), left)
    close(weights, plain.weights * left[..., None])  # what the keys are among themselves stays
    output = attnref.scaled_dot_product_attention(query, key, value, sink=sink)
    close(output, plain.output * left[..., None])


def test_a_number_is_one_for_all_heads(drawn):
    """And minus infinity is no sink."""
    query, key, value, _ = drawn(N, M)
    for sink in (0, 1.5, -math.inf):
        tensor = torch.full((H,), float(sink), dtype=query.dtype, device=query.device)
        given = None if sink == -math.inf else tensor
        expected = attnref.scaled_dot_product_attention(query, key, value, sink=given)
        for function in (attnref.scaled_dot_product_attention, blockwise_attention):
            close(function(query, key, value, sink=sink), expected)


# What does not hold the weights ------------------------------------------------------------------


@pytest.mark.claim("sinks-everywhere-alike")
@every("name", CALLS)
@every("groups", [1, 2])
def test_each_function_is_the_definition(name, groups, drawn, randn, device, small_blocks):
    """Values and derivatives; of heads that share keys, each has a sink of its own."""
    call, lengths, mask = CALLS[name]
    inputs = drawn(*lengths, groups)
    options = {"scale": -0.3 if "negative" in name else None, "enable_gqa": True}
    definition = partial(
        attnref.scaled_dot_product_attention, attn_mask=to_dense(mask, device), **options
    )
    weight = randn(*inputs[0].shape[:-1], D_V)
    expected = derive_twice(definition, inputs, weight)
    found = derive_twice(partial(call, enable_gqa=True), inputs, weight)
    torch.testing.assert_close(found[:5], expected[:5], rtol=0.0, atol=1e-12)
    torch.testing.assert_close(found[5:], expected[5:], rtol=1e-10, atol=1e-10)
    plain = [x.detach() for x in inputs]
    close(call(*plain[:3], enable_gqa=True, sink=plain[3]), expected[0].detach())


@pytest.mark.claim("sink-takes-an-empty-row")
def test_a_query_without_keys_gives_zeros_and_finite_gradients(drawn, device):
    inputs = query, key, value, sink = drawn(N, M)
    for function in (attnref.scaled_dot_product_attention, blockwise_attention):
        output = function(query, key, value, BOOL.to(device), sink=sink)
        assert (output[..., 4, :] == 0).all()
        assert all(x.isfinite().all() for x in torch.autograd.grad(output.sum(), inputs))


def test_samples_and_transforms(drawn, randn):
    """Mapped over sinks, with gradients."""
    tensors = [x.detach() for x in drawn(N, N, lead=())[:3]]
    sinks = randn(5, H)

    def mapped(function):
        loss = torch.func.grad(lambda sink: function(*tensors, sink=sink).square().sum())
        return torch.func.vmap(loss)(sinks)

    right = mapped(attnref.scaled_dot_product_attention)
    for function in (blockwise_attention, partial(sliding_window_attention, window=2 * N + 1)):
        close(mapped(function), right)


@every("n", [1, 67])
@every("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_the_budget(n, dtype, device, generator):
    """Twice the error of PyTorch's fused kernel, to which the sink comes as one more key."""
    shapes = (1, 3, n, 32), (1, 3, 509, 32), (1, 3, 509, 32)
    tensors = query, key, value = [
        torch.randn(shape, device=device, generator=generator).to(dtype) for shape in shapes
    ]
    sink = torch.tensor([-1.0, 2.0, 6.0], device=device).to(dtype)
    exact = attnref.scaled_dot_product_attention(*(x.double() for x in tensors), sink=sink.double())
    bias = torch.zeros(1, 3, n, 510, dtype=dtype, device=device)
    bias[..., -1] = sink[:, None]
    more = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))
    theirs = torch.nn.functional.scaled_dot_product_attention(query, *more, bias)
    functions = attnref.scaled_dot_product_attention, blockwise_attention, kv_cache_attention
    for function in functions if n == 1 else functions[:2]:
        ours = function(*tensors, sink=sink)
        assert ours.dtype == dtype
        assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


def test_large_scores_are_weighed_against_a_large_sink(device):
    """Both near 20000, where a log-sum-exp in float32 has steps of 0.002."""
    query = torch.tensor([[[200.0, 1.0]]], device=device)
    key = torch.tensor([[[100.0, 0.0], [100.0, 1.0]]], device=device)
    value = torch.tensor([[[1.0], [3.0]]], device=device)
    sink = torch.tensor([20001.0], device=device)
    exact = attnref.scaled_dot_product_attention(
        query.double(), key.double(), value.double(), scale=1.0, sink=sink.double()
    )
    ours = blockwise_attention(query, key, value, scale=1.0, sink=sink)
    torch.testing.assert_close(ours.double(), exact, rtol=2e-3, atol=0.0)


# What it is asked with -------------------------------------------------------------------------


@every(
    ("sink", "message"),
    [
        (torch.zeros(5), "sink: expected a shape that broadcasts to (2, 3), a score for each head"),
        (torch.zeros(2, 3, 1), "sink: expected a shape that broadcasts to (2, 3), a score for"),
        (torch.zeros(3, dtype=torch.int64), "sink: expected a number or a tensor of a floating"),
        ("0", "sink: expected a number or a tensor of a floating dtype, got str. It is a score"),
        (True, "sink: expected a number or a tensor of a floating dtype, got bool."),
    ],
)
@every("function", [attnref.scaled_dot_product_attention, blockwise_attention, kv_cache_attention])
def test_what_is_no_sink_is_named(function, sink, message, randn):
    sink = sink.to(randn(1).device) if isinstance(sink, torch.Tensor) else sink
    tensors = randn(2, H, 1, D_K), randn(2, H, M, D_K), randn(2, H, M, D_V)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
        function(*tensors, sink=sink)


def derive_twice(function, inputs, weight):
    """Output, gradients, and those of a loss of all gradients, the sink's among them."""
    output = function(*inputs[:3], sink=inputs[3])
    first = torch.autograd.grad(output, inputs, weight, create_graph=True)
    return output, *first, *torch.autograd.grad(sum(x.sin().sum() for x in first), inputs)
