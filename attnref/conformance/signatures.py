"""What a function takes, as its signature has it, or as it answers where it has none."""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

# What a function may offer beside query, key and value.
OPTIONS = (
    *("attn_mask", "is_causal", "scale", "enable_gqa", "dropout_p", "softcap", "window"),
    *("sink", "key_lengths"),
)
# What others call them. Such a parameter is pointed out, not used: a mask may mean the opposite.
OF_KEYS = ("key_mask", "key_padding_mask", "padding_mask")  # masks that hide keys of all queries
SYNONYMS = {
    "attn_mask": (
        *("mask", "attention_mask", "attn_bias", "bias"),
        *OF_KEYS,
    ),
    "is_causal": ("causal", "use_causal_mask"),
    "scale": ("scaling", "scale_factor", "softmax_scale", "sm_scale"),
    "enable_gqa": (),
    "dropout_p": ("dropout", "p_dropout", "dropout_rate"),
    "softcap": ("soft_cap", "logits_soft_cap"),
    "window": ("window_size", "sliding_window"),
    "sink": ("sinks", "s_aux", "attention_sinks", "attn_sink", "learnable_sink", "sink_logits"),
    "key_lengths": (
        *("nonpad_kv_seqlen", "seqused_k", "kv_seqlens", "seqlens_k", "seq_lens_kv", "kv_lens"),
        *("kv_lengths", "actual_seq_lengths_kv", "valid_lens", "kv_seq_lens"),
    ),
}


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for functions written in C, most of which have none."""
    schema = _schema(function)
    if schema is not None:
        return _read_schema(schema)
    if hasattr(function, "__nb_signature__"):  # of nanobind, a text for each way to call it
        return _read_text(function.__nb_signature__[0][0])
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called)
    except (ValueError, TypeError):
        return None


def _schema(function: Any) -> Any:
    """What PyTorch knows of a compiled function, or of an operator; None of others."""
    if isinstance(function, torch.jit.ScriptFunction):
        return function.schema
    function = getattr(function, "_opoverload", function)  # of torch.library.custom_op
    if isinstance(function, torch._ops.OpOverloadPacket):
        first, *_ = function.overloads()  # type: ignore[no-untyped-call]
        function = getattr(function, first)
    return function._schema if isinstance(function, torch._ops.OpOverload) else None


def _read_schema(schema: Any) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                argument.name,
                inspect.Parameter.KEYWORD_ONLY
                if argument.kwarg_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value
                if argument.has_default_value()
                else inspect.Parameter.empty,
            )
            for argument in schema.arguments
        ]
    )


def _read_text(text: str) -> inspect.Signature:
    """That of a definition without a body; what has a default value has None.

    Examples:
        >>> _read_text("def attend(q: array, k: array, v: array, *, scale: float, mask=0) -> array")
        <Signature (q, k, v, *, scale, mask=None)>
    """
    defined = ast.parse(f"{text}: ...").body[0]
    assert isinstance(defined, ast.FunctionDef)
    given = defined.args
    positional = [*given.posonlyargs, *given.args]
    some = len(positional) - len(given.defaults)  # the last ones have them
    parameters = [
        inspect.Parameter(
            each.arg,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if place < some else None,
        )
        for place, each in enumerate(positional)
    ]
    parameters += [
        inspect.Parameter(
            each.arg,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is None else None,
        )
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return inspect.Signature(parameters)


def options_taken(function: Callable[..., Any]) -> tuple[str, ...]:
    """Which options a function without a signature takes: it is called with each of them.

    A TypeError says no. Any other answer, errors of the small inputs included, is about the
    value and not about the name.
    """
    tensor = torch.zeros(1, 1, 2, 8)
    neutral: dict[str, object] = {
        "attn_mask": torch.ones(2, 2, dtype=torch.bool),
        "is_causal": False,
        "scale": 1.0,
        "enable_gqa": False,
        "dropout_p": 0.0,
        "softcap": 1.0,
        "window": 2,
        "sink": torch.zeros(1),
        "key_lengths": torch.full((1,), 2),
    }
    taken = []
    for option in OPTIONS:
        try:
            function(tensor, tensor, tensor, **{option: neutral[option]})
        except TypeError:
            continue
        except Exception:
            pass
        taken.append(option)
    return tuple(taken)


def rename_options(function: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """The function with options of our names, given its own for them."""
    if not names:
        return function

    def attention(*tensors: Any, **options: Any) -> Any:
        return function(*tensors, **{names.get(name, name): options[name] for name in options})

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    return attention


def unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """What lies under partial functions and wrappers."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function
