"""Who runs in a thread and what it calls, for all who watch there."""

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes

from attnref.watching.call import FUSED, MATH, OWN, Call, divide
from attnref.watching.functions import Function, bind
from attnref.watching.kernels import NEED_WEIGHTS, reason
from attnref.watching.operators import Operators
from attnref.watching.places import Places, heads_of

_here = threading.local()


class Listener:
    """What is told of a run."""

    members: frozenset[int] | None = None  # the modules of the model; None is whatever runs
    compiled: bool = False  # whether some of them were compiled

    def _on_call(self, call: Call) -> None:
        """A call of attention ended."""

    def _on_softmax(self, place: str, by: int) -> None:
        """Scores were made weights, by 1, or the weights were multiplied with values, by -1."""

    def _on_start(self) -> None:
        """A module begins that no other one called."""

    def _on_end(self) -> None:
        """It ended."""

    def _on_enter(self, module: nn.Module, name: str) -> None:
        """A module begins."""

    def _on_leave(self, module: nn.Module, name: str, inputs: Any, output: Any) -> None:
        """A module ended."""

    def _on_error(self, name: str, error: Exception) -> None:
        """Something there could not be looked at."""


class Recorder:
    """Tells the listeners of one thread what runs in it."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.places = Places(self._enter, self._leave)
        self.mode = Operators(
            self._tell, self._on_softmax, self._where, self._parameters, self.failed
        )
        self.count = 0  # calls so far
        self.paused = False  # while a call is judged
        self._of_root: tuple[int, frozenset[int]] = (0, frozenset())

    def _where(self) -> str:
        return self.places.here() or _line()

    def _on_softmax(self, place: str, by: int) -> None:
        for each in self.listeners:
            if self.places.inside(each.members, each.compiled):
                each._on_softmax(place, by)

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
        """Calls the function, and tells of it."""
        before, self.mode.kernel = self.count, ""
        self.mode.inside += not function.hands_on
        start = time.perf_counter()
        try:
            with _disable_current_modes() if function.apart else contextlib.nullcontext():
                output = original(*args, **kwargs)
        finally:
            self.mode.inside -= not function.hands_on
        seconds = time.perf_counter() - start
        given = bind(original, args, kwargs) if self.count == before else None
        if given is None:
            return output
        call = None
        with self.aside():
            call = function.read(given, output)
            call.seconds = seconds
            call.kernel = call.kernel or self.mode.kernel or MATH
            if call.function == FUSED and call.kernel == MATH:
                call.why = lambda: reason(given)
        if call is not None:
            self._tell(call)
        return output

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What runs here is nobody's, and what fails here fails for nobody: it is noted."""
        self.paused = True
        compiler = set_eval_frame(None)  # nothing here is compiled
        try:
            with _disable_current_modes(), torch.no_grad(), torch.device("cpu"):
                yield
        except Exception as error:
            self.failed(error)
        finally:
            set_eval_frame(compiler)
            self.paused = False

    def failed(self, error: Exception) -> None:
        """Something could not be looked at; the model must not notice."""
        for each in self.listeners:
            each._on_error(self._where(), error)

    def _tell(self, call: Call) -> None:
        self.count += 1
        call.name = self._where()
        if self.places.stack:
            module = self.places.stack[-1]
            call.training = module.training
            if call.function == OWN:
                divide(call, heads_of(module))
                if isinstance(module, nn.MultiheadAttention):
                    call.why = lambda: NEED_WEIGHTS
        for each in self.listeners:
            if self.places.inside(each.members, each.compiled):
                with self.aside():
                    each._on_call(call)

    def _enter(self, module: nn.Module, name: str) -> None:
        for each in self.listeners:
            if len(self.places.stack) == 1:
                each._on_start()
            if self.places.inside(each.members, each.compiled):
                with self.aside():
                    each._on_enter(module, name)

    def _leave(self, module: nn.Module, name: str, inputs: Any, output: Any) -> None:
        for each in self.listeners:
            if self.places.inside(each.members, each.compiled):
                with self.aside():
                    each._on_leave(module, name, inputs, output)
            if len(self.places.stack) == 1:
                with self.aside():
                    each._on_end()


def _line() -> str:
    """The file and the line that called, where no module does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _NOT_THEIRS.match(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


# Ours, PyTorch's, and what a compiler wrote.
_FOLDERS = (str(Path(__file__).parent), str(Path(torch.__file__).parent), contextlib.__file__)
_NOT_THEIRS = re.compile(
    "|".join([*map(re.escape, _FOLDERS), "<eval_with_key>", ".*torchinductor"])
)


@contextlib.contextmanager
def in_thread() -> Iterator[Recorder]:
    """The recorder of this thread; the outermost of those who ask makes it."""
    recorder: Recorder | None = getattr(_here, "recorder", None)
    if recorder is not None:
        yield recorder
        return
    recorder = _here.recorder = Recorder()
    try:
        with recorder.mode:
            yield recorder
    finally:
        del _here.recorder


def current() -> Recorder | None:
    """The recorder of this thread, if somebody watches in it and no call is judged now."""
    if torch.compiler.is_compiling():
        return None
    recorder: Recorder | None = getattr(_here, "recorder", None)
    if recorder is None or recorder.paused or _is_abstract():
        return None
    if torch._C._current_graph_task_id() >= 0:  # a backward pass computes it again
        return None
    return recorder


def _is_abstract() -> bool:
    """Whether what runs has no numbers to look at, or they may not be looked at now."""
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    )
