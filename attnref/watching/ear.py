"""What hears the calls of one thread, for all who watch there, and undoes everything."""

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes

from attnref.watching.call import FUSED, Call
from attnref.watching.functions import (
    FUNCTIONS,
    Function,
    bind,
    interface,
    interfaces,
    known_functions,
)
from attnref.watching.kernels import reason
from attnref.watching.operators import MATH, Operators
from attnref.watching.places import Places

_here = threading.local()
_lock = threading.Lock()


class Listener:
    """Who is told of what runs."""

    members: frozenset[int] | None = None  # the modules of the model; None is whatever runs

    def _hear(self, call: Call) -> None:
        """A call of attention ended."""

    def _enter(self, module: nn.Module, name: str) -> None:
        """A module begins."""

    def _leave(self, module: nn.Module, name: str, output: Any) -> None:
        """A module ended."""

    def _miss(self, name: str, error: Exception) -> None:
        """Something there could not be looked at."""


class Ear:
    """The calls of one thread."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.places = Places(self._enter, self._leave)
        self.mode = Operators(self._tell, self._parameters, self.missed)
        self.heard = 0  # calls so far
        self.deaf = False  # while what is heard is judged
        self._of_root: tuple[int, frozenset[int]] = (0, frozenset())

    def _parameters(self) -> frozenset[int]:
        root = self.places.stack[0] if self.places.stack else None
        if root is None:
            return frozenset()
        if self._of_root[0] != id(root):
            found = frozenset(
                x.untyped_storage()._cdata
                for x in root.parameters()
                if x.layout == torch.strided and not is_lazy(x)
            )
            self._of_root = (id(root), found)
        return self._of_root[1]

    def call(self, original: Callable[..., Any], function: Function, args: Any, kwargs: Any) -> Any:
        """The function itself, and word of it."""
        before, self.mode.kernel = self.heard, ""
        self.mode.inside += not function.hands_on
        start = time.perf_counter()
        try:
            with _disable_current_modes() if function.apart else contextlib.nullcontext():
                output = original(*args, **kwargs)
        finally:
            self.mode.inside -= not function.hands_on
        seconds = time.perf_counter() - start
        given = bind(original, args, kwargs) if self.heard == before else None
        if given is None:
            return output
        call, gradients = None, torch.is_grad_enabled()
        with self.aside():
            call = function.read(given, output)
            call.seconds = seconds
            call.kernel = call.kernel or self.mode.kernel or MATH
            if call.function == FUSED and call.kernel == MATH:
                call.reason = reason(given, gradients=gradients)
        if call is not None:
            self._tell(call)
        return output

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What runs here is nobody's, and what fails here fails for nobody: it is noted."""
        self.deaf = True
        try:
            with _disable_current_modes(), torch.no_grad(), torch.device("cpu"):
                yield
        except Exception as error:
            self.missed(error)
        finally:
            self.deaf = False

    def missed(self, error: Exception) -> None:
        """Something could not be looked at; the model must not notice."""
        for each in self.listeners:
            each._miss(self.places.here() or _line(), error)

    def _tell(self, call: Call) -> None:
        self.heard += 1
        call.name = self.places.here() or _line()
        if self.places.stack:
            call.training = self.places.stack[-1].training
        for each in self.listeners:
            if self.places.inside(each.members):
                with self.aside():
                    each._hear(call)

    def _enter(self, module: nn.Module, name: str) -> None:
        for each in self.listeners:
            if self.places.inside(each.members):
                with self.aside():
                    each._enter(module, name)

    def _leave(self, module: nn.Module, name: str, output: Any) -> None:
        for each in self.listeners:
            if self.places.inside(each.members):
                with self.aside():
                    each._leave(module, name, output)


def _line() -> str:
    """The file and the line that called, where no module does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


_NOT_THEIRS = (str(Path(__file__).parent), str(Path(torch.__file__).parent), contextlib.__file__)


def current() -> Ear | None:
    """The ear of this thread, if somebody watches in it and nothing is judged."""
    if torch.compiler.is_compiling():
        return None
    ear: Ear | None = getattr(_here, "ear", None)
    if ear is None or ear.deaf or _is_abstract():
        return None
    return ear


def _is_abstract() -> bool:
    """Whether what runs has no numbers to look at, or they may not be looked at now."""
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    )


@contextlib.contextmanager
def listening(listener: Listener, model: nn.Module | None) -> Iterator[None]:
    """While this lasts, the listener is told of what runs in this thread, or of a model there."""
    ear: Ear | None = getattr(_here, "ear", None)
    with contextlib.ExitStack() as stack:
        if ear is None:
            stack.enter_context(_patched())
            ear = _here.ear = Ear()
            stack.callback(delattr, _here, "ear")
            stack.enter_context(ear.mode)
        if model is not None:
            listener.members = frozenset(map(id, model.modules()))
            if not ear.places.stack:
                ear.places.name(model)
        ear.listeners.append(listener)
        stack.callback(ear.listeners.remove, listener)
        yield


# Names of functions, and hooks of modules, are of the whole process: the first who watches in any
# thread sets them, and the last one takes them back.

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
    ear = current()
    if ear is not None:
        if type(module).__module__ not in _known:  # loaded since
            with _lock:
                _replace_all()
                _known.add(type(module).__module__)
        ear.places.enter(module)


def _after(module: nn.Module, inputs: Any, output: Any) -> None:
    ear = current()
    if ear is not None:
        ear.places.leave(module, output)


def _replace_all() -> None:
    """Puts what is heard in the place of each function, wherever its name leads to it."""
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
    if id(original) not in _wrapped and not hasattr(original, "_attnref_hears"):
        _wrapped[id(original)] = (original, _hearing(original, function))
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
    # Who took a name over while it was heard keeps what hears; by then it only passes calls on.
    hears = {id(new): original for original, new in _wrapped.values()}
    for name in [each for each in list(sys.modules) if each not in _known]:
        names: dict[str, Any] = getattr(sys.modules[name], "__dict__", None) or {}
        for attribute in _NAMES & names.keys():
            if id(names[attribute]) in hears:
                names[attribute] = hears[id(names[attribute])]
    _wrapped.clear()
    _known.clear()


# Under another name the operator is still seen, as a fused kernel gets it.
_NAMES = frozenset(each.place.partition(":")[2] for each in FUNCTIONS)


def _hearing(original: Callable[..., Any], function: Function) -> Callable[..., Any]:
    @functools.wraps(original)
    def attention(*args: Any, **kwargs: Any) -> Any:
        ear = current()
        if ear is None:
            return original(*args, **kwargs)
        return ear.call(original, function, args, kwargs)

    attention._attnref_hears = True  # type: ignore[attr-defined]
    if inspect.isbuiltin(original):
        del attention.__wrapped__
    return attention
