"""Whom the check is about: a function, found by its name, and the options that it offers."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.required import filling, required
from attnref.conformance.text import Text

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


GIVEN = Text(en="{parameter} given {value}", pt="{parameter} recebe {value}")


class Fits(NamedTuple):
    """Lengths that are multiples of ``step``, and vectors of ``width``."""

    step: int
    width: int


class CheckError(Exception):
    """The check cannot be run; the message says what was expected and how to fix it."""


@dataclass(frozen=True)
class Subject:
    """A function, its name, and which of ``OPTIONS`` it takes.

    ``parameters`` are the names in its signature, None where it has none to read; ``overlooked``
    are options that it does not take, each with a parameter that may be it by another name. One
    that is ``always_causal`` cannot be asked without causality. ``swallowed`` are options that it
    takes through ``**kwargs`` alone, which says nothing about whether it knows them. ``fits`` are
    the only sizes that it takes, where it does not take all; one that is ``approximate`` is asked
    for its error and for what holds of approximations too. ``names`` are its own for options,
    ``mask_means`` is what its mask says, and ``mask`` turns PyTorch's, for that query and key, into
    it: a call is shown as it gets it. It says one thing for all heads, -3, or queries, -2, in
    ``same_along``. ``given`` says what parameters get that have no default value.
    """

    function: Callable[..., Any]
    name: str
    supports: tuple[str, ...]
    parameters: tuple[str, ...] | None
    overlooked: Mapping[str, str] = field(default_factory=dict)
    always_causal: bool = False
    swallowed: tuple[str, ...] = ()
    fits: Fits | None = None
    approximate: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    mask_means: str = "allowed"
    mask: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    same_along: tuple[int, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """What it was given without being asked about it, in words and what fills their places."""
        return [
            (GIVEN, {"parameter": parameter, "value": value})
            for parameter, value in self.given.items()
            if parameter not in (*self.names.values(), *self.names, *OPTIONS)
        ]

    def shown(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by its own names, with the mask that it gets."""
        given = dict(arguments)
        mask, query, key = (given.get(name) for name in ("attn_mask", "query", "key"))
        if self.mask is not None and isinstance(mask, Tensor):
            assert isinstance(query, Tensor)
            assert isinstance(key, Tensor)
            given["attn_mask"] = self.mask(mask, query, key)
        return {self.names.get(name, name): value for name, value in given.items()}


def load(target: str) -> Callable[..., Any]:
    """The function that ``target`` names.

    Args:
        target: ``module:function`` or ``path/to/file.py:function``; the function may be an
            attribute of an attribute, as in ``module:layer.forward``.

    Raises:
        CheckError: saying what was not found, what there is, and how to name it.

    Examples:
        >>> load("attnref.reference:scaled_dot_product_attention").__name__
        'scaled_dot_product_attention'
    """
    place, colon, attribute = target.rpartition(":")
    if not (place and colon and attribute):
        raise CheckError(
            f"function: expected module:function or path/to/file.py:function, got {target!r}. "
            "Write for example torch.nn.functional:scaled_dot_product_attention."
        )
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            there = sorted(
                each for each, value in vars(module).items() if _may_be_meant(each, value)
            )
            raise CheckError(
                f"function: expected {attribute!r} in {place}, which has no {name!r}. "
                f"It has: {', '.join(there) or 'no function'}."
            )
        found = getattr(found, name)
    function: Callable[..., Any] = found
    return function


def listed(names: str) -> list[str]:
    """The names of a list with commas.

    Examples:
        >>> listed("scale, is_causal")
        ['scale', 'is_causal']
    """
    return [name.strip() for name in names.split(",") if name.strip()]


def paired(pairs: Sequence[str]) -> dict[str, str]:
    """What ``option=parameter`` says, for each.

    Examples:
        >>> paired(["attn_mask=mask"])
        {'attn_mask': 'mask'}
    """
    for pair in pairs:
        if not all(pair.partition("=")):
            raise CheckError(
                f"map: expected option=parameter, got {pair!r}. Write for example attn_mask=mask."
            )
    return dict(pair.split("=", 1) for pair in pairs)


def subject(
    function: Callable[..., Any],
    supports: Sequence[str] | None = None,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
) -> Subject:
    """The function with what its signature says, or with what ``supports`` says instead.

    ``names`` are the function's own for options: ``{"attn_mask": "mask"}``.

    Raises:
        CheckError: when it cannot be called as ``f(query, key, value, **options)``.
    """
    if inspect.isclass(function):
        raise CheckError(
            f"function: expected a function, got the class {function.__name__}. Name an instance "
            "of it, or a function that makes one and calls it."
        )
    if not callable(function):
        raise CheckError(
            f"function: expected something to call, got {type(function).__name__}. "
            "Name the function itself."
        )
    name = name or _name(function)
    unknown = [option for option in supports or () if option not in OPTIONS]
    if unknown:
        raise CheckError(
            f"supports: expected names among {', '.join(OPTIONS)}, got {unknown[0]!r}."
        )
    signature = _signature(function)
    if signature is not None and list(signature.parameters)[:4] == _INTERFACE:
        function = _through_interface(function, signature)
        signature = _signature(function)
    if names:
        _check_names(names, signature, name)
        function, signature = renamed(function, names), _with_our_names(signature, names)
    if signature is None:
        offered = _asked(function) if supports is None else tuple(supports)
        return Subject(function, name, offered, None)
    given = required(signature, SYNONYMS)
    if given:
        function, signature = filling(function, signature, given, SYNONYMS)
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
        if option not in named and parameter in named
    }
    any_other = [option for option in OPTIONS if takes_any and option not in (*named, *overlooked)]
    offered = tuple(option for option in OPTIONS if option in named or option in any_other)
    missing = [option for option in supports or () if option not in offered]
    if missing:
        raise CheckError(
            f"supports: expected options that {name} takes, got {missing[0]!r}; its parameters "
            f"are {', '.join(named)}. Add it to them, or leave it out."
        )
    if supports is not None:
        return Subject(function, name, tuple(supports), named, overlooked, given=given)
    return Subject(
        function, name, offered, named, overlooked, swallowed=tuple(any_other), given=given
    )


# How Hugging Face's models call the attention that they are given.
_INTERFACE = ["module", "query", "key", "value"]


class _Layer(torch.nn.Module):
    """What such a function reads off the layer that it belongs to."""

    is_causal = False

    def __init__(self, groups: int, *, training: bool) -> None:
        super().__init__()
        self.num_key_value_groups = groups
        self.train(training)


def _through_interface(
    function: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    """It without the layer, given the factor; its output comes with heads and positions swapped."""

    def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
        if "scaling" in signature.parameters and options.get("scaling") is None:
            options["scaling"] = query.shape[-1] ** -0.5
        if "attention_mask" in signature.parameters:
            options.setdefault("attention_mask", None)
        options.pop("enable_gqa", None)
        groups = query.shape[1] // max(1, key.shape[1])
        layer = _Layer(groups, training=bool(options.get("dropout")))  # else it would drop nothing
        output, *rest = function(layer, query, key, value, **options)
        return (output.transpose(1, 2), *rest)

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    attention.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            each.replace(default=None) if number > 2 and each.kind is not each.VAR_KEYWORD else each
            for number, each in enumerate(list(signature.parameters.values())[1:])
        ]
    )
    return attention


def _check_names(names: Mapping[str, str], signature: inspect.Signature | None, name: str) -> None:
    for option, parameter in names.items():
        if option not in OPTIONS:
            raise CheckError(f"map: expected an option, {', '.join(OPTIONS)}, got {option!r}.")
        if signature is not None and parameter not in signature.parameters:
            raise CheckError(
                f"map: expected a parameter of {name}, which has "
                f"{', '.join(signature.parameters)}, got {parameter!r}."
            )


def renamed(function: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """The function with options of our names, given its own for them."""
    if not names:
        return function

    def attention(*tensors: Any, **options: Any) -> Any:
        return function(*tensors, **{names.get(name, name): options[name] for name in options})

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    return attention


def _with_our_names(
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


def _from_name(name: str) -> Any:
    # A module beside the caller is found as `python -m` would find it.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with _loading(name):
            return importlib.import_module(name)
    except CheckError as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError):
            raise
        if not f"{name}.".startswith(f"{cause.name}."):  # something that the module imports
            raise
        raise CheckError(
            f"function: expected a module that can be imported, got {name!r}: there is no "
            f"{cause.name!r}. Start where it lies, install it, or give its path: "
            "path/to/file.py:function."
        ) from None


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise CheckError(
            f"function: expected a file, got {str(path)!r}, which does not exist seen from "
            f"{Path.cwd()}. Check the path."
        )
    name = f"checked_{path.stem}"  # so as not to hide a module of the same name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python path/to/file.py` does
    with _loading(str(path)):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _loading(place: str) -> Iterator[None]:
    """What the code prints meanwhile must not mix with the report."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and pytest's own, with which it skips a module
        raise CheckError(
            f"function: expected {place} to load, got {type(error).__name__}: {error}. "
            "Fix it, so that it can be imported by itself."
        ) from error


def modules(function: Callable[..., Any]) -> list[torch.nn.Module]:
    """Those that it is, or is bound to, or wraps, with all in them."""
    function = _unwrapped(function)
    owner = getattr(function, "__self__", function)  # layer.forward is judged as layer is
    return list(owner.modules()) if isinstance(owner, torch.nn.Module) else []


def file_of(function: Callable[..., Any]) -> str | None:
    """The file that defines it, None where no Python does."""
    function = _unwrapped(function)
    if isinstance(function, torch.nn.Module):
        function = function.forward
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return None if code is None else str(code.co_filename)


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _may_be_meant(name: str, value: object) -> bool:
    is_layer = inspect.isclass(value) and issubclass(value, torch.nn.Module)
    return callable(value) and not name.startswith("_") and (is_layer or not inspect.isclass(value))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
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


def _check_three(signature: inspect.Signature, name: str) -> None:
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise CheckError(
            f"function: expected one that can be called as f(query, key, value), got "
            f"{name}{signature}: {error}. Give whatever else it takes a default value, or wrap "
            "it in a function of these three."
        ) from None
    known = {*OPTIONS, *(synonym for synonyms in SYNONYMS.values() for synonym in synonyms)}
    for place in list(signature.parameters)[1:3]:
        if place in known:
            raise CheckError(
                f"function: expected one that can be called as f(query, key, value), got "
                f"{name}{signature}, whose {place} is no tensor to attend to. Where it is a layer, "
                "wrap what it does between its projections in a function of these three."
            )


def _asked(function: Callable[..., Any]) -> tuple[str, ...]:
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
