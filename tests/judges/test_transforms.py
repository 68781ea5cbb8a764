"""PyTorch as a judge of the reference's derivatives, and of what its transforms make of it.

Everything runs in float64, where two right programs differ by some 1e-15 and a wrong one by
thousandths: the bound 1e-12 lies far from both.
"""

import math
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap
from torch.utils import cpp_extension

from attnref import attend, attention_weights, scaled_dot_product_attention
from tests.variants.every import every

close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-12)
INF, NAN = math.inf, math.nan


def bool_mask(*shape: int, device: torch.device) -> Tensor:
    """Some pairs forbidden, and everything forbidden to query 1."""
    mask = torch.arange(math.prod(shape), device=device).reshape(shape) % 3 != 0
    mask[..., 1, :] = False
    return mask


def everything(*args: Tensor, **options) -> tuple[Tensor, ...]:
    """Output, weights and log-sum-exp, which is -inf, without a slope, in a row without keys."""
    output, weights, lse = attend(*args, **options)
    return output, weights, lse.masked_fill(lse == -INF, 0.0)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    ("masking", "softcap"),
    [("none", 1.3), ("causal", None), ("bool", 1.3), ("float", None), ("float and causal", 1.3)],
)
def test_derivatives(check, masking, softcap, device, randn):
    """First and second derivatives against difference quotients, rows without keys included."""
    query, key, value = randn(1, 2, 3, 2), randn(1, 1, 5, 2), randn(1, 1, 5, 3)
    options = {"softcap": softcap, "is_causal": "causal" in masking, "enable_gqa": True}
    inputs = [query, key, value]
    if masking == "bool":
        options["attn_mask"] = bool_mask(1, 3, 5, device=device)
    elif "float" in masking:
        inputs.append(randn(3, 5).masked_fill(~bool_mask(3, 5, device=device), -INF))
    assert check(partial(everything, **options), [x.requires_grad_() for x in inputs])


# Forward mode loads decompositions that PyTorch compiles by its own deprecated means.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_forward_mode_agrees_with_backward_mode(device, randn):
    key, value, mask = randn(7, 3), randn(7, 2), bool_mask(5, 7, device=device)
    attend = partial(everything, key=key, value=value, attn_mask=mask, softcap=2.0)
    query = randn(5, 3)
    for forward, backward in zip(jacfwd(attend)(query), jacrev(attend)(query), strict=True):
        close(forward, backward)


VMAPPED = {
    "everything": (0, 0, 0, 0),
    "masks": (None, None, None, 0),
    "queries": (0, None, None, None),
    "keys": (None, 0, None, None),
    "values": (None, None, 0, None),
}


@every("over", VMAPPED)
@every("kind", ["bool", "float"])
def test_vmap_is_a_loop(over, kind, device, randn):
    tensors = [randn(7, 6, 3, 2), randn(7, 2, 5, 2), randn(7, 2, 5, 3)]
    mask = bool_mask(7, 3, 5, device=device)
    if kind == "float":
        mask = randn(7, 3, 5).masked_fill(~mask, -INF)
    dims = VMAPPED[over]
    args = [x if dim == 0 else x[0] for x, dim in zip([*tensors, mask], dims, strict=True)]
    attend = partial(everything, enable_gqa=True, softcap=2.0)
    found = vmap(attend, in_dims=dims)(*args)
    for i in range(7):
        single = attend(*(x[i] if dim == 0 else x for x, dim in zip(args, dims, strict=True)))
        for all_of_them, one in zip(found, single, strict=True):
            close(all_of_them[i], one)


CALLS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3, "softcap": 2.0},
    "grouped": {"enable_gqa": True},
    "bool": {"attn_mask": "bool"},
    "float and causal": {"attn_mask": "float", "is_causal": True, "softcap": 1.5},
    "dropout": {"dropout_p": 0.3},
}
# PyTorch's compiler, when it is loaded, uses parts of PyTorch that are deprecated.
compiler = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def compiled(function, **options):
    torch._dynamo.reset()  # a fresh count of graphs: PyTorch stops at eight for one function
    return torch.compile(function, fullgraph=True, **options)


def results(function, name: str, n: int, m: int, device: torch.device) -> list[Tensor]:
    """Outputs and gradients of one call; key 4 holds NaN behind ``attn_mask``, if there is one."""
    generator = torch.Generator(device).manual_seed(0)
    normal = partial(torch.randn, device=device, generator=generator, dtype=torch.float64)
    options = dict(CALLS[name])
    heads = 2 if "enable_gqa" in options else 6
    tensors = [normal(6, n, 5), normal(heads, m, 5), normal(heads, m, 3)]
    if "attn_mask" in options:
        mask = bool_mask(n, m, device=device)
        mask[:, 4] = False
        tensors[1][:, 4] = tensors[2][:, 4] = NAN
        if options["attn_mask"] == "float":
            mask = normal(n, m).masked_fill(~mask, -INF)
            tensors.append(mask)
        options["attn_mask"] = mask
    tensors = [x.requires_grad_() for x in tensors]
    torch.manual_seed(0)
    found = function(*tensors[:3], **options)
    found = found if isinstance(found, tuple) else (found,)
    (found[0].square().sum() + sum(part.exp().sum() for part in found[1:])).backward()
    return [*found, *(x.grad for x in tensors)]


def check_same(compiled, plain, name: str, n: int, m: int, device: torch.device) -> None:
    expected = results(plain, name, n, m, device)
    for ours, other in zip(expected, results(compiled, name, n, m, device), strict=True):
        assert not ours.isnan().any()
        close(other, ours)


@compiler
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("bool", attend),
        *(
            pytest.param(name, function, marks=pytest.mark.audit)
            for name in CALLS
            for function in (scaled_dot_product_attention, attend)
        ),
    ],
)
def test_one_graph_holds_the_whole_call(name, function, device):
    """Traced forwards and backwards without a break: no branch depends on data."""
    check_same(compiled(function, backend="aot_eager"), function, name, 7, 11, device)


@compiler
def test_one_graph_serves_all_shapes(device):
    plain = scaled_dot_product_attention
    found = compiled(plain, backend="aot_eager", dynamic=True)
    check_same(found, plain, "float and causal", 7, 11, device)
    with torch.compiler.set_stance("fail_on_recompile"):
        check_same(found, plain, "float and causal", 13, 5, device)


@compiler
@pytest.mark.audit
def test_the_compiler_gives_the_same_numbers(device, monkeypatch, tmp_path):
    # It passes on the folder of PyTorch's libraries unquoted, and a blank would make two of it.
    libraries = tmp_path / "lib"
    libraries.symlink_to(cpp_extension.TORCH_LIB_PATH)
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", str(libraries))
    check_same(compiled(attend, backend="inductor"), attend, "bool", 7, 11, device)


@compiler
@pytest.mark.audit
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_compile_in_half_precision(dtype, device, generator):
    query, key = torch.randn(2, 7, 5, device=device, generator=generator).to(dtype)
    found = compiled(attention_weights, backend="aot_eager")(query, key, is_causal=True)
    assert torch.equal(found, attention_weights(query, key, is_causal=True))
