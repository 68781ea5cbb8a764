"""Programs of softmax attention run under a counter of what they really do."""

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import attnref
from attnref import cost, masks
from attnref.cost import Cost, Operations, Sizes
from tests.cost.counter import Counter, Number, numbers
from tests.cost.programs import (
    ALL,
    BLOCK,
    DTYPES,
    HEADS,
    WINDOWS,
    blockwise,
    blockwise_backward,
    definition,
    dense_window,
    inputs,
    met_tiles,
    plain_attention,
    row_by_row,
)
from tests.variants.every import every


def exact(query, key, value, allowed=None):
    return attnref.scaled_dot_product_attention(query, key[:, None], value[:, None], allowed)


SMALL = {"n": 3, "m": 2, "d_k": 11, "d_v": 13}, {"n": 19, "m": 2, "d_k": 3, "d_v": 1}


@pytest.mark.parametrize("masked", [False, True])
@every("dtype", DTYPES)
@every(
    ("dims", "heads", "key_heads"),
    [*((ALL, *heads) for heads in HEADS), *((dims, 1, 1) for dims in SMALL)],
)
def test_plain_and_its_gradients(dims, heads, key_heads, masked, dtype, device, generator):
    """Also where the output, or the gradients, set the peak, and not the scores."""
    sizes = Sizes(**dims, num_heads=heads, num_kv_heads=key_heads, dtype=dtype)
    *arguments, grad = inputs(sizes, generator)
    forbidden = ~dense_window(sizes.n, sizes.m, (2, 5), device) if masked else None
    with Counter() as counter:
        plain_attention(*arguments, forbidden)
    assert counter.cost == cost.of("plain", sizes, masked=masked)
    for tensor in arguments:
        tensor.requires_grad_()
    with Counter() as counter:
        output = plain_attention(*arguments, forbidden)
        torch.autograd.grad(output, arguments, grad)
    counted = [cost.of("plain", sizes, masked=masked, backward=way) for way in (False, True)]
    assert counter.cost == sum(counted, Cost())


@pytest.mark.parametrize("window", WINDOWS)
@every(("heads", "key_heads"), HEADS)
def test_fused(heads, key_heads, window, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=torch.float64)
    query, key, value, _ = inputs(sizes, generator)
    allowed = dense_window(sizes.n, sizes.m, window, device)
    output, operations = row_by_row(query, key, value, allowed)
    torch.testing.assert_close(output, exact(query, key, value, allowed), rtol=1e-12, atol=1e-12)
    counted = cost.of("fused", sizes, pairs=int(allowed.sum()))
    assert counted.operations == operations
    assert counted.bytes_read == query.nbytes + key.nbytes + value.nbytes
    assert counted.bytes_written == counted.peak_bytes == output.nbytes


@pytest.mark.parametrize("window", WINDOWS)
@every("dtype", [torch.float32, torch.float64])
@every(("heads", "key_heads"), HEADS)
def test_blockwise_and_its_gradients(heads, key_heads, window, dtype, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=dtype)
    *arguments, grad = inputs(sizes, generator)
    allowed = dense_window(sizes.n, sizes.m, window, device)
    step = {"block": BLOCK, "window": window}
    program = {"block": BLOCK, "forbidden": met_tiles(allowed, BLOCK)}
    with Counter(*arguments) as counter:
        blockwise(*arguments, **program)
    assert counter.cost == cost.of("blockwise", sizes, **step)

    with Counter(*arguments, grad) as counter:
        output, lse = blockwise(*arguments, **program, return_lse=True)
        gradients = blockwise_backward(*arguments, output, lse, grad, **program)
    forward = cost.of("blockwise", sizes, **step, return_lse=True)
    assert counter.cost == forward + cost.of("blockwise", sizes, **step, backward=True)

    if dtype == torch.float64:  # what was counted is attention
        expected = exact(*(tensor.requires_grad_() for tensor in arguments), allowed)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        for ours, theirs in zip(
            gradients, torch.autograd.grad(expected, arguments, grad), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def scalar_attention(query, key, value, scale):
    """The textbook formula on single numbers, where every operation is seen."""
    zero, output = Number(0.0), []
    for q in query:
        scores = [sum((a * b for a, b in zip(q, k, strict=True)), zero) * scale for k in key]
        top = Number(-math.inf)
        for score in scores:
            top = top.maximum(score)
        powers = [(score - top).exp() for score in scores]
        total = sum(powers, zero)
        weights = [power / total for power in powers]
        columns = zip(*value, strict=True)
        output.append(
            [sum((p * v for p, v in zip(weights, c, strict=True)), zero) for c in columns]
        )
    return output


def test_plain_on_single_numbers(monkeypatch, generator):
    """A counter that knows no kernels agrees: d numbers are d additions from an accumulator."""
    monkeypatch.setattr(Number, "done", Operations())
    sizes = Sizes(**ALL, dtype=torch.float64)
    query, key, value, _ = inputs(sizes, generator)
    output = scalar_attention(*map(numbers, (query[0, 0], key[0], value[0])), Number(5**-0.5))
    expected = [[number.value for number in row] for row in output]
    torch.testing.assert_close(
        exact(query, key, value)[0, 0].cpu(), torch.tensor(expected, dtype=torch.float64)
    )
    counted = cost.of("plain", sizes).operations
    assert Number.done.exponentials == counted.exponentials
    assert Number.done.elementwise == counted.matmul + counted.elementwise


@pytest.mark.parametrize("mask", [None, "bool", "causal", "float"])
@every("dtype", [torch.bfloat16, *DTYPES])
def test_the_definition(mask, dtype, device, generator):
    sizes = Sizes(**ALL, batch=2, num_heads=6, num_kv_heads=3, dtype=dtype)
    shapes = (2, 6, 13, 5), (2, 3, 17, 5), (2, 3, 17, 7)
    query, key, value = (
        torch.randn(shape, device=device, generator=generator).to(dtype) for shape in shapes
    )
    attn_mask = {
        "bool": dense_window(13, 17, (2, 5), device),
        "float": torch.zeros(13, 17, device=device),
    }.get(mask)
    options = {"is_causal": mask == "causal", "enable_gqa": True}
    with Counter() as counter, FlopCounterMode(display=False) as flops:
        attnref.scaled_dot_product_attention(query, key, value, attn_mask, **options)
    counted = definition(sizes, float_mask=mask == "float")
    assert counter.cost.operations == counted
    assert flops.get_total_flops() == counted.matmul
    assert counted.matmul > cost.of("plain", sizes).operations.matmul  # NaN is traced


@pytest.mark.claim("mask-alone-saves-nothing")
def test_a_mask_alone_saves_nothing_and_skipping_tiles_does():
    """Causal attention is said to halve the work; a dense kernel with a mask does all of it."""
    q = torch.zeros(1, 1, 256, 64)
    mask = masks.causal(256).dense()

    def done(attend, *arguments, **options):
        with FlopCounterMode(display=False) as counter:
            attend(*arguments, **options)
        return counter.get_total_flops()

    ours = attnref.scaled_dot_product_attention
    assert done(ours, q, q, q, mask) == done(ours, q, q, q) > 0
    with sdpa_kernel(SDPBackend.MATH):
        for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
            whole = done(torch.nn.functional.scaled_dot_product_attention, q, q, q, **options)
            assert whole == 2 * 2 * 256**2 * 64
    n, block = 4096, (128, 128)  # 32 blocks
    sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
    masked = cost.of("plain", sizes, masked=True)
    assert masked.operations == cost.of("plain", sizes).operations
    assert masked.bytes_moved > cost.of("plain", sizes).bytes_moved
    half = cost.of("blockwise", sizes, block=block, window=(None, 0)).operations.matmul
    assert half / masked.operations.matmul == 1 / 2 + 1 / (2 * 32)
    pairs = cost.allowed_pairs(n, n, window=(None, 0))
    assert pairs / n**2 == 1 / 2 + 1 / (2 * n)


@pytest.mark.claim("loop-does-the-same-work")
def test_one_row_at_a_time_is_the_same_work():
    """Matrix products are quicker than a loop by parallelism, not by doing less."""
    query, key, value = torch.zeros(3, 1, 13, 5), torch.zeros(3, 17, 5), torch.zeros(3, 17, 7)
    with Counter() as whole:
        plain_attention(query, key, value)
    with Counter() as loop:
        for i in range(13):
            plain_attention(query[..., i : i + 1, :], key, value)
    assert loop.cost.operations == whole.cost.operations
    assert loop.cost.bytes_read > whole.cost.bytes_read  # every key, thirteen times
    assert (
        loop.cost.operations
        == cost.of("plain", Sizes(n=13, m=17, d_k=5, d_v=7, num_heads=3)).operations
    )


@pytest.mark.claim("decoding-does-the-causal-pairs")
def test_decoding_with_a_cache_is_the_work_of_the_causal_pairs():
    def sizes(n, m):
        return Sizes(n=n, m=m, d_k=64, d_v=32, num_heads=8, num_kv_heads=2, dtype=torch.float16)

    steps = sum((cost.of("fused", sizes(1, m)) for m in range(1, 98)), Cost())
    prefill = cost.of("fused", sizes(97, 97), pairs=cost.allowed_pairs(97, 97, window=(None, 0)))
    assert steps.operations == prefill.operations
    # Decoding reads the cache again for each token: one operation per number and byte of it,
    # times the query heads that share it.
    step, cache = cost.of("fused", sizes(1, 4096)), sizes(1, 4096).cache_bytes
    assert step.operations.matmul == 4 * cache
    assert steps.bytes_read - prefill.bytes_read == sum(
        sizes(1, m).cache_bytes for m in range(1, 97)
    )


@pytest.mark.claim("returned-weights-are-held")
def test_returning_the_weights_keeps_the_largest_tensor():
    """A listing that returns its weights is no efficient attention: 8 times the output."""
    sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=2)
    query = torch.empty(2, 512, 64)
    with Counter() as counter:
        weights = torch.softmax(query @ query.mT, dim=-1)
        output = weights @ query
    assert (weights.numel(), output.numel()) == (524_288, 65_536)
    assert sizes.score_bytes == weights.nbytes
    assert counter.cost.peak_bytes >= sizes.score_bytes
    assert cost.of("fused", sizes).peak_bytes == output.nbytes
