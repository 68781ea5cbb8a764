"""Functions of attention that a model calls by name, and how each of their calls is read."""

import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.watching.call import FUSED, Call, call_of, four_axes

_MOST = 2**22  # pairs of which a mask is made
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
INTERFACE = "transformers.modeling_utils"
Given = Mapping[str, Any]


class Function(NamedTuple):
    """A function of attention: where it is, and what its arguments say.

    What runs ``apart`` brings operators that no other mode may see; one that ``hands_on`` calls
    another, which is recorded in its place.
    """

    place: str
    read: Callable[[Given, Any], Call]
    apart: bool = False
    hands_on: bool = False


def _fused(given: Given, output: Any) -> Call:
    tensors = (given["query"], given["key"], given["value"], output)
    if tensors[0].is_nested:  # the longest of its sequences
        lengths = [x.shape[-2] for x in tensors[0].unbind()]
        tensors = tuple(x.unbind()[lengths.index(max(lengths))] for x in tensors)
    query, key, value, output = map(four_axes, tensors)
    call = call_of(FUSED, (query, key, value))
    call.mask, call.scale = given.get("attn_mask"), given.get("scale")
    call.is_causal = bool(given.get("is_causal", False))
    call.dropout = float(given.get("dropout_p", 0.0))
    call.output = output
    return call


def _flexible(given: Given, output: Any) -> Call:
    call = call_of("flex_attention", (given["query"], given["key"], given["value"]))
    call.scale = given.get("scale")
    _of_positions(call, given.get("block_mask"))
    call.known = call.known and given.get("score_mod") is None
    call.output = output[0] if isinstance(output, tuple) else output
    call.kernel = "flex"
    return call


def _of_positions(call: Call, block_mask: Any) -> None:
    """The mask that a function of positions makes, if the pairs are not too many."""
    if block_mask is None:
        return
    b, h, n, m = call.sizes
    samples, heads = getattr(block_mask, "shape", (b, h))[:2]
    sizes = (min(samples, b), min(heads, h), n, m)
    if hasattr(block_mask, "mask_mod") and math.prod(sizes) <= _MOST:
        call.mask = functools.partial(_dense, block_mask.mask_mod, sizes, str(call.device))
        call.source = block_mask
    else:
        call.known = False


def _dense(allowed: Callable[..., Tensor], sizes: tuple[int, int, int, int], device: str) -> Tensor:
    from torch.nn.attention.flex_attention import create_mask

    made: Tensor = create_mask(allowed, *sizes, device=device)
    return made


def _beside(given: Given, output: Any) -> Call:
    """FlashAttention's: (b, n, h, d), the last query beside the last key."""
    if "qkv" in given:
        tensors = given["qkv"].unbind(2)
    elif "kv" in given:
        tensors = (given["q"], *given["kv"].unbind(2))
    else:
        tensors = tuple(given[name] for name in "qkv")
    query, key, value = (x.transpose(1, 2) for x in tensors)
    call = call_of("flash_attn_func", (query, key, value))
    call.output = (output[0] if isinstance(output, tuple) else output).transpose(1, 2)
    return _flash(call, given)


def _cached(given: Given, output: Any) -> Call:
    """FlashAttention's on a cache (b, m, h, d), of which a sample uses its first keys."""
    query, key, value = (given[name].transpose(1, 2) for name in ("q", "k_cache", "v_cache"))
    lengths, new = given.get("cache_seqlens"), given.get("k")
    if lengths is not None:
        added = 0 if new is None else new.shape[1]
        most = int(lengths.max()) if isinstance(lengths, Tensor) else lengths
        key, value = (x[:, :, : most + added] for x in (key, value))
    call = call_of("flash_attn_with_kvcache", (query, key, value))
    call.output = (output[0] if isinstance(output, tuple) else output).transpose(1, 2)
    call = _flash(call, given)
    if isinstance(lengths, Tensor) and lengths.numel() > 1 and bool((lengths != lengths[0]).any()):
        call.known = False  # each sample has a diagonal of its own
    return call


def _packed(given: Given, output: Any) -> Call:
    """Of packed sequences, (Σ n, h, d): the longest of them."""
    names = ("q", "k", "v") if "q" in given else ("query", "key", "value")
    starts, others = (given.get(f"cu_seqlens_{side}", given.get(f"cu_seq_{side}")) for side in "qk")
    others = starts if others is None else others
    number = int(starts.diff().argmax())
    parts = [slice(*x[number : number + 2].tolist()) for x in (starts, others, others)]
    query, key, value = (
        given[name][part].transpose(0, 1)[None] for name, part in zip(names, parts, strict=True)
    )
    name = "varlen_attn" if names[0] == "query" else "flash_attn_varlen_func"
    call = call_of(name, (query, key, value))
    result = output[0] if isinstance(output, tuple) else output
    call.output = result[parts[0]].transpose(0, 1)[None]
    return _flash(call, given)


# What says nothing of the numbers, or is read; any other option may change them.
_READ = frozenset(
    (
        *("q", "k", "v", "qkv", "kv", "query", "key", "value", "k_cache", "v_cache", "out"),
        *("cu_seqlens_q", "cu_seqlens_k", "cu_seq_q", "cu_seq_k", "cache_seqlens"),
        *("max_seqlen_q", "max_seqlen_k", "max_q", "max_k", "enable_gqa"),
        *("dropout_p", "softmax_scale", "scale", "causal", "is_causal", "window_size", "softcap"),
        *("deterministic", "return_attn_probs", "return_softmax_lse", "return_aux"),
        *("num_splits", "pack_gqa", "sm_margin"),
    )
)


def _flash(call: Call, given: Given) -> Call:
    call.scale = given.get("softmax_scale", given.get("scale"))
    call.dropout, call.softcap = given.get("dropout_p", 0.0), given.get("softcap") or None
    back, ahead = given.get("window_size", (-1, -1))
    _window(call, back, 0 if given.get("causal") or given.get("is_causal") else ahead)
    unread = [x for name, x in given.items() if name not in _READ]
    call.known = call.known and not any(isinstance(x, Tensor) or bool(x) for x in unread)
    call.kernel = "flash"
    return call


def _window(call: Call, back: int, ahead: int) -> None:
    """So many keys back and ahead, -1 being all; the last query lies beside the last key."""
    *_, n, m = call.sizes
    if (back, ahead) == (-1, -1):
        return
    if back < 0 and not ahead and n == m:
        call.is_causal = True
    elif n * m <= _MOST:
        call.mask = functools.partial(_band, n, m, back, ahead, call.device)
    else:
        call.known = False


def _band(n: int, m: int, back: int, ahead: int, device: torch.device) -> Tensor:
    place = torch.arange(m) - (torch.arange(n)[:, None] + m - n)
    seen = torch.ones(n, m, dtype=torch.bool)
    if back >= 0:
        seen &= place >= -back
    if ahead >= 0:
        seen &= place <= ahead
    return seen.to(device)


def _efficient(given: Given, output: Any) -> Call:
    """xFormers': (b, n, h, d), or (b, n, d)."""

    def heads(x: Tensor) -> Tensor:
        return x[:, None] if x.dim() == 3 else x.flatten(2, -2).transpose(1, 2)

    query, key, value = (heads(given[name]) for name in ("query", "key", "value"))
    call = call_of("memory_efficient_attention", (query, key, value))
    bias = given.get("attn_bias")
    if bias is not None and not isinstance(bias, Tensor):
        call.known = hasattr(bias, "materialize") and math.prod(call.sizes) <= _MOST
        call.mask = functools.partial(_materialized, bias, call) if call.known else None
        call.source = bias
    else:
        call.mask = bias
    call.dropout, call.scale = float(given.get("p", 0.0)), given.get("scale")
    call.output = heads(output)
    call.kernel = "xformers"
    return call


def _materialized(bias: Any, call: Call) -> Tensor:
    made: Tensor = bias.materialize(call.sizes, dtype=torch.float32, device=call.device)
    return made


def _interface(given: Given, output: Any, *, flash: bool = False) -> Call:
    """The interface of Transformers: query (b, h, n, d), output (b, n, h, d)."""
    named = {**given, **given.get("kwargs", {})}
    # The first five come in order; what they are called is the function's.
    first = [x for name, x in given.items() if name != "kwargs"]
    module, query, key, value, mask = [*first, None][:5]
    call = call_of("attention_interface", (query, key, value))
    n, m = query.shape[-2], key.shape[-2]
    causal = named.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
    if flash:
        back = named.get("sliding_window")
        _window(call, -1 if back is None else back - 1, 0 if causal and n > 1 else -1)
    if isinstance(mask, Tensor) and mask.dim() == 2:  # of keys
        mask = mask[:, None, None].bool()
    if isinstance(mask, Tensor):
        mask, window = mask[..., :m], call.mask
        call.mask = functools.partial(_both, window, mask) if callable(window) else mask
    elif mask is not None:
        _of_positions(call, mask)
    elif not flash:
        call.is_causal = causal and n > 1
    call.scale, call.softcap = named.get("scaling"), named.get("softcap")
    call.dropout = float(named.get("dropout") or 0.0)
    call.sink = named.get("s_aux")
    beyond = ("position_bias", "cu_seq_lens_q", "position_ids" if flash else "")
    call.known = call.known and all(named.get(each) is None for each in beyond)
    call.output = output[0].transpose(1, 2)
    return call


def _both(window: Callable[[], Tensor | None], mask: Tensor) -> Tensor | None:
    band = window()
    return band if band is None else band & mask


_FLASH = "flash_attn:flash_attn"
FUNCTIONS = (
    Function("torch.nn.functional:scaled_dot_product_attention", _fused),
    Function("torch.nn.attention.flex_attention:flex_attention", _flexible, apart=True),
    Function("torch.nn.attention.varlen:varlen_attn", _packed),
    Function(f"{_FLASH}_func", _beside),
    Function(f"{_FLASH}_qkvpacked_func", _beside),
    Function(f"{_FLASH}_kvpacked_func", _beside),
    Function(f"{_FLASH}_with_kvcache", _cached),
    Function(f"{_FLASH}_varlen_func", _packed),
    Function("flash_attn_interface:flash_attn_func", _beside),
    Function("flash_attn_interface:flash_attn_with_kvcache", _cached),
    Function("flash_attn_interface:flash_attn_varlen_func", _packed),
    Function("xformers.ops:memory_efficient_attention", _efficient),
)


def known_functions() -> Iterator[tuple[Callable[..., Any], Function]]:
    """Those that are there, of libraries that are loaded."""
    for each in FUNCTIONS:
        module, _, name = each.place.partition(":")
        if module.startswith("torch.nn.functional") or module in sys.modules:
            found = getattr(importlib.import_module(module), name, None)
            if found is not None:
                yield found, each


def interfaces() -> dict[str, Callable[..., Any]]:
    """The attention functions of Transformers by name, a dictionary that its models read."""
    module = sys.modules.get(INTERFACE)
    found = getattr(module, "ALL_ATTENTION_FUNCTIONS", None)
    mapping: dict[str, Callable[..., Any]] = getattr(found, "_global_mapping", {})
    return mapping


# Those hand their tensors on to a function that is recorded, or write attention out.
_HAND_ON = ("sdpa", "paged|eager")


def interface(name: str) -> Function | None:
    """How an entry of that interface is read, None if what it calls is read instead."""
    if name in _HAND_ON:
        return None
    read = functools.partial(_interface, flash="flash" in name)
    return Function(f"{INTERFACE}:{name}", read, apart=name == "flex_attention", hands_on=True)


def bind(function: Callable[..., Any], args: Any, kwargs: Any) -> Mapping[str, Any] | None:
    """The arguments by name, None where they do not fit."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # written in C, as PyTorch's own
        return {**dict(zip(_SDPA, args, strict=False)), **kwargs}
    except TypeError:
        return None
    return bound.arguments
