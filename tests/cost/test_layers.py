"""Layers run under a counter of what they really do, PyTorch's own too."""

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref import cost
from attnref.cost import Cost, Sizes
from attnref.multihead import MultiHeadAttention
from tests.cost.counter import Counter, aten
from tests.cost.programs import (
    BLOCK,
    blockwise,
    definition,
    dense_window,
    feedforward,
    inputs,
    met_tiles,
    multihead,
    plain_attention,
)
from tests.variants.every import every


def linear_layers(shapes, like, bias=True):
    options = {"bias": bias, "dtype": like.dtype, "device": like.device}
    layers = [torch.nn.Linear(*shape, **options).requires_grad_(False) for shape in shapes]
    return layers, sum(number.numel() for layer in layers for number in layer.parameters())


@pytest.mark.parametrize(("embed_dim", "d_v"), [(11, 7), (97, 2)])
@every("dtype", [torch.float32, torch.float64])
@every("bias", [True, False])
@every("num_kv_heads", [6, 2])
def test_multihead(embed_dim, d_v, num_kv_heads, bias, dtype, generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=d_v, num_heads=6, num_kv_heads=num_kv_heads, dtype=dtype)
    x = torch.randn(13, embed_dim, dtype=dtype, generator=generator, device=generator.device)
    widths = [6 * 5, num_kv_heads * 5, num_kv_heads * d_v]
    shapes = [*((embed_dim, width) for width in widths), (6 * d_v, embed_dim)]
    layers, parameters = linear_layers(shapes, x, bias)
    assert cost.parameters(sizes, embed_dim, bias=bias) == parameters

    causal = met_tiles(dense_window(13, 13, (None, 0), x.device), BLOCK)
    core = partial(blockwise, block=BLOCK, forbidden=causal)
    arguments = inputs(sizes, generator)[:3]
    with Counter() as alone:
        core(*arguments)
    with Counter() as counter:
        multihead(x, layers, sizes, core)
    assert counter.cost == cost.multihead(sizes, embed_dim, alone.cost, bias=bias)
    if num_kv_heads == 6:
        with Counter() as counter:
            multihead(x, layers, sizes, plain_attention)
        assert counter.cost == cost.multihead(sizes, embed_dim, cost.of("plain", sizes), bias=bias)


@pytest.mark.claim("gates-cost-one-projection")
@pytest.mark.parametrize(("gate", "width"), [("headwise", 1), ("elementwise", 7)])
@every("bias", [True, False])
@every("embed_dim", [11, 97])
def test_multihead_with_gates(embed_dim, gate, width, bias, generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7, num_heads=6)
    x = torch.randn(13, embed_dim, generator=generator, device=generator.device)
    widths = [6 * 5, 6 * 5, 6 * 7]
    shapes = [*((embed_dim, one) for one in widths), (6 * 7, embed_dim), (embed_dim, 6 * width)]
    layers, parameters = linear_layers(shapes, x, bias)
    assert cost.parameters(sizes, embed_dim, bias=bias, gate=gate) == parameters
    with Counter() as counter:
        multihead(x, layers, sizes, plain_attention)
    spent = cost.multihead(sizes, embed_dim, cost.of("plain", sizes), bias=bias, gate=gate)
    assert counter.cost == spent
    without = cost.multihead(sizes, embed_dim, cost.of("plain", sizes), bias=bias)
    more = spent.operations.matmul - without.operations.matmul
    assert more == 2 * 13 * embed_dim * 6 * width


@pytest.mark.parametrize("call", [cost.parameters, partial(cost.multihead, core=Cost())])
def test_a_gate_of_another_kind_is_named(call):
    with pytest.raises(ValueError, match=r"^gate: expected 'headwise', 'elementwise' or None, got"):
        call(Sizes(n=3, m=3, d_k=2, d_v=2), 4, gate="sigmoid")


@pytest.mark.parametrize("gate", [None, "headwise", "elementwise"])
def test_multihead_of_the_package(gate, device, generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7, batch=2, num_heads=6, num_kv_heads=3)
    layer = MultiHeadAttention(
        11,
        6,
        num_kv_heads=3,
        head_dim=5,
        value_head_dim=7,
        gate=gate,
        generator=generator,
        device=device,
    )
    with FlopCounterMode(display=False) as flops:
        layer(torch.randn(2, 13, 11, generator=generator, device=device), is_causal=True)
    spent = cost.multihead(sizes, 11, Cost(definition(sizes)), gate=gate)
    assert flops.get_total_flops() == spent.operations.matmul
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert parameters == cost.parameters(sizes, 11, gate=gate)


@every("bias", [True, False])
@every(("embed_dim", "hidden"), [(11, 43), (43, 11)])
def test_feedforward(embed_dim, hidden, bias, generator):
    x = torch.randn(13, embed_dim, generator=generator, device=generator.device)
    layers, parameters = linear_layers([(embed_dim, hidden), (hidden, embed_dim)], x, bias)
    with Counter() as counter:
        feedforward(x, *layers)
    assert counter.cost == cost.feedforward(13, embed_dim, hidden, bias=bias)
    one = Sizes(n=1, m=1, d_k=2, d_v=3)
    alone = cost.parameters(one, embed_dim, bias=bias)
    assert cost.parameters(one, embed_dim, hidden=hidden, bias=bias) - alone == parameters


def count_products(layer, *arguments, backward):
    """Operations in products, by PyTorch's own counter, in the core and elsewhere."""
    with FlopCounterMode(display=False) as flops:
        output = layer(*arguments)
        output = output[0] if isinstance(output, tuple) else output
        if backward:
            output.sum().backward()
    core = flops.get_flop_counts()["Global"][aten.bmm]
    return core, flops.get_total_flops() - core


@pytest.mark.claim("layer-operations-exact")
@pytest.mark.claim("training-is-three-forwards")
@pytest.mark.parametrize("times", [1, 3])
def test_layers_of_pytorch(times):
    """A whole encoder layer, forward and trained; on no device, so that its size is no matter."""
    sizes = Sizes(n=23, m=23, d_k=3, d_v=3, batch=2, num_heads=5)
    layer = torch.nn.TransformerEncoderLayer(15, 5, 59, batch_first=True, device="meta")
    x = torch.empty(2, 23, 15, device="meta", requires_grad=True)
    core = cost.of("plain", sizes)
    if times == 3:
        core += cost.of("plain", sizes, backward=True)
    around = cost.multihead(sizes, 15, Cost()) + cost.feedforward(2 * 23, 15, 59)
    assert count_products(layer, x, backward=times == 3) == (
        core.operations.matmul,
        times * around.operations.matmul,
    )
    norms = 2 * 2 * 15
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert cost.parameters(sizes, 15, hidden=59) == parameters - norms


@pytest.mark.claim("core-share-of-a-layer")
@pytest.mark.parametrize(
    ("n", "embed_dim", "num_heads", "against", "share"),
    [
        (512, 768, 12, "layer", 0.1),  # BERT-base
        (2 * 768, 768, 12, "projections", 0.5),
        (2 * 12288, 12288, 96, "projections", 0.5),
        (6 * 768, 768, 12, "layer", 0.5),
        (6 * 12288, 12288, 96, "layer", 0.5),
    ],
)
def test_core_against_the_rest_of_the_layer(n, embed_dim, num_heads, against, share):
    """The layer is said to cost O(n² d): at n = 512 nine tenths of it do not."""
    layer = {
        "layer": torch.nn.TransformerEncoderLayer(
            embed_dim, num_heads, 4 * embed_dim, batch_first=True, device="meta"
        ),
        "projections": torch.nn.MultiheadAttention(
            embed_dim, num_heads, batch_first=True, device="meta"
        ),
    }[against]
    x = torch.empty(1, n, embed_dim, device="meta")
    core, rest = count_products(layer, *[x] * (1 if against == "layer" else 3), backward=False)
    assert core == share * (core + rest)

    head_dim = embed_dim // num_heads
    sizes = Sizes(n=n, m=n, d_k=head_dim, d_v=head_dim, num_heads=num_heads)
    around = cost.multihead(sizes, embed_dim, Cost()).operations.matmul
    assert around == 8 * n * embed_dim**2
    if against == "layer":
        around += cost.feedforward(n, embed_dim, 4 * embed_dim).operations.matmul
    assert (cost.of("plain", sizes).operations.matmul, around) == (core, rest)


@pytest.mark.claim("wider-keys-alone")
@pytest.mark.claim("raising-d-k-alone")
def test_doubling_d_k_alone():
    """Only W_Q, W_K and the scores grow: half as much again, not twice."""
    before, after = (Sizes(n=512, m=512, d_k=d_k, d_v=64, num_heads=8) for d_k in (64, 128))
    parameters = [cost.parameters(sizes, 512, bias=False) for sizes in (before, after)]
    assert parameters == [1_048_576, 1_572_864]
    work = [
        cost.multihead(sizes, 512, cost.of("plain", sizes)).operations.matmul
        for sizes in (before, after)
    ]
    assert work == [1_610_612_736, 2_415_919_104]
    exponentials = [cost.of("plain", sizes).operations.exponentials for sizes in (before, after)]
    assert exponentials[0] == exponentials[1]
