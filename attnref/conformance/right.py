"""A right function that offers everything: what a property must never fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref import masks
from attnref.conformance.difference import Difference
from attnref.conformance.formula import PLAIN
from attnref.conformance.reading import Reading
from attnref.conformance.recurrence import Recurrence
from attnref.conformance.step import StepSubject, right_step
from attnref.conformance.subject import Subject, subject
from attnref.conformance.trial import Trial
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
    sink: Tensor | None = None,
    key_lengths: Tensor | None = None,
) -> Tensor:
    """:func:`attnref.scaled_dot_product_attention`, with more kinds of masks, for bool ones."""
    if window is not None:
        n, m = query.shape[-2], key.shape[-2]
        seen = masks.sliding_window(
            n, m, window=window, alignment="top-left", is_causal=True
        ).dense(query.device)
        attn_mask = seen if attn_mask is None else attn_mask & seen
    if key_lengths is not None:
        j, n = torch.arange(key.shape[-2], device=query.device), query.shape[-2]
        lengths = key_lengths[:, None, None, None]
        seen = j < lengths
        if is_causal:
            seen = seen & (j <= torch.arange(n, device=query.device)[:, None] + lengths - n)
        attn_mask, is_causal = seen if attn_mask is None else attn_mask & seen, False
    given = (attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return scaled_dot_product_attention(query, key, value, *given, softcap=softcap, sink=sink)


RIGHT: Subject = subject(attention)


def right_subject(about: Subject) -> Subject:
    """It, or the same with causality that cannot be switched off, and with what is its own."""
    formula = about.reading.formula
    if about.reference is not None:
        return replace(about, function=_computing(about))
    if formula == PLAIN:
        return match_causality(about, RIGHT)
    measured = Trial(about, torch.float32, torch.device("cpu"))

    def own(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        setting = measured.own_setting(query, key)
        turn, bias, seen = (setting.pop(name, None) for name in ("turn", "bias", "seen"))
        if turn is not None:
            query, key = turn(query), turn(key)
        mask = options.get("attn_mask")
        if bias is not None:
            mask = _both(mask, bias.to(query.dtype))
        options["attn_mask"] = mask if seen is None else _both(mask, seen.to(query.device))
        if formula.sink:
            options["sink"] = setting["sink"].to(query)
        if options.get("scale") is None:
            options["scale"] = setting.get("scale")
        output: Tensor = RIGHT.function(query, key, value, **options)
        return output

    return match_causality(about, replace(RIGHT, function=own, reading=Reading(formula=formula)))


def _computing(about: Subject) -> Callable[..., Tensor]:
    """The reference, which gets what it knows, and answers in the dtype of the query."""

    def computing(query: Tensor, *tensors: Tensor, **options: Any) -> Tensor:
        trial = Trial(about, torch.float64, query.device)
        options.pop("changed", None)  # of packed sequences, which others' are not
        doubles = [x.double() for x in (query, *tensors)]
        given = {
            name: each.double() if isinstance(each, Tensor) and each.is_floating_point() else each
            for name, each in options.items()
        }
        known = given if isinstance(about.reference, Recurrence) else options
        if isinstance(about.reference, Difference):
            known = {name: each for name, each in options.items() if name not in about.extras}
            known |= {"is_causal": True} if about.always_causal else {}
        output: Tensor = trial.reference(query)(*doubles, **known)
        answer: Tensor = output.to(query.dtype)
        return answer

    return computing


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    """A mask that says what two of them say."""
    if one is None:
        return other
    if one.dtype == other.dtype == torch.bool:
        return one & other
    numbers, bools = (one, other) if other.dtype == torch.bool else (other, one)
    return numbers + bools if bools.is_floating_point() else numbers.masked_fill(~bools, -torch.inf)


def match_causality(about: Subject, other: Subject) -> Subject:
    """``other``, causal as ``about`` is."""
    if isinstance(about, StepSubject):
        return right_step(other)
    if not about.always_causal:
        return other

    def causal_attention(*tensors: Tensor, **options: Any) -> Tensor:
        output: Tensor = other.function(*tensors, **{**options, "is_causal": True})
        return output

    reading = replace(other.reading, causal=True)
    return replace(other, function=causal_attention, reading=reading)
