"""The smallest call found, as a program that runs where it is pasted.

What the function really got is noted where it is called: the program has its names, axes and masks.
A call that cannot be written so, such as that of a layer behind its projections, has no program.
"""

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnref.conformance.comparison import READABLE
from attnref.conformance.libraries import LIBRARIES, library_of
from attnref.conformance.signatures import signature_of
from attnref.conformance.step import StepSubject
from attnref.conformance.subject import Subject

_MOST = 16  # calls that are noted
# From PyTorch's axes to those of a layout, and the axis of the positions there.
_AXES: Mapping[str, tuple[tuple[str, int, int], ...]] = {
    "bnhd": (("transpose", 1, 2),),
    "bnd": (("flatten", 0, 1),),
    "nbd": (("flatten", 0, 1), ("transpose", 0, 1)),
    "nd": (("select", 0, 0), ("select", 0, 0)),
}
_POSITIONS = {"bhnd": 2, "bnhd": 1, "bnd": 1, "nbd": 0}
_WRITTEN = ("torch", "numpy", "jax.numpy")  # whose arrays can be


class Got(NamedTuple):
    """A call as the function got it; the kind of what it returned, and those of its parts."""

    tensors: tuple[Any, ...]
    options: dict[str, Any]
    versions: list[tuple[Tensor, int]]
    returned: list[type]


class _Unwritable(Exception):
    """There is no short text for a value."""


_noted: list[list[Got]] = [[]]


def note_calls() -> list[Got]:
    """Where the calls from now on are noted, the first few of them."""
    _noted[0] = []
    return _noted[0]


def watch(function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """The function, whose calls are noted where it has a name that a program can give it."""
    named = name or hasattr(function, "__qualname__")
    if not (named and callable(function)) or inspect.isclass(function):
        return function

    def attention(*tensors: Any, **options: Any) -> Any:
        given = tuple(map(_keep, tensors))
        named = {name: _keep(each) for name, each in options.items()}
        both = [each for each in (*given, *named.values()) if isinstance(each, Tensor)]
        call = Got(given, named, [(x, x._version) for x in both if not x.is_inference()], [])
        if len(_noted[0]) <= _MOST:
            _noted[0].append(call)
        output = function(*tensors, **options)
        parts = output if isinstance(output, tuple | list) else ()
        call.returned.extend(map(type, (output, *parts)))
        return output

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    # A text is taken for none, which a function written in C has.
    attention.__signature__ = signature_of(function) or ""  # type: ignore[attr-defined]
    return attention


def _keep(value: Any) -> Any:
    """An array does not tell whether it was changed."""
    return value.copy() if isinstance(value, np.ndarray) and value.size <= READABLE else value


def own_axes(about: Subject, tensor: Tensor | None, *, output: bool = True) -> Tensor | None:
    """From PyTorch's axes to those that the function returns, or takes."""
    layout = (about.reading.layout or "").split(">")[-output]
    for name, *where in _AXES.get(layout, ()) if tensor is not None and tensor.ndim == 4 else ():
        tensor = getattr(tensor, name)(*where)
    return tensor


def write(
    about: Subject, calls: Sequence[Got], arguments: Mapping[str, object], seed: int
) -> str | None:
    """The program, but for the place of the function; None if it cannot be given.

    Args:
        about: whom the call was made of.
        calls: what was noted of it.
        arguments: the call by PyTorch's names, in its axes.
        seed: that of the case.
    """
    changed = (x._version != version for call in calls for x, version in call.versions)
    if not 0 < len(calls) <= _MOST or any(changed):
        return None
    names = (about.parameters or ())[:3]
    if len(names) < 3 or any({*names} & {*call.options} for call in calls if call.tensors):
        names = ("query", "key", "value")  # it names none of the three, or only by their places
    given = [dict(zip(names, call.tensors, strict=False)) | call.options for call in calls]
    try:
        if isinstance(about, StepSubject):
            lines = [*_steps(about, names, calls, given, arguments)]
        elif len(calls) == 1:
            lines = [*_single(about, names, calls[0], given[0], arguments, seed)]
        else:
            return None
    except _Unwritable:
        return None
    text = "\n".join(lines)
    used = (each for each in _WRITTEN if re.search(rf"(?<![\w.]){each}\.", text))
    return "".join(f"import {each}\n" for each in used) + text


def _single(
    about: Subject,
    names: Sequence[str],
    call: Got,
    given: Mapping[str, Any],
    arguments: Mapping[str, object],
    seed: int,
) -> Iterator[str]:
    """One call; tensors that are too large to be read are drawn as the checker has drawn them."""
    drawn = dict[str, str]()
    if any(isinstance(given[each], Tensor) and given[each].numel() > READABLE for each in names):
        drawn = _draw(about, {each: given[each] for each in names}, arguments, seed)
    yield from ("$import", "")
    if drawn:
        yield f"generator = torch.Generator().manual_seed({seed})"
    written = []
    for place, (name, value) in enumerate(given.items()):
        text = drawn.get(name) or _text(value)
        if isinstance(value, Tensor) or library_of(value):
            yield f"{name} = {text}"
            text = name
        written.append(text if place < len(call.tensors) else f"{name}={text}")
    output = "output, *_" if len(call.returned) > 1 else "output"
    yield from (f"{output} = $function({', '.join(written)})", "print(output)")


def _draw(
    about: Subject, given: Mapping[str, Tensor], arguments: Mapping[str, object], seed: int
) -> dict[str, str]:
    """Query, key and value, where they are those of :meth:`Case.draw`, perhaps rounded."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    inputs, _, _ = (about.reading.layout or "bhnd").partition(">")
    moved = "".join(f".{name}({one}, {other})" for name, one, other in _AXES.get(inputs, ()))
    for name, usual in zip(given, ("query", "key", "value"), strict=True):
        like, tensor = arguments[usual], given[name]
        if not (isinstance(like, Tensor) and isinstance(tensor, Tensor)):
            raise _Unwritable
        numbers = torch.randn(like.shape, generator=generator, dtype=torch.float64)
        ways = {
            "": numbers,
            ".round()": numbers.round(),
            ".round(decimals=1)": numbers.round(decimals=1),
        }
        for way, made in ways.items():
            own = own_axes(about, made.to(tensor.dtype), output=False)
            if own is not None and torch.equal(own, tensor.detach().cpu()):
                shape = f"{tuple(like.shape)}, generator=generator, dtype=torch.float64"
                place = "" if tensor.is_cpu else f'"{tensor.device}", '
                found[name] = f"torch.randn({shape}){way}.to({place}{tensor.dtype}){moved}"
                break
        else:
            raise _Unwritable
    return found


def _steps(
    about: StepSubject,
    names: Sequence[str],
    calls: Sequence[Got],
    given: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, object],
) -> Iterator[str]:
    """A loop of steps, each with what the one before has left in the cache."""
    step, layout = about.step, about.reading.layout or "bhnd"
    inputs, _, outputs = layout.rpartition(">")
    axis = _POSITIONS.get(inputs or layout)
    if axis is None or {"branched", "interleaved", "overwritten"} & {*arguments}:
        raise _Unwritable
    more, first = _first_cache(about, arguments)
    yield from (f"$import{more}", "")
    for name in names:
        pieces = [each[name] for each in given]
        if not all(isinstance(each, Tensor) for each in pieces):
            raise _Unwritable
        yield f"{name} = {_text(torch.cat(pieces, axis))}"
    lengths = [each[names[0]].shape[axis] for each in given]
    split = lengths[0] if len({*lengths}) == 1 else lengths
    written, parts = [], {f"{name}_i": f"{name}.split({split}, {axis})" for name in names}
    for place, name in enumerate(given[0]):
        text = name if name in step.parameters else f"{name}_i"
        if name not in (*names, *step.parameters):
            texts = [_text(each[name]) for each in given]
            if len({*texts}) == 1:
                text = texts[0]
            else:
                parts[text] = f"[{', '.join(texts)}]"
        written.append(text if place < len(calls[0].tensors) else f"{name}={text}")
    yield first
    yield "outputs = []"
    yield f"for {', '.join(parts)} in zip({', '.join(parts.values())}):"
    yield f"    {_left(about, calls)} = $function({', '.join(written)})"
    yield "    outputs.append(output)"
    yield ""
    yield f"output = torch.cat(outputs, {_POSITIONS[outputs]})"
    yield "print(output)"


def _first_cache(about: StepSubject, arguments: Mapping[str, object]) -> tuple[str, str]:
    """What it needs besides the step, and the line that makes it."""
    step = about.step
    key, factory = arguments["key"], step.factory
    if factory is None:
        return "", " = ".join((*step.parameters, "None"))
    name = getattr(factory, "__name__", "")
    beside = getattr(inspect.unwrap(step.function), "__globals__", {}).get(name) is factory
    if not (beside and isinstance(key, Tensor)):
        raise _Unwritable
    sizes = step.sizes(key, key.shape[-2]).items()
    texts = (f"{size}={repr(str(each)) if size == 'device' else each}" for size, each in sizes)
    return f", {name}", f"{', '.join(step.parameters)} = {name}({', '.join(texts)})"


def _left(about: StepSubject, calls: Sequence[Got]) -> str:
    """What a step's answer is assigned to, so that the cache is what the checker takes for it."""
    step = about.step
    kinds = {tuple(call.returned[1:]) for call in calls if call.returned}
    for parts in kinds if len(kinds) == 1 else ():
        if not parts and step.factory is not None:
            return "output"
        kept = len(step.parameters) == len(parts) - 1 and type(None) not in parts
        weights = len(parts) == 2 and step.factory is not None and issubclass(parts[1], Tensor)
        if kept and not weights:
            return ", ".join(("output", *step.parameters))
    raise _Unwritable


def _text(value: Any) -> str:
    """From which Python makes the value again, to the last bit."""
    package = library_of(value)
    if package in ("numpy", "jax"):
        array, module = np.asarray(value), LIBRARIES[package].module
        if array.dtype.kind == "V":  # bfloat16, which NumPy has from elsewhere
            raise _Unwritable
        return f'{module}.array({_numbers(torch.tensor(array), module)}, dtype="{array.dtype}")'
    if isinstance(value, Tensor):
        return _tensor(value)
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        raise _Unwritable from None
    return repr(value)


def _tensor(tensor: Tensor) -> str:
    """With its strides, where they are not the usual ones."""
    shape = tuple(tensor.shape)
    if not tensor.is_contiguous():
        for axis, stride in enumerate(tensor.stride()):
            if stride == 0 and shape[axis] > 1:
                return f"{_tensor(tensor.narrow(axis, 0, 1))}.expand{shape}"
        order = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
        if not tensor.permute(order).is_contiguous():
            raise _Unwritable
        back = [order.index(axis) for axis in range(tensor.ndim)]
        return f"{_tensor(tensor.permute(order))}.permute{tuple(back)}"
    said = [_numbers(tensor, "torch")] if tensor.numel() else [str(shape)]
    if tensor.dtype not in (torch.get_default_dtype(), torch.bool, torch.int64):
        said.append(f"dtype={tensor.dtype}")
    said += [] if tensor.is_cpu else [f'device="{tensor.device}"']
    said += ["requires_grad=True"] if tensor.requires_grad else []
    return f"torch.{'tensor' if tensor.numel() else 'empty'}({', '.join(said)})"


def _numbers(tensor: Tensor, module: str) -> str:
    """Nested lists of numbers, each as short as its dtype allows."""
    if tensor.numel() > READABLE:
        raise _Unwritable
    if tensor.ndim:
        return f"[{', '.join(_numbers(each, module) for each in tensor.detach().cpu())}]"
    number = tensor.item()
    if not isinstance(number, float):
        return str(number)
    if not math.isfinite(number):
        return f"{number}".replace("inf", f"{module}.inf").replace("nan", f"{module}.nan")
    texts = (f"{number:.{digits}g}" for digits in range(6 if number.is_integer() else 1, 18))
    text = next(each for each in texts if tensor.new_tensor(float(each)).item() == number)
    return text if {*text} & {*".e"} else f"{text}.0"
