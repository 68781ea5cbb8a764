"""Functions are replaced by name, and modules are hooked, while somebody watches; all is undone."""

import contextlib
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.nn.modules import module as hooks

from attnref.watching.functions import (
    FUNCTIONS,
    Function,
    interface,
    interfaces,
    known_functions,
)
from attnref.watching.recorder import Listener, current, in_thread


@contextlib.contextmanager
def recording(listener: Listener, model: nn.Module | None) -> Iterator[None]:
    """While this lasts, the listener is told of what runs in this thread, or of a model there."""
    with _patched(), in_thread() as recorder:
        if model is not None:
            listener.members = frozenset(map(id, model.modules()))
            listener.compiled = bool(compiled_modules(model))
            if not recorder.places.stack:
                recorder.places.name(model)
        recorder.listeners.append(listener)
        try:
            yield
        finally:
            recorder.listeners.remove(listener)


def compiled_modules(model: nn.Module) -> list[str]:
    """Those that ``torch.compile`` made, or changed where they are, unless they run uncompiled."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    if getattr(getattr(compiler, "_stance", None), "stance", "") == "force_eager":
        return []
    return [
        name or type(module).__name__
        for name, module in model.named_modules()
        if type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
    ]


# Names of functions, and hooks of modules, are of the whole process: the first who watches in any
# thread sets them, and the last one takes them back.

_lock = threading.Lock()
_users = 0
_undo = contextlib.ExitStack()
_made: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}  # kept between two watches
_wrapped: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}
_functions: dict[int, Function] = {}
_known: set[str] = set()  # modules of Python that have been looked through


@contextlib.contextmanager
def _patched() -> Iterator[None]:
    global _users
    with _lock:
        if _users == 0:
            _install()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _undo.close()
                _restore()


def _install() -> None:
    # With the same key and the same functions each time, a compiled model is compiled once for all
    # that watch it, and is afterwards as it was.
    for each, what in _HOOKS:
        each[_KEY] = what
        _undo.callback(each.pop, _KEY, None)
    # A compiled model is called with these hooks, and PyTorch says that they fire once more.
    warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global")
    _undo.callback(_forget_filter, warnings.filters[0])
    _replace_all()


_KEY = -42  # of our hooks; those of PyTorch count from 0


def _forget_filter(each: Any) -> None:
    with contextlib.suppress(ValueError):  # somebody else has set the filters back
        warnings.filters.remove(each)  # type: ignore[attr-defined]


def _before(module: nn.Module, inputs: Any) -> None:
    recorder = current()
    if recorder is not None:
        if type(module).__module__ not in _known:  # loaded since
            with _lock:
                _replace_all()
                _known.add(type(module).__module__)
        recorder.places.enter(module)


def _after(module: nn.Module, inputs: Any, output: Any) -> None:
    recorder = current()
    if recorder is not None:
        recorder.places.leave(module, inputs, output)


_HOOKS: tuple[tuple[dict[int, Any], Any], ...] = (
    (hooks._global_forward_pre_hooks, _before),
    (hooks._global_forward_hooks, _after),
    (hooks._global_forward_hooks_always_called, True),
)


def _replace_all() -> None:
    """Puts what records in the place of each function, wherever its name leads to it."""
    for original, function in list(known_functions()):
        if not hasattr(original, "_attnref_records"):
            _functions[id(original)] = function
        _wrap(original, function)
    mapping = interfaces()
    for name, entry in list(mapping.items()):
        known = interface(name)
        if known is not None:
            _wrap(entry, known)
    for name in [each for each in list(sys.modules) if each not in _known]:
        _known.add(name)
        names: dict[str, Any] = getattr(sys.modules[name], "__dict__", None) or {}
        for attribute in _NAMES & names.keys():
            _exchange(names, attribute)
    for name in list(mapping):
        _exchange(mapping, name)


def _wrap(original: Callable[..., Any], function: Function) -> None:
    if id(original) not in _wrapped and not hasattr(original, "_attnref_records"):
        if id(original) not in _made:
            _made[id(original)] = (original, _recording(original, function))
        _wrapped[id(original)] = _made[id(original)]
        _known.clear()  # it may have been named anywhere


def _exchange(names: dict[str, Any], attribute: str) -> None:
    """In a module, or in a dictionary of functions; and notes how to take it back."""
    value = names.get(attribute)
    inner = getattr(value, "_torchdynamo_orig_callable", None)
    if value is not None and id(inner) in _functions:  # the same, compiled
        _wrap(value, _functions[id(inner)])
    original, new = _wrapped.get(id(value), (None, None))
    if value is not None and original is value:
        names[attribute] = new
        _undo.callback(_give_back, names, attribute, new, original)


def _give_back(names: dict[str, Any], attribute: str, new: object, original: object) -> None:
    if names.get(attribute) is new:  # else somebody has set another since
        names[attribute] = original


def _restore() -> None:
    # Who took a name over meanwhile keeps what records; by then it only passes calls on.
    new = {id(each): original for original, each in _wrapped.values()}
    for name in [each for each in list(sys.modules) if each not in _known]:
        names: dict[str, Any] = getattr(sys.modules[name], "__dict__", None) or {}
        for attribute in _NAMES & names.keys():
            if id(names[attribute]) in new:
                names[attribute] = new[id(names[attribute])]
    _wrapped.clear()
    _functions.clear()
    _known.clear()


# Under another name the operator is still seen, as a fused kernel gets it.
_NAMES = frozenset(each.place.partition(":")[2] for each in FUNCTIONS)


def _recording(original: Callable[..., Any], function: Function) -> Callable[..., Any]:
    @functools.wraps(original)
    def attention(*args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None:
            return original(*args, **kwargs)
        return recorder.call(original, function, args, kwargs)

    attention._attnref_records = True  # type: ignore[attr-defined]
    if inspect.isbuiltin(original):
        del attention.__wrapped__
    return attention
