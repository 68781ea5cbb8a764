"""Layers, judged as functions of query, key and value that begin behind their projections."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from attnref.conformance.layers.construction import Maker, is_maker
from attnref.conformance.layers.functions import adapt_layer, first_layer
from attnref.conformance.layers.projections import Inseparable
from attnref.conformance.layers.whole import READY_MADE, WholeSubject, whole_subject
from attnref.conformance.program import watch
from attnref.conformance.signatures import unwrap
from attnref.conformance.subject import CheckError, Subject, subject
from attnref.text import Text

LAYER = Text("a layer: {parts}")


def make_subject(
    function: Callable[..., Any],
    supports: Sequence[str] | None = None,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    draws: Mapping[str, str] | None = None,
) -> Subject:
    """As :func:`subject`, and for a class of layers, or a function that makes one, too.

    ``arguments`` are what the layer wants beside widths and heads.
    """
    called = name or str(getattr(function, "__qualname__", type(function).__name__))
    try:
        attention = adapt_layer(function, arguments or {}, called) if is_maker(function) else None
    except Inseparable as error:
        maker = Maker(function, called, arguments or {})
        shape, layer = first_layer(maker)
        whole = whole_subject(layer, arguments or {}, called, error.why, width=shape.width)
        if whole is None:
            raise
        return whole
    if attention is None:
        if arguments:
            raise CheckError(
                "with: {called} is neither a class of layers nor a function make(width, heads) "
                "that returns a layer. Leave this option out.",
                called=called,
            )
        try:
            return subject(watch(function, name), supports, called, names, draws)
        except CheckError:
            if not isinstance(function, nn.Module) or supports or names:
                raise
            whole = whole_subject(function, {}, called, READY_MADE, width=None)
            if whole is None:
                raise
            return whole
    about = subject(attention, supports, called, names, draws)
    if supports is None and "attn_mask" in about.supports and "attn_mask" not in (names or {}):
        # What True means there differs from layer to layer, as in nn.MultiheadAttention.
        about = replace(
            about,
            supports=tuple(option for option in about.supports if option != "attn_mask"),
            overlooked={**about.overlooked, "attn_mask": "attn_mask"},
        )
    return about


def whole_beside(about: WholeSubject, other: Any, arguments: Mapping[str, Any]) -> Subject:
    """Another layer with the weights of one that is judged as a whole.

    Raises:
        CheckError: when it is none, or has other weights.
    """
    name = str(getattr(other, "__qualname__", type(other).__name__))
    layer = first_layer(Maker(other, name, arguments))[1] if is_maker(other) else other
    if not isinstance(layer, nn.Module):
        raise CheckError(
            "against: {name} is no layer, and {about} is judged as a whole, from its input to its "
            "output. Name a class of layers with the same weights.",
            name=name,
            about=about.name,
        )
    assert about.layer is not None
    layer = copy.deepcopy(layer)
    try:
        layer.load_state_dict(about.layer.state_dict())
    except RuntimeError as error:
        raise CheckError(
            "against: {name} cannot get the weights of {about}: {error}. Both need the same names "
            "and shapes.",
            name=name,
            about=about.name,
            error=" ".join(str(error).split()[:40]),
        ) from None
    assert about.reading.fits is not None
    found = whole_subject(layer, arguments, name, READY_MADE, width=about.reading.fits.width)
    if found is None:
        raise CheckError(
            "against: {name} takes no sequence as {about} does.", name=name, about=about.name
        )
    return found


def instance_as_a_whole(about: Subject) -> WholeSubject | None:
    """A module that answers no call with query, key and value, as a function of a sequence."""
    layer = unwrap(about.function)
    if not isinstance(layer, nn.Module):
        return None
    return whole_subject(layer, {}, about.name, READY_MADE, width=None)


def lines(function: Callable[..., Any]) -> list[tuple[Text, Mapping[str, object]]]:
    """How a layer was read, where the function is that of one."""
    found = inspect.unwrap(function, stop=lambda each: hasattr(each, "of_layer"))
    said = getattr(found, "of_layer", None)
    return [(LAYER, {"parts": said})] if isinstance(said, Text) else []
