"""How far methods are from exact: as PyTorch's own path, and in half precision by one rounding."""

import pytest
import torch

from attnref import variants
from attnref.record import Example
from tests.variants.every import every

METHODS = variants.records()
PLAIN = [name for name, method in METHODS.items() if method.plain is not None]
# Those leave the whole, or what they mix, to a kernel that rounds in between.
KERNEL = {"block_sparse", "blockwise", "kv_cache", "latent", "linformer", "varlen"}
ONCE = [name for name in METHODS if name not in KERNEL | {"quantized"}]


@pytest.mark.parametrize("name", PLAIN)
@every("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_the_budget(name, dtype, device, generator):
    """At most 1.5 times the error of PyTorch's own path, of values and gradients."""
    method, shape = METHODS[name], (1, 2, 257, 64)
    drawn = [torch.randn(shape, device=device, generator=generator).to(dtype) for _ in range(4)]
    *inputs, weight = drawn

    def both(function, *tensors, **options):
        tensors = [x.requires_grad_() for x in tensors]
        output = function(*tensors, **options)
        if method.adapted:  # whose gradients are added up token by token
            return [output]
        return [output, *torch.autograd.grad(output, tensors, weight.to(output.dtype))]

    kernel = torch.nn.functional.scaled_dot_product_attention
    said = {"is_causal": True} if method.takes("is_causal") else {}
    options = {"is_causal": bool(said) or (method.causal and not method.adapted)}
    doubles = [x.double() for x in inputs]
    exact, theirs = both(kernel, *doubles, **options), both(kernel, *inputs, **options)
    ours = both(method.as_definition(), *inputs, **said)
    for one, other, truth in zip(ours, theirs, exact, strict=True):
        assert one.dtype == dtype
        assert (one - truth).norm() <= 1.5 * (other - truth).norm()


@pytest.mark.parametrize("name", ONCE)
@every("dtype", [torch.bfloat16, torch.float16])
@every("is_causal", [False, True])
def test_half_precision_is_rounded_once(name, is_causal, dtype, randn):
    """Half a unit of the output, for what is between is computed in float32."""
    method = METHODS[name]
    arguments = method.arguments(Example(*(randn(2, 3, 13, d, dtype=dtype) for d in (6, 6, 4))))
    if is_causal and method.takes("is_causal"):
        arguments["is_causal"] = True
    wide = {
        which: one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for which, one in arguments.items()
    }
    found, exact = method.function(**arguments), method.function(**wide)
    assert found.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, rtol=0.51 * eps, atol=1e-5)
