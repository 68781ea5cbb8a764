"""The form in which the models of Hugging Face call the attention that they are given."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

PARAMETERS = ["module", "query", "key", "value"]
SINKS = {"module.sinks": "the lowest number"}
"""What is given for a sink of each head, beside which plain attention is left."""


class _Layer(torch.nn.Module):
    """What such a function reads off the layer that it belongs to."""

    is_causal = False

    def __init__(self, query: Any, groups: int, sink: Any, *, training: bool) -> None:
        super().__init__()
        self.num_key_value_groups = groups
        none = query.new_full((query.shape[1],), torch.finfo(query.dtype).min)
        self.sinks = none if sink is None else sink
        self.train(training)


def has_sinks(function: Callable[..., Any]) -> bool:
    """Whether it reads a learned sink for each head off its layer."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and "sinks" in code.co_names


def adapt_interface(
    function: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    """It without the layer, given the factor; its output has the axes ``LAYOUT``."""

    def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
        if "scaling" in signature.parameters and options.get("scaling") is None:
            options["scaling"] = query.shape[-1] ** -0.5
        if "attention_mask" in signature.parameters:
            options.setdefault("attention_mask", None)
        options.pop("enable_gqa", None)
        groups = query.shape[1] // max(1, key.shape[1])
        training = bool(options.get("dropout"))  # else it would drop nothing
        layer = _Layer(query, groups, options.pop("sink", None), training=training)
        output, *rest = function(layer, query, key, value, **options)
        return (output, *rest)

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    parameters = [
        each.replace(default=None) if number > 2 and each.kind is not each.VAR_KEYWORD else each
        for number, each in enumerate(list(signature.parameters.values())[1:])
    ]
    if has_sinks(function):  # what it reads off its layer is an option, too
        sink = inspect.Parameter("sink", inspect.Parameter.KEYWORD_ONLY, default=None)
        parameters = sorted([*parameters, sink], key=lambda each: each.kind)
    attention.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return attention
