"""What all functions share: one check at the door, one way into the fused kernel, one signature."""

import gc
import math
import subprocess
import sys
from functools import partial
from inspect import ismodule
from pathlib import Path

import numpy as np
import pytest
import torch

import attnref
from attnref import adaptive_scaling, bounded_scores, masks, positions, scaling, variants
from attnref._door import enter
from attnref.bench.memory import peak_bytes
from attnref.variants._kernels import call_fused
from tests.variants.every import every

PACKAGE = str(Path(attnref.__file__).parent)
D_K, D_V = 6, 3  # even, for the two halves of differential attention
N = 8


def walk(function, until=()):
    """The functions of attnref that a call passes, and how often it comes back to a file."""
    calls = []

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            calls.append((code.co_filename, code.co_name))

    gc.disable()  # a generator that another test left would be closed meanwhile, and be counted
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    names = [name for _, name in calls]
    calls = calls[: next((names.index(name) for name in until if name in names), len(calls))]
    stays = [file for i, (file, _) in enumerate(calls) if i == 0 or calls[i - 1][0] != file]
    return [name for _, name in calls], len(stays) - len(set(stays))


@pytest.mark.parametrize(("n", "steps", "turns"), [(1, 8, 2), (3, 15, 4)])
def test_the_way_through_a_decoding_step_is_short(n, steps, turns, randn):
    """To the first core: what it calls is counted no more."""
    query, key, value = randn(2, 6, n, D_K), randn(2, 2, 11, D_K), randn(2, 2, 11, D_V)
    step = partial(attnref.kv_cache_attention, query, key, value, enable_gqa=True)
    passed, returns = walk(step, until=["forward"])
    assert passed[0] == "kv_cache_attention"
    first = passed.index("forward") if "forward" in passed else len(passed)
    assert first <= steps, passed[:first]
    assert returns <= turns
    assert passed.count("enter") == 1


# The fused kernel ------------------------------------------------------------------------------


@every("masking", ["none", "causal", "bool", "heads", "float and causal", "keys"])
@every("scale", [None, 0.0, -0.7])
@every(
    ("lead", "grouped"),
    [((), False), ((4,), True), ((2, 4), False), ((3, 2, 4), True), ((0, 4), False)],
)
def test_the_kernel_computes_the_definition(lead, scale, masking, grouped, device, randn):
    """Also in the form of other widths, and of dimensions that broadcast."""
    n, m = 13, 11
    heads = (*lead[:-1], 2) if grouped else lead
    value = randn(*heads, m, D_V).requires_grad_()
    inputs = [randn(*lead, n, D_K).requires_grad_(), randn(*heads, m, D_K).requires_grad_(), value]
    options = {"scale": scale, "enable_gqa": grouped, "is_causal": "causal" in masking}
    if masking == "bool":
        options["attn_mask"] = randn(*lead, n, m) > -0.3
    elif masking == "heads":
        options["attn_mask"] = randn(*lead[-1:], n, m) > -0.3
    elif masking == "keys":
        options["attn_mask"] = masks.Mask((1, m), lambda i, j: (j != 3) & (i == 0))
    elif "float" in masking:
        options["attn_mask"] = randn(n, m).masked_fill(randn(n, m) > 1.0, -math.inf)
    ours = call_fused(enter(*inputs, **options))
    expected = attnref.scaled_dot_product_attention(*inputs, **options)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    weight = randn(*ours.shape)
    one, other = (torch.autograd.grad(x, inputs, weight) for x in (ours, expected))
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


@every("training", [False, True])
@every("widths", [(64, 64), (64, 32), (32, 64)])
@every("lead", [(8,), (1, 8), (2, 2, 2)])
def test_the_kernel_holds_no_weights(lead, widths, training, device, generator):
    """Twice the length takes twice the memory, and a little more; the weights take four times."""
    d_k, d_v = widths

    def held(n):
        query, key, value = (
            torch.randn(*lead, n, d, device=device, generator=generator, requires_grad=training)
            for d in (d_k, d_k, d_v)
        )
        return peak_bytes(lambda: call_fused(enter(query, key, value)), device)

    assert held(1024) < 3 * held(512)
    assert held(1024) < 8 * 1024 * 1024 * 4 / 3  # a third of the bytes of the weights


@every("which", range(3))
def test_the_kernel_holds_no_weights_of_components_that_lie_apart(which, device, generator):
    """PyTorch's function leaves its kernel for them."""
    tensors = [torch.randn(8, 1024, 64, device=device, generator=generator) for _ in range(3)]
    expected = call_fused(enter(*tensors))
    tensors[which] = tensors[which].mT.contiguous().mT
    torch.testing.assert_close(call_fused(enter(*tensors)), expected)
    held = peak_bytes(lambda: call_fused(enter(*tensors)), device)
    assert held < 8 * 1024 * 1024 * 4 / 3


def test_hierarchical_means_leave_out_padding(device, randn):
    """A mask that leaves out whole sequences leaves zeros; runs of equal keys stay exact."""
    query = randn(3, N, D_K)
    key, value = (randn(3, N // 2, d).repeat_interleave(2, -2) for d in (D_K, D_V))
    mask = masks.padding([5, 0, N], N).dense(device)[:, 0]
    means = partial(attnref.hierarchical_attention, block_size=2, num_means=1)
    for is_causal in (False, True):
        ours = means(query, key, value, mask, is_causal=is_causal)
        expected = attnref.attend(query, key, value, mask, is_causal=is_causal).output
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


# Kinds of arguments ----------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers(device, randn):
    query = randn(2, N, D_K)
    for number in (np.float32(0.5), np.float64(0.5), np.int64(2)):
        torch.testing.assert_close(
            attnref.scaled_dot_product_attention(query, query, query, scale=number),
            attnref.scaled_dot_product_attention(query, query, query, scale=float(number)),
        )
    for integer in (np.int64(3), np.int8(3), np.uint16(3)):
        assert repr(masks.causal(integer)) == "Mask(shape=(3, 3))"
        assert masks.sliding_window(5, window=integer, is_causal=True).count() == 12
        kept = attnref.topk_attention(query, query, query, num_keys=integer)
        torch.testing.assert_close(kept, attnref.topk_attention(query, query, query, num_keys=3))
    assert attnref.MultiHeadAttention(np.int64(6), np.int64(2)).num_heads == 2
    with pytest.raises(TypeError, match=r"^n: expected an integer of 0 or more, got np\.float64"):
        masks.causal(np.float64(3.0))
    with pytest.raises(TypeError, match=r"^n: expected an integer of 0 or more, got True"):
        masks.causal(True)


# What import attnref gives ---------------------------------------------------------------------


@pytest.fixture
def attnref_process():
    def run(code):
        code = f"import sys, attnref\n{code}"
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout

    return run


def test_what_is_public_is_loaded_when_it_is_named(attnref_process):
    said = attnref_process(
        "slow = 'conformance', 'distributed', 'oracle', 'variants'\n"
        "print(*({f'attnref.{room}' for room in slow} & {*sys.modules}))\n"
        "missing = [name for name in attnref.__all__ if not hasattr(attnref, name)]\n"
        "print(missing, {*dir(attnref)} == {*attnref.__all__, '__version__'})\n"
        "print('attnref.variants.lsh' in sys.modules)"
    )
    assert said == "\n[] True\nTrue\n"
    with pytest.raises(AttributeError, match=r"^module 'attnref' has no attribute 'nothing'"):
        _ = attnref.nothing


def test_every_method_is_offered_and_every_name_has_one_path():
    """What a module offers is called from the top, or from its room, and not from both."""
    methods = {record.function.__name__ for record in variants.records().values()}
    assert methods < {*attnref.__all__}
    rooms = [one for name in attnref.__all__ if ismodule(one := getattr(attnref, name))]
    top = {*attnref.__all__} - {room.__name__.removeprefix("attnref.") for room in rooms}
    twice = {name for room in rooms for name in room.__all__} & top
    assert twice == {"Attention", "attend", "gated_delta_attention"}  # the oracle, in NumPy


# Doors that stood open ---------------------------------------------------------------------------

TOKENS = torch.zeros(1, N, D_K)


def nested(layout):
    return torch.nested.nested_tensor([TOKENS[0], TOKENS[0, :3]], layout=layout)


THREE = TOKENS, TOKENS, TOKENS
UNEVEN = r"expected an ordinary, dense tensor, got one that is nested\. .* masks\.padding"
SPARSE = r"expected an ordinary, dense tensor, got one of layout torch\.sparse_coo\. .*to_dense\(\)"
linformer = partial(attnref.linformer_attention, *THREE, value_projection=torch.zeros(3, 2, N))
window = partial(attnref.sliding_window_attention, *THREE, window=3)
performer = partial(attnref.performer_attention, *THREE)
lsh = partial(attnref.lsh_attention, *THREE)
projected = partial(attnref.random_projection, 2, 3)
drawn = partial(attnref.random_rotations, 2, 3, num_buckets=2)
chosen = partial(attnref.indexer_choice, TOKENS, TOKENS[0], TOKENS[..., 0], num_keys=1)
step = partial(attnref.linear_attention_step, *[TOKENS[:, :1]] * 3)


# PyTorch calls its tensors of several lengths a prototype.
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@every(
    ("call", "message"),
    [
        (lambda: attnref.attend(*[nested(torch.strided)] * 3), f"query: {UNEVEN}"),
        (lambda: attnref.attend(TOKENS, TOKENS, nested(torch.jagged)), f"value: {UNEVEN}"),
        (lambda: attnref.attend(*THREE, nested(torch.jagged)), f"attn_mask: {UNEVEN}"),
        (lambda: attnref.attend(TOKENS, TOKENS.to_sparse(), TOKENS), f"key: {SPARSE}"),
        (lambda: attnref.attend(*THREE, torch.eye(N).to_sparse()), f"attn_mask: {SPARSE}"),
        (
            lambda: bounded_scores.qk_unit_norm(TOKENS.int(), TOKENS.int()),
            "query: .* got torch.int32",
        ),
        (lambda: bounded_scores.qk_rms_norm(TOKENS, TOKENS.double()), "key: .* of query, got"),
        (lambda: bounded_scores.qk_rms_norm(TOKENS, TOKENS, eps="1"), "eps: expected a number,"),
        (lambda: bounded_scores.softcap([1.0], cap=2.0), "scores: expected a torch.Tensor, got"),
        (lambda: bounded_scores.softcap(TOKENS, cap=[2.0]), "cap: expected a number, got list"),
        (lambda: scaling.scale_query([[1.0]], 2.0), "query: expected a torch.Tensor, got list"),
        (lambda: scaling.scale_query(TOKENS, "2"), "factor: expected a number or a tensor, got"),
        (lambda: scaling.yarn(64, stretch="4"), "stretch: expected a number, got str"),
        (lambda: adaptive_scaling.from_variance([1.0], [2.0]), "query: expected a .*Tensor, got"),
        (lambda: adaptive_scaling.from_entropy(*THREE[:2], target="1"), "target: .* number"),
        (
            lambda: projected(generator=None),
            r"generator: expected a torch\.Generator, got "
            r"NoneType",
        ),
        (lambda: drawn(generator=None), r"generator: expected a torch\.Generator, got NoneType"),
        (lambda: performer(projection=torch.zeros(0, D_K)), r"projection: .* got \(0, 6\)"),
        (lambda: lsh(rotations=torch.zeros(2, D_K, 0)), r"rotations: .* got \(2, 6, 0\)"),
        (lambda: linformer(key_projection=torch.zeros(3, 2, N)), r"key_projection: .* to \(1,\)"),
        (lambda: attnref.varlen_attention(*THREE, torch.tensor([0j, 8])), "cu_seqlens: expected"),
        (lambda: window(torch.ones(N, N).bool()), "attn_mask: .* Tensor. The window is the mask;"),
        (lambda: step(TOKENS), "state: expected a LinearState or None, got Tensor"),
        (lambda: chosen(is_causal="no"), "is_causal: expected True or False, got str"),
        (lambda: attnref.mean_projection(2, "8"), "length: .* integer of 1 or more,"),
        (lambda: positions.rotary([[1.0, 2.0]]), "x: expected a torch.Tensor, got list"),
        (lambda: positions.sinusoidal(3, 4, base="10000"), "base: expected a number, got str"),
        (lambda: positions.rotary(TOKENS, positions="first"), "positions: .* of integers, got str"),
        (lambda: attnref.KVCache(0), "max_length: expected an integer of 1 or more, got 0. It is"),
    ],
)
def test_an_argument_of_another_kind_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        call()


def test_what_a_wider_mask_can_hold_forbids_nothing(device, randn):
    """-1e300 is finite: a row of it alone gives the mean of the values."""
    query, key, value = (randn(5, 3, dtype=torch.float32) for _ in range(3))
    mask = torch.zeros(5, 5, dtype=torch.float64, device=device)
    mask[2] = -1e300
    output = attnref.scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output[2], value.mean(0))
    plain = attnref.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(output[[0, 1, 3, 4]], plain[[0, 1, 3, 4]], rtol=0, atol=0)
    torch.testing.assert_close(call_fused(enter(query, key, value, mask)), output)
