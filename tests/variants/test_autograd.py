"""What attention by blocks owes to autograd, beyond the first derivative of one call."""

from functools import partial

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.functional import pad

import attnref
from attnref import masks, variants
from attnref.record import Example
from attnref.variants import _tiled, blockwise, sliding_window
from attnref.variants.block_sparse import block_sparse_attention
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.varlen import varlen_attention
from tests.variants.every import every

N, D_K, D_V = 11, 3, 2
LAYOUT = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=torch.bool)  # blocks of 4
BOOL = torch.arange(N * N).reshape(N, N) % 3 != 0

close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-11)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blockwise, "ROWS", 4)
    monkeypatch.setattr(blockwise, "CHUNK", 2)
    monkeypatch.setattr(sliding_window, "_ROWS", 4)


def one_width(value):
    """With zeros, as wide as the keys."""
    return pad(value, (0, D_K - value.shape[-1]))


# How each is called, and the mask under which the definition says the same.
CALLS = {
    "blockwise": (blockwise_attention, None),
    "blockwise, one width": (
        lambda q, k, v: blockwise_attention(q, k, one_width(v))[..., : v.shape[-1]],
        None,
    ),
    "blockwise, bool": (lambda q, k, v: blockwise_attention(q, k, v, BOOL.to(q.device)), BOOL),
    "blockwise, window": (
        lambda q, k, v: blockwise_attention(
            q, k, v, masks.sliding_window(N, window=3, is_causal=True)
        ),
        masks.sliding_window(N, window=3, is_causal=True),
    ),
    "sliding window": (
        partial(sliding_window_attention, window=3),
        masks.sliding_window(N, window=3),
    ),
    "block sparse": (
        lambda q, k, v: block_sparse_attention(q, k, v, LAYOUT.to(q.device), block_size=4),
        masks.block_layout(N, layout=LAYOUT, block_size=4),
    ),
}


@pytest.fixture
def inputs(randn):
    return [randn(2, N, width).requires_grad_() for width in (D_K, D_K, D_V)]


EXACT = CALLS | {
    "varlen": (
        lambda q, k, v: varlen_attention(q, k, v, torch.tensor([0, 3, N])),
        masks.packed([3, N - 3]),
    )
}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.claim("blocks-have-all-derivatives")
@pytest.mark.parametrize("name", EXACT)
@every("dual", ((0,), (1,), (2,), (0, 1, 2)))
def test_dual_numbers_by_hand(name, dual, device, randn, inputs):
    """As torch.func.jvp, where the inputs are no wrappers: of one input, and of all three."""
    ours, mask = EXACT[name]
    dense = mask.dense(device) if isinstance(mask, masks.Mask) else mask
    along = [randn(*x.shape) for x in inputs]
    with forward_ad.dual_level():
        given = [
            forward_ad.make_dual(x.detach(), tangent) if place in dual else x.detach()
            for place, (x, tangent) in enumerate(zip(inputs, along, strict=True))
        ]
        found = forward_ad.unpack_dual(ours(*given))
        right = forward_ad.unpack_dual(attnref.scaled_dot_product_attention(*given, dense))
    close(found.primal, right.primal)
    close(found.tangent, right.tangent)


@pytest.mark.claim("blocks-have-all-derivatives")
def test_the_kernels_own_gradients_stop_there(randn):
    query = randn(1, 2, N, D_K).cpu().requires_grad_()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        output = torch.nn.functional.scaled_dot_product_attention(query, query, query)
        gradient = torch.autograd.grad(output.square().sum(), query, create_graph=True)[0]
        with pytest.raises(RuntimeError, match=r"derivative for aten::.* is not implemented"):
            gradient.sum().backward()


def test_vmap_over_masks(randn, inputs):
    """Each with its own tensor, whose dimension comes first though the inputs have more."""
    several = randn(3, N, N) > 0
    found = torch.func.vmap(blockwise_attention, in_dims=(None, None, None, 0))(*inputs, several)
    for index, mask in enumerate(several):
        close(found[index], attnref.scaled_dot_product_attention(*inputs, mask))


# PyTorch's compiler uses parts of PyTorch that are deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("is_derived", [False, True])
@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: sliding_window_attention(q, k, one_width(v), window=3, sink=0.5),
        *(
            pytest.param(attend, marks=pytest.mark.audit)
            for attend in (
                lambda q, k, v: sliding_window_attention(q, k, v, None, 0.0, window=3),
                lambda q, k, v: blockwise_attention(q, k, v, is_causal=True, sink=0.5),
                lambda q, k, v: attnref.kv_cache_attention(q[:, :3], k, one_width(v)),
                lambda q, k, v: attnref.kv_cache_attention(q[:, :1], k, v, splits=2),
            )
        ),
    ],
)
def test_one_graph_holds_a_whole_call(attend, is_derived, inputs):
    torch._dynamo.reset()
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(is_derived):
        found, expected = compiled(*inputs), attend(*inputs)
    close(found, expected)
    if is_derived:
        gradients = torch.autograd.grad(found.sum(), inputs)
        for one, other in zip(gradients, torch.autograd.grad(expected.sum(), inputs), strict=True):
            close(one, other)


@pytest.mark.parametrize(
    "attend",
    [
        lambda *inputs, mask: blockwise_attention(*inputs, mask),
        lambda *inputs, mask: block_sparse_attention(*inputs, mask, block_size=1),
    ],
)
def test_a_mask_changed_before_backward_is_seen(attend, inputs):
    """PyTorch's way to say that the gradient would be another function's."""
    mask = BOOL.to(inputs[0].device).clone()
    output = attend(*inputs, mask=mask)
    mask.fill_(True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@every("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_least_number_masks_as_in_the_definition(dtype, device, randn):
    """Transformers writes it for minus infinity: a row of nothing else weighs all keys alike."""
    inputs = [randn(N, d).to(dtype).requires_grad_() for d in (D_K, D_K, D_V)]
    least = torch.finfo(dtype).min
    mask = torch.zeros(N, N, dtype=dtype, device=device).masked_fill(~BOOL.to(device), least)
    mask[4] = least
    mask[5], mask[5, 8] = least, 0.0  # a key that counts comes after blocks of those that do not
    weight = randn(N, D_V).to(dtype)
    found = []
    for attend in (blockwise_attention, attnref.scaled_dot_product_attention):
        output = attend(*inputs, mask)
        found.append([output, *torch.autograd.grad(output, inputs, weight)])
    eps = torch.finfo(dtype).eps
    for ours, expected in zip(*found, strict=True):
        # Sums of 11 terms of size 1, rounded a few times, and once more to the dtype.
        torch.testing.assert_close(ours, expected, rtol=4 * eps, atol=16 * eps)
    mean = inputs[2].mean(0)
    torch.testing.assert_close(found[0][0][4], mean, rtol=4 * eps, atol=4 * eps)


@pytest.mark.claim("traced-graphs-hold-no-values")
@pytest.mark.parametrize("name", ["blockwise, bool", "blockwise, window", "block sparse"])
def test_where_a_mask_decides_a_graph_holds_the_definition(name, monkeypatch, inputs):
    """Up to some pairs; beyond these it is refused."""
    attend = CALLS[name][0]
    expected = attend(*inputs)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    close(attend(*inputs), expected)
    monkeypatch.setattr(_tiled, "_FEW_PAIRS", N * N - 1)
    with pytest.raises(ValueError, match=f"^query: expected at most {N * N - 1} pairs"):
        attend(*inputs)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.claim("traced-graphs-hold-no-values")
def test_the_compiler_leaves_out_what_is_refused(monkeypatch, inputs):
    attend, compiler = CALLS["block sparse"][0], {"backend": "eager"}
    torch.compiler.reset()
    close(torch.compile(attend, fullgraph=True, **compiler)(*inputs), attend(*inputs))
    torch.compiler.reset()
    monkeypatch.setattr(_tiled, "_FEW_PAIRS", N * N - 1)
    with pytest.raises(RuntimeError, match=f"expected at most {N * N - 1} pairs"):
        torch.compile(attend, fullgraph=True, **compiler)(*inputs)
    close(torch.compile(attend, **compiler)(*inputs), attend(*inputs))


@every("name", ["sliding window", "blockwise, one width"])
@every("is_derived", [False, True])
def test_a_traced_call_is_recorded_where_somebody_wants_a_derivative(
    is_derived, name, monkeypatch, inputs
):
    attend = CALLS[name][0]
    expected = attend(*inputs)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.set_grad_enabled(is_derived):
        found = attend(*inputs)
    assert found.requires_grad == is_derived
    close(found, expected.detach())


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.claim("borders-are-no-part-of-a-graph")
def test_borders_are_no_part_of_a_graph(randn):
    attend = partial(varlen_attention, cu_seqlens=torch.tensor([0, 4, N]))
    query = randn(1, N, D_K)
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="leave the call out of it with torch"):
        torch.compile(attend, fullgraph=True, backend="eager")(query, query, query)
    close(torch.compile(attend, backend="eager")(query, query, query), attend(*[query] * 3))


def test_borders_are_refused_before_they_are_read(monkeypatch, randn):
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    query = randn(1, N, D_K)
    with pytest.raises(ValueError, match=r"^cu_seqlens: expected a call outside torch\.compile"):
        varlen_attention(query, query, query, torch.tensor([0, 4, N]))


@pytest.mark.parametrize(
    "name", ["blockwise", "differential", "distance_bias", "latent", "quantized"]
)
def test_a_mask_that_wants_a_gradient_is_refused(name, randn):
    method = variants.records()[name]
    arguments = method.arguments(Example(*(randn(2, 3, N, d) for d in (4, 4, D_V))))
    with pytest.raises(
        ValueError, match=r"^attn_mask: expected a tensor without gradient.* Detach"
    ):
        method.function(**arguments, attn_mask=randn(N, N).requires_grad_())


def test_no_values(device, randn):
    inputs = [randn(2, N, d, dtype=torch.float32).requires_grad_() for d in (D_K, D_K, 0)]
    for output in (
        blockwise_attention(*inputs, torch.ones(2, N, N, dtype=torch.bool, device=device)),
        sliding_window_attention(*inputs, window=3),
        block_sparse_attention(*inputs, LAYOUT.to(device), block_size=4),
    ):
        assert output.shape == (2, N, 0)
        gradients = torch.autograd.grad(output.sum(), inputs)
        assert [x.shape for x in gradients] == [x.shape for x in inputs]
