"""Functions of attention that a model calls by name, and how each of their calls is read."""

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.watching.call import FUSED, Call, four_axes
from attnref.watching.operators import call_of

_MOST = 2**22  # pairs of which a mask is made
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
INTERFACE = "transformers.modeling_utils"


class Function(NamedTuple):
    """A function of attention: where it is, and what its arguments say.

    What runs ``apart`` brings operators that no other mode may see; one that ``hands_on`` calls
    another, which is heard in its place.
    """

    place: str
    read: Callable[[Mapping[str, Any], Any], Call]
    apart: bool = False
    hands_on: bool = False


def _fused(given: Mapping[str, Any], output: Any) -> Call:
    query, key, value = (four_axes(given[name]) for name in ("query", "key", "value"))
    call = call_of(FUSED, (query, key, value))
    call.attn_mask, call.scale = given.get("attn_mask"), given.get("scale")
    call.is_causal = bool(given.get("is_causal", False))
    call.dropout = float(given.get("dropout_p", 0.0))
    call.enable_gqa = bool(given.get("enable_gqa", False))
    call.output = four_axes(output)
    return call


def _flexible(given: Mapping[str, Any], output: Any) -> Call:
    call = call_of("flex_attention", (given["query"], given["key"], given["value"]))
    call.scale, call.enable_gqa = given.get("scale"), bool(given.get("enable_gqa"))
    call.attn_mask = _dense(given.get("block_mask"), call)
    hidden = given.get("block_mask") is None or call.attn_mask is not None
    call.known = given.get("score_mod") is None and hidden
    call.output = output[0] if isinstance(output, tuple) else output
    call.kernel = "flex"
    return call


def _dense(block_mask: Any, call: Call) -> Tensor | None:
    """The mask that a function of positions makes, if the pairs are not too many."""
    b, h, n, m = call.sizes
    if block_mask is None or not hasattr(block_mask, "mask_mod") or n * m > _MOST:
        return None
    from torch.nn.attention.flex_attention import create_mask

    samples, heads = block_mask.shape[:2]
    sizes = (min(samples, b), min(heads, h), n, m)
    if math.prod(sizes) > _MOST:
        return None
    made: Tensor = create_mask(block_mask.mask_mod, *sizes, device=str(call.device))
    return made


def _beside(given: Mapping[str, Any], output: Any) -> Call:
    """FlashAttention's: (b, n, h, d), the last query beside the last key."""
    query, key, value = (given[name].transpose(1, 2) for name in ("q", "k", "v"))
    call = call_of("flash_attn_func", (query, key, value))
    call.scale, call.enable_gqa = given.get("softmax_scale"), True
    call.dropout, call.softcap = given.get("dropout_p", 0.0), given.get("softcap") or None
    _window(call, given.get("window_size", (-1, -1)), bool(given.get("causal")))
    call.output = (output[0] if isinstance(output, tuple) else output).transpose(1, 2)
    call.kernel = "flash"
    return call


def _packed(given: Mapping[str, Any], output: Any) -> Call:
    """Of packed sequences, (Σ n, h, d): the longest of them."""
    names = ("q", "k", "v") if "q" in given else ("query", "key", "value")
    starts, others = (given.get(f"cu_seqlens_{side}", given.get(f"cu_seq_{side}")) for side in "qk")
    others = starts if others is None else others
    number = int(starts.diff().argmax())
    parts = [slice(*x[number : number + 2].tolist()) for x in (starts, others, others)]
    query, key, value = (
        given[name][part].transpose(0, 1)[None] for name, part in zip(names, parts, strict=True)
    )
    call = call_of(
        "varlen_attn" if names[0] == "query" else "flash_attn_varlen_func", (query, key, value)
    )
    call.scale, call.enable_gqa = given.get("softmax_scale", given.get("scale")), True
    call.dropout, call.softcap = given.get("dropout_p", 0.0), given.get("softcap") or None
    _window(call, given.get("window_size", (-1, -1)), bool(given.get("causal")))
    result = output[0] if isinstance(output, tuple) else output
    call.output = result[parts[0]].transpose(0, 1)[None]
    call.known = given.get("block_table") is None
    call.kernel = "flash"
    return call


def _window(call: Call, window: tuple[int, int], causal: bool) -> None:
    """Notes which keys such a window leaves, where that is not all."""
    *_, n, m = call.sizes
    back, ahead = window
    ahead = 0 if causal else ahead
    if (back, ahead) == (-1, -1):
        return
    if back < 0 and not ahead and n == m:
        call.is_causal = True
    elif n * m <= _MOST:
        place = torch.arange(m) - (torch.arange(n)[:, None] + m - n)
        seen = (place >= -back if back >= 0 else place == place) & (
            place <= ahead if ahead >= 0 else place == place
        )
        call.attn_mask = seen.to(call.device)
    else:
        call.known = False


def _efficient(given: Mapping[str, Any], output: Any) -> Call:
    """xFormers': (b, n, h, d)."""
    query, key, value = (
        four_axes(given[name].transpose(1, -2)) for name in ("query", "key", "value")
    )
    call = call_of("memory_efficient_attention", (query, key, value))
    mask = given.get("attn_bias")
    call.attn_mask = mask if isinstance(mask, Tensor) else None
    call.known = mask is None or isinstance(mask, Tensor)
    call.dropout, call.scale = float(given.get("p", 0.0)), given.get("scale")
    call.output = four_axes(output.transpose(1, -2))
    call.kernel = "xformers"
    return call


def _interface(given: Mapping[str, Any], output: Any) -> Call:
    """The interface of Transformers: query (b, h, n, d), output (b, n, h, d)."""
    inputs = (given["query"], given["key"], given["value"])
    module, options = given["module"], {**given.get("kwargs", {}), **given}
    if isinstance(options.get("attention_mask"), Tensor) and options["attention_mask"].dim() == 2:
        options["attention_mask"] = options["attention_mask"][:, None, None].bool()  # of keys
    call = call_of("attention_interface", inputs)
    mask, n = options.get("attention_mask"), inputs[0].shape[-2]
    call.attn_mask = mask if isinstance(mask, Tensor) or mask is None else _dense(mask, call)
    if isinstance(call.attn_mask, Tensor):
        call.attn_mask = call.attn_mask[..., : inputs[1].shape[-2]]
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    call.is_causal = bool(causal) and mask is None and n > 1
    call.scale, call.softcap = options.get("scaling"), options.get("softcap")
    call.dropout = float(options.get("dropout") or 0.0)
    call.sink = options.get("s_aux")
    call.enable_gqa = True
    bias = options.get("position_bias")
    call.known = bias is None and (mask is None or isinstance(call.attn_mask, Tensor))
    call.output = output[0].transpose(1, 2)
    return call


FUNCTIONS = (
    Function("torch.nn.functional:scaled_dot_product_attention", _fused),
    Function("torch.nn.attention.flex_attention:flex_attention", _flexible, apart=True),
    Function("torch.nn.attention.varlen:varlen_attn", _packed),
    Function("flash_attn:flash_attn_func", _beside),
    Function("flash_attn:flash_attn_varlen_func", _packed),
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


# Those hand their tensors on to a function that is heard, or write attention out.
_HAND_ON = ("sdpa", "paged|eager")


def interface(name: str) -> Function | None:
    """How an entry of that interface is heard, None if what it calls is heard instead."""
    if name in _HAND_ON:
        return None
    return Function(
        f"{INTERFACE}:{name}", _interface, apart=name == "flex_attention", hands_on=True
    )


def bind(function: Callable[..., Any], args: Any, kwargs: Any) -> Mapping[str, Any] | None:
    """The arguments by name, None where they do not fit."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # written in C, as PyTorch's own
        return {**dict(zip(_SDPA, args, strict=False)), **kwargs}
    except TypeError:
        return None
    return bound.arguments
