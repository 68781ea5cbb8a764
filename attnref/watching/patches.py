"""Functions are replaced by name, and modules are hooked, while somebody watches; all is undone."""

import contextlib
import functools
import inspect
import sys
import threading
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
            if not recorder.places.stack:
                recorder.places.name(model)
        recorder.listeners.append(listener)
        try:
            yield
        finally:
            recorder.listeners.remove(listener)


# Names of functions, and hooks of modules, are of the whole process: the first who watches in any
# thread sets them, and the last one takes them back.

_lock = threading.Lock()
_users = 0
_undo = contextlib.ExitStack()
_wrapped: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}
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
    before = hooks.register_module_forward_pre_hook(_before)
    after = hooks.register_module_forward_hook(_after, always_call=True)
    _undo.callback(before.remove)
    _undo.callback(after.remove)
    _replace_all()


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
        recorder.places.leave(module, output)


def _replace_all() -> None:
    """Puts what records in the place of each function, wherever its name leads to it."""
    for original, function in list(known_functions()):
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
        _wrapped[id(original)] = (original, _recording(original, function))
        _known.clear()  # it may have been named anywhere


def _exchange(names: dict[str, Any], attribute: str) -> None:
    """In a module, or in a dictionary of functions; and notes how to take it back."""
    value = names.get(attribute)
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
