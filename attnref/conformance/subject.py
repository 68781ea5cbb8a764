"""Whom the check is about: a function, found by its name, and the options that it offers."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnref.conformance import interface
from attnref.conformance.difference import adapt_halves
from attnref.conformance.draws import Draw, draw_of, parse_draw
from attnref.conformance.layouts import TURNED
from attnref.conformance.packed import adapt_packed, packing
from attnref.conformance.paged_form import adapt_paged, paging
from attnref.conformance.reading import Reading
from attnref.conformance.required import filling, required_arguments
from attnref.conformance.sessions import adapt_session, is_session
from attnref.conformance.signatures import (
    OPTIONS,
    SYNONYMS,
    options_taken,
    rename_options,
    signature_of,
    unwrap,
)
from attnref.text import Refusal, Text

GIVEN = Text("{parameter} given {value}")


class CheckError(Refusal):
    """The check cannot be run; the message says what was expected and how to fix it."""


@dataclass(frozen=True)
class Subject:
    """A function, its name, which of ``OPTIONS`` it takes, and how it is read.

    ``parameters`` are the names in its signature, None where it has none to read; ``overlooked``
    are options that it does not take, each with a parameter that may be it by another name, and
    ``swallowed`` are those that it takes through ``**kwargs`` alone, which says nothing about
    whether it knows them. ``mask`` turns PyTorch's, for that query and key, into its own, so that
    a call is shown as it gets it. ``given`` says what parameters get that have no default value,
    ``defaults`` are those of its parameters, and ``masks`` are parameters that may be masks beside
    the first. ``library`` has its arrays, where its kind shows them. ``extras`` are tensors that
    it takes beside query, key and value, drawn by their names.

    What is no softmax attention is compared with a ``reference`` in float64, such as one made of
    the function ``beside`` it, up to a relative ``bound`` if there is one. A layer that is judged
    as a whole is not taken ``apart``, and has so many ``heads``, if it says so. A ``square`` one
    takes as many keys as queries alone, and one that is ``paged`` gets keys and values in pages.
    """

    function: Callable[..., Any]
    name: str
    supports: tuple[str, ...]
    parameters: tuple[str, ...] | None
    reading: Reading = field(default_factory=Reading)
    overlooked: Mapping[str, str] = field(default_factory=dict)
    swallowed: tuple[str, ...] = ()
    mask: Callable[..., Tensor] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    masks: tuple[str, ...] = ()
    library: str | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    extras: Mapping[str, Draw] = field(default_factory=dict)
    reference: Callable[..., Tensor] | None = None
    beside: "Subject | None" = None
    bound: float | None = None
    apart: bool = True
    square: bool = False
    paged: bool = False
    heads: int = 0

    @property
    def always_causal(self) -> bool:
        """Whether it cannot be asked without causality."""
        return bool(self.reading.causal)

    @property
    def positional(self) -> bool:
        """Whether it matters where a query or a key is, so that n = m is all that it is asked."""
        return self.always_causal or self.square or self.reading.formula.positional

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """What it was given without being asked about it, in words and what fills their places."""
        names = self.reading.names
        return [
            (GIVEN, {"parameter": parameter, "value": value})
            for parameter, value in self.given.items()
            if parameter not in (*names.values(), *names, *OPTIONS)
        ]

    def default_parameters(self) -> list[str]:
        """The parameters that keep their default values, or what they are given, in each call."""
        names = self.reading.names.values()
        asked = {*OPTIONS, *names, *self.extras, self.reading.numbers}
        return [each for each in (self.parameters or ())[3:] if each not in asked]

    def default_window(self) -> int | None:
        """How many keys its window has by default, as its signature says."""
        widths = (
            width
            for name, default in self.defaults.items()
            if "window" in name.lower() or "sliding" in name.lower()
            for width in (default if isinstance(default, tuple | list) else (default,))
            if isinstance(width, int) and not isinstance(width, bool) and width > 0
        )
        return max(widths, default=None)

    def own_arguments(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by its own names, with the mask and the window that it gets."""
        convert, query, key = self.mask, arguments.get("query"), arguments.get("key")
        given = self.reading.own_options(
            arguments, lambda mask: mask if convert is None else convert(mask, query, key)
        )
        return {self.reading.names.get(name, name): value for name, value in given.items()}


def subject(
    function: Callable[..., Any],
    supports: Sequence[str] | None = None,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
    draws: Mapping[str, str] | None = None,
) -> Subject:
    """The function with what its signature says, or with what ``supports`` says instead.

    ``names`` are the function's own for options: ``{"attn_mask": "mask"}``.

    Raises:
        CheckError: when it cannot be called as ``f(query, key, value, **options)``.
    """
    if inspect.isclass(function):
        raise CheckError(
            "function: {name} is a class, not a function. Name an instance of it, or a function "
            "that makes one and calls it.",
            name=function.__name__,
        )
    library = None
    if is_session(function):
        function, library = adapt_session(function), "numpy"
    if not callable(function):
        raise CheckError(
            "function: an object of type {kind} cannot be called. Name the function itself.",
            kind=type(function).__name__,
        )
    name = name or _name(function)
    unknown = [option for option in supports or () if option not in OPTIONS]
    if unknown:
        raise CheckError(
            "supports: there is no option {unknown!r}. There are: {options}.",
            unknown=unknown[0],
            options=", ".join(OPTIONS),
        )
    signature, layout, sinks = signature_of(function), None, dict[str, str]()
    if signature is not None and list(signature.parameters)[:4] == interface.PARAMETERS:
        sinks = interface.SINKS if interface.has_sinks(function) else {}
        function, layout = interface.adapt_interface(function, signature), TURNED
        signature = signature_of(function)
    if names:
        _check_names(names, signature, name)
        function, signature = rename_options(function, names), _rename_parameters(signature, names)
    if signature is None:
        offered = options_taken(function) if supports is None else tuple(supports)
        return Subject(function, name, offered, None)
    halves = adapt_halves(function, signature)
    if halves is not None:
        function, signature = halves
    names_of_packing = packing(signature)
    if names_of_packing:
        function, signature = adapt_packed(function, signature, names_of_packing)
        layout = "packed"
    names_of_paging = () if names_of_packing else paging(signature)  # optional beside packing
    if names_of_paging:
        function, signature = adapt_paged(function, signature, names_of_paging)
    extras = _drawn(signature, draws or {}, name)
    given = required_arguments(signature, SYNONYMS)
    given = {each: what for each, what in given.items() if each not in extras}
    if given or extras:
        function, signature = filling(function, signature, given, SYNONYMS, extras)
    _check_three(signature, name)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    named = tuple(
        each
        for each, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )
    overlooked = {
        option: parameter
        for option, synonyms in SYNONYMS.items()
        for parameter in reversed(synonyms)
        if option not in named
        and parameter in named
        # So many first keys that are kept, and no score.
        and not (option == "sink" and type(signature.parameters[parameter].default) is int)
    }
    any_other = [option for option in OPTIONS if takes_any and option not in (*named, *overlooked)]
    offered = tuple(option for option in OPTIONS if option in named or option in any_other)
    missing = [option for option in supports or () if option not in offered]
    if missing:
        raise CheckError(
            "supports: {name} does not take {first!r}; its parameters are {parameters}. Add it to "
            "them, or leave it out.",
            name=name,
            first=missing[0],
            parameters=", ".join(named),
        )
    square = "cu_seqlens_k" not in names_of_packing.values() and layout == "packed"
    if layout == "packed":  # numbers by position are each sequence's own
        own = {each: "n" in draw.axes and "b" not in draw.axes for each, draw in extras.items()}
        extras = {
            each: draw._replace(axes=f"b{draw.axes}") if own[each] else draw
            for each, draw in extras.items()
        }
    return Subject(
        function,
        name,
        offered if supports is None else tuple(supports),
        named,
        Reading(layout=layout),
        overlooked,
        swallowed=tuple(any_other) if supports is None else (),
        given={**given, **sinks},
        masks=tuple(
            each
            for each in SYNONYMS["attn_mask"]
            if each in named and each != overlooked.get("attn_mask")
        ),
        library=library,
        defaults={
            each: parameter.default
            for each, parameter in signature.parameters.items()
            if parameter.default is not parameter.empty and each not in {*given, *(draws or {})}
        },
        extras=extras,
        square=square,
        paged=bool(names_of_paging),
    )


def _drawn(signature: inspect.Signature, said: Mapping[str, str], name: str) -> dict[str, Draw]:
    """The tensors that it takes beside query, key and value, and how each is drawn."""
    found = {}
    known = {*OPTIONS, *(synonym for synonyms in SYNONYMS.values() for synonym in synonyms)}
    for each, parameter in list(signature.parameters.items())[3:]:
        needed = parameter.default is parameter.empty
        draw = draw_of(each) if needed or each not in known else None
        if draw is not None and parameter.default in (None, parameter.empty):
            found[each] = draw
    for each, how in said.items():
        if each not in signature.parameters:
            raise CheckError(
                "draw: {name} has no parameter {each!r}; it has {parameters}.",
                name=name,
                each=each,
                parameters=", ".join(signature.parameters),
            )
        try:
            found[each] = parse_draw(each, how)
        except Refusal as error:
            raise CheckError(error.text) from None
    return found


def _check_names(names: Mapping[str, str], signature: inspect.Signature | None, name: str) -> None:
    for option, parameter in names.items():
        if option not in OPTIONS:
            raise CheckError(
                "map: there is no option {option!r}. There are: {options}.",
                option=option,
                options=", ".join(OPTIONS),
            )
        if signature is not None and parameter not in signature.parameters:
            raise CheckError(
                "map: {name} has no parameter {parameter!r}; it has {parameters}.",
                name=name,
                parameter=parameter,
                parameters=", ".join(signature.parameters),
            )


def _rename_parameters(
    signature: inspect.Signature | None, names: Mapping[str, str]
) -> inspect.Signature | None:
    if signature is None:
        return None
    ours = {parameter: option for option, parameter in names.items()}
    return signature.replace(
        parameters=[
            each.replace(name=ours.get(name, name)) for name, each in signature.parameters.items()
        ]
    )


def modules(function: Callable[..., Any]) -> list[torch.nn.Module]:
    """Those that it is, or is bound to, or wraps, with all in them."""
    made = inspect.unwrap(function, stop=lambda each: hasattr(each, "modules_made"))
    if hasattr(made, "modules_made"):  # of a layer that is made for each shape
        return [module for layer in made.modules_made() for module in layer.modules()]
    function = unwrap(function)
    owner = getattr(function, "__self__", function)  # layer.forward is judged as layer is
    return list(owner.modules()) if isinstance(owner, torch.nn.Module) else []


def place_of(function: Callable[..., Any]) -> tuple[str, int] | None:
    """The file that defines it, and the line there; None where no Python does."""
    function = unwrap(function)
    if isinstance(function, torch.nn.Module):
        function = function.forward
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _check_three(signature: inspect.Signature, name: str) -> None:
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise CheckError(
            "function: {name}{signature} cannot be called as f(query, key, value): {error}. Give "
            "its other parameters default values, or wrap it in a function of these three.",
            name=name,
            signature=signature,
            error=error,
        ) from None
    known = {*OPTIONS, *(synonym for synonyms in SYNONYMS.values() for synonym in synonyms)}
    for place in list(signature.parameters)[1:3]:
        if place in known:
            raise CheckError(
                "function: {name}{signature} cannot be called as f(query, key, value): its "
                "{place} is not a tensor to attend to. If it is a layer, wrap what it does "
                "between its projections in a function of these three.",
                name=name,
                signature=signature,
                place=place,
            )
