"""What a step's signature says: its cache, in one or two parameters, and its position."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch

from attnref.conformance.program import watch
from attnref.conformance.signatures import SYNONYMS
from attnref.conformance.step import SIZES, Step, StepSubject, unroll
from attnref.conformance.subject import CheckError, subject

# What others call the cache,
CACHES = (
    *("cache", "past_key_value", "past_key_values", "layer_past", "kv_cache", "past", "state"),
)
# in two, of keys and of values,
PAIRS = (
    *(("k_cache", "v_cache"), ("key_cache", "value_cache"), ("cache_k", "cache_v")),
    *(("past_key", "past_value"), ("past_k", "past_v"), ("k_past", "v_past")),
)
# and what says where the new positions are.
POSITIONS = (
    *("input_pos", "cache_position", "position_ids", "positions", "position", "pos", "start_pos"),
    *("current_pos", "cache_seqlens", "cache_len", "cache_length", "past_length", "past_len"),
    *("seqlen_offset", "seq_len", "offset", "start", "index", "t"),
)
# Causality is what a step does by itself.
_NOT_OFFERED = ("is_causal", "key_lengths")


def step_subject(
    function: Callable[..., Any],
    cache: Callable[..., Any] | None = None,
    supports: Sequence[str] | None = None,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
    draws: Mapping[str, str] | None = None,
) -> StepSubject:
    """The step with what its signature says; ``cache`` makes the first cache.

    ``names`` are the step's own, as for :func:`subject`, and may name its ``cache`` and its
    ``position`` too.

    Raises:
        CheckError: when it cannot be called as ``step(query, key, value, cache)``.
    """
    if inspect.isclass(function) or not callable(function):
        subject(function)  # which says so
    watched = watch(function, name)
    name = name or getattr(function, "__qualname__", type(function).__name__)
    called = function.forward if isinstance(function, torch.nn.Module) else function
    signature = inspect.signature(called)
    names = dict(names or {})
    caches = _cache_of(signature, names.pop("cache", None), str(name))
    position = _position_of(signature, names.pop("position", None), str(name))
    _check_factory(cache)

    left = [each for each in signature.parameters if each not in (*caches, position)]
    if left[:3] != list(signature.parameters)[:3]:
        watched = _call_by_name(watched, left[:3])
    flags = ("is_causal", *SYNONYMS["is_causal"])
    flag = next((each for each in flags if each in signature.parameters), None)
    step = Step(watched, caches, cache, flag=flag, position=position)
    attention = unroll(step)
    attention.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[signature.parameters[each] for each in left if each != flag]
    )
    about = subject(attention, supports, name, names, draws=draws)
    held = {each.name: getattr(about, each.name) for each in fields(about)}
    for kind in ("supports", "swallowed"):
        held[kind] = tuple(option for option in held[kind] if option not in _NOT_OFFERED)
    held["overlooked"] = {
        option: each for option, each in about.overlooked.items() if option not in _NOT_OFFERED
    }
    empty = inspect.Parameter.empty
    counts = position is None or signature.parameters[position].default is not empty
    return StepSubject(**held, step=step, counts=counts)


def _call_by_name(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The step whose cache, or position, comes before a query, a key or a value."""

    @functools.wraps(function)
    def step(*tensors: Any, **others: Any) -> Any:
        return function(**dict(zip(names, tensors, strict=True)), **others)

    return step


def _check_parameter(signature: inspect.Signature, said: str, name: str) -> str:
    known = list(signature.parameters)
    if said not in known:
        raise CheckError(
            "map: {name} has no parameter {said!r}; it has {known}.",
            name=name,
            said=said,
            known=", ".join(known),
        )
    return said


def _position_of(signature: inspect.Signature, said: str | None, name: str) -> str | None:
    """The parameter that says where the new positions are."""
    if said is not None:
        return _check_parameter(signature, said, name)
    return next((each for each in POSITIONS if each in list(signature.parameters)[1:]), None)


def _cache_of(signature: inspect.Signature, said: str | None, name: str) -> tuple[str, ...]:
    """The parameter that is the cache, or the two."""
    known = list(signature.parameters)
    if said is not None:
        return (_check_parameter(signature, said, name),)
    usual = [(each,) for each in CACHES if each in known]
    found = next(iter([*usual, *(pair for pair in PAIRS if {*pair} <= {*known})]), None)
    if found is None:
        perhaps = known[3] if len(known) > 3 else "its_name"
        raise CheckError(
            "function: {name}{signature} has no parameter for the cache of a step ({caches}). If "
            "it has one by another name, say which: --map cache={perhaps}.",
            name=name,
            signature=signature,
            caches=", ".join(CACHES),
            perhaps=perhaps,
        )
    return found


def _check_factory(cache: Callable[..., Any] | None) -> None:
    if cache is None:
        return
    if not callable(cache):
        raise CheckError(
            "cache: expected a function that makes the first cache, got {kind}. Give the function "
            "itself, because each sequence needs a new cache.",
            kind=type(cache).__name__,
        )
    name = getattr(cache, "__qualname__", type(cache).__name__)
    signature = inspect.signature(cache)
    try:
        signature.bind(**{size: None for size in SIZES if size in signature.parameters})
    except TypeError as error:
        raise CheckError(
            "cache: expected a function without arguments, or with some of {sizes}, got "
            "{name}{signature}: {error}. Give its other parameters default values.",
            sizes=", ".join(SIZES),
            name=name,
            signature=signature,
            error=error,
        ) from None
