"""A right function that offers everything: what a property must never fail."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from attnref import masks
from attnref.conformance.step import StepSubject, right_step
from attnref.conformance.subject import Factor, Subject, subject
from attnref.reference import scaled_dot_product_attention


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    window: int | None = None,
) -> Tensor:
    """:func:`attnref.scaled_dot_product_attention`, with a causal window for bool masks."""
    if window is not None:
        n, m = query.shape[-2], key.shape[-2]
        seen = masks.sliding_window(
            n, m, window=window, alignment="top-left", is_causal=True
        ).dense(query.device)
        attn_mask = seen if attn_mask is None else attn_mask & seen
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, softcap=softcap
    )


RIGHT: Subject = subject(attention)


def right_subject(about: Subject) -> Subject:
    """It, or the same with causality that cannot be switched off, and with a factor of its own."""
    return match_causality(about, RIGHT if about.factor is None else _multiplying(about.factor))


def _multiplying(factor: Factor) -> Subject:
    def multiplying(query: Tensor, *tensors: Tensor, **options: Any) -> Tensor:
        if options.get("scale") is None:
            options["scale"] = factor.value(query.shape[-1])
        output: Tensor = RIGHT.function(query, *tensors, **options)
        return output

    return replace(RIGHT, function=multiplying, factor=factor)


def match_causality(about: Subject, other: Subject) -> Subject:
    """``other``, causal as ``about`` is."""
    if isinstance(about, StepSubject):
        return right_step(other)
    if not about.always_causal:
        return other

    def causal_attention(*tensors: Tensor, **options: Any) -> Tensor:
        output: Tensor = other.function(*tensors, **{**options, "is_causal": True})
        return output

    return replace(other, function=causal_attention, always_causal=True)
