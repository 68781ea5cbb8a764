"""What a function takes, as its signature has it, or as it answers where it has none."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

# What a function may offer beside query, key and value.
OPTIONS = ("attn_mask", "is_causal", "scale", "enable_gqa", "dropout_p", "softcap", "window")
# What others call them. Such a parameter is pointed out, not used: a mask may mean the opposite.
SYNONYMS = {
    "attn_mask": ("mask", "attention_mask", "attn_bias", "bias"),
    "is_causal": ("causal", "use_causal_mask"),
    "scale": ("scaling", "scale_factor", "softmax_scale", "sm_scale"),
    "enable_gqa": (),
    "dropout_p": ("dropout", "p_dropout", "dropout_rate"),
    "softcap": ("soft_cap", "logits_soft_cap"),
    "window": ("window_size", "sliding_window"),
}


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for functions written in C, most of which have none."""
    if isinstance(function, torch.jit.ScriptFunction):
        return _scripted(function)
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called)
    except (ValueError, TypeError):
        return None


def _scripted(function: Any) -> inspect.Signature:
    """That of a compiled function, which its schema knows, and it itself does not."""
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
            for argument in function.schema.arguments
        ]
    )


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
