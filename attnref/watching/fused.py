"""Attention that PyTorch computes in one operator: kernels, and whole layers of an encoder."""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from attnref.watching.call import FUSED, LAYER, MATH, Call, Inputs, call_of, four_axes

_aten = torch.ops.aten

# What computes a fused attention, by the names that people know.
_NAMES = {
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "fused",
    "_scaled_dot_product_attention_math_for_mps": "math",
    "_flash_attention_forward": "flash",
    "_efficient_attention_forward": "efficient",
}
KERNELS = {getattr(_aten, name): kernel for name, kernel in _NAMES.items() if hasattr(_aten, name)}
# These take (b, n, h, d), or (Σ n, h, d) of packed sequences.
_TOKENS_FIRST = {getattr(_aten, name, None) for name in list(_NAMES)[-2:]}
LAYERS = {_aten._transformer_encoder_layer_fwd, _aten._native_multi_head_attention}


def _arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operator by name."""
    given: dict[str, Any] = {each.name: each.default_value for each in func._schema.arguments}
    return {**given, **dict(zip(given, args, strict=False)), **kwargs}


def kernel_call(func: Any, args: Any, kwargs: Any, output: Any) -> Call:
    """A fused kernel that was reached under a name that nobody knows."""
    given = _arguments(func, args, kwargs)
    output = output[0] if isinstance(output, tuple) else output
    query, key, value = (given["query"], given["key"], given["value"])
    if func.overloadpacket in _TOKENS_FIRST:
        query, key, value, output = (
            four_axes(x.transpose(-3, -2)) for x in (query, key, value, output)
        )
    call = call_of(FUSED, (query, key, value))
    call.mask = next((given[x] for x in ("attn_mask", "attn_bias", "bias") if x in given), None)
    call.is_causal, call.scale = bool(given.get("is_causal")), given.get("scale")
    call.dropout = float(given.get("dropout_p") or 0.0)
    call.output, call.kernel = output, KERNELS[func.overloadpacket]
    # Where packed sequences begin, and which keys are near enough, is not read.
    beyond = ("cum_seq_q", "cu_seqlens_q", "window_size_left", "custom_mask_type")
    call.known = not any(given.get(each) for each in beyond if given.get(each) is not None)
    return call


def layer_call(func: Any, args: Any, kwargs: Any, output: Any) -> Call:
    """A whole encoder layer, or its attention, of which neither weights nor heads come out."""
    given = _arguments(func, args, kwargs)
    source = given.get("src", given.get("query"))
    heads = given.get("num_heads", given.get("num_head"))
    assert isinstance(source, Tensor)
    assert isinstance(heads, int)
    after = output[0] if isinstance(output, tuple) else output
    lengths = None
    if source.is_nested:  # as padding would have it
        lengths = torch.tensor([len(each) for each in source.unbind()])
        source, after = (x.to_padded_tensor(0.0) if x.is_nested else x for x in (source, after))
    b, n, width = source.shape
    shape = torch.Size((b, heads, n, width // heads))

    @functools.cache
    def inputs() -> Inputs:
        x = source
        if given.get("norm_first"):
            norm = (given["norm_weight_1"], given["norm_bias_1"], given["eps"])
            x = layer_norm(x, x.shape[-1:], *norm)
        made = linear(x, given["qkv_weight"], given["qkv_bias"])
        q, k, v = (y.view(*y.shape[:-1], heads, -1).transpose(1, 2) for y in made.chunk(3, -1))
        return q, k, v

    call = Call("", LAYER, inputs, (shape, shape, shape), source.dtype, source.device)
    call.after = after
    mask = given.get("mask")
    if lengths is not None:
        call.mask = (torch.arange(n) < lengths[:, None])[:, None, None].to(source.device)
    elif isinstance(mask, Tensor):  # True hides
        hides = mask if mask.dtype == torch.bool else mask != 0
        call.mask = ~hides[:, None, None] if given.get("mask_type") == 1 else ~hides
    call.kernel = MATH if lengths is None else "nested"
    return call
