"""A process of its own for a function that may hang or crash.

The process is forked, so that any function can be asked, closures too, and nothing is loaded
twice. It computes on one thread, for the threads of its parent do not live on in it, and what the
function prints goes nowhere. It may take half of the machine's memory. One that hangs, or has run
out of memory, is killed with all that it started, and the next property gets a new one. It does
not outlive its parent, however that ends.
"""

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

HUNG = Text("It did not return within {limit:g} s, and was stopped.")
CRASHED = Text("It ended its process: {how}.")
OUT_OF_MEMORY = Text("It ran out of memory (at {place}).")
NOT_ASKED = Text("Not tested: none of the first {count} properties finished within {limit:g} s.")
LATE = Text("Not tested: the earlier properties took {whole:g} s, the limit for all of them.")

# Names a property, and yields what is found, each answer better than the one before.
Ask = Callable[[str], Iterator[Finding | None]]

_STRIKES = 3  # if it hangs so often from the start on, the rest is not asked
_START = 120.0  # seconds that a process may take to reach the device
_END = 5.0  # and to be gone when it has closed its connection
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_SHARE = 0.5  # of the machine's memory, which a process may take beside what its parent holds


class Unusable(Exception):
    """No process of its own can be had for a function here."""


def run_isolated(
    names: Iterable[str],
    ask: Ask,
    device: torch.device,
    limit: float,
    whole: float = math.inf,
    *,
    again: bool = True,
) -> Iterator[Finding | None]:
    """For each name the best answer of ``ask`` that a forked process gives in ``limit`` seconds.

    After ``whole`` seconds the rest is not asked, and what is being asked is stopped. What hangs
    is asked once ``again``, in a new process.

    Raises:
        Unusable: before the first answer, when there is no fork, or when what the parent has
            done, with CUDA, with gradients on it or with JAX, leaves them unusable in a fork.
    """
    used = device.type == "cuda" and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if sys.platform != "linux" or used or _jax_has_computed():
        raise Unusable
    child, hung, end = _Child(ask, device), 0, time.monotonic() + whole
    try:
        for count, name in enumerate(names):
            if hung == _STRIKES:
                yield Finding(Verdict.WRONG, NOT_ASKED, {"count": hung, "limit": limit})
                continue
            left = end - time.monotonic()
            if left <= 0:
                yield Finding(Verdict.NOT_ASKED, LATE, {"whole": whole})
                continue
            if not child.alive:
                child = _Child(ask, device)
            finding = child.answer(name, min(limit, left))
            # What answers else may have been held up: by the machine, or by a lock of a thread
            # that the fork lost. Before that is called a hang, a new process is asked.
            late = time.monotonic() >= end
            if again and _is_hung(finding) and (not hung or hung < count) and not late:
                # A backward pass of its own may have waited for PyTorch to load this, for seconds.
                importlib.import_module("torch.fx.experimental.symbolic_shapes")
                child, left = _Child(ask, device), end - time.monotonic()
                finding = child.answer(name, min(limit, left))
            if left < limit and _is_hung(finding):
                finding = Finding(Verdict.NOT_ASKED, LATE, {"whole": whole})
            if hung == count and _is_hung(finding):
                hung += 1
            yield finding
    finally:
        child.end()


def _is_hung(finding: Finding | None) -> bool:
    return finding is not None and finding.text == HUNG


def _jax_has_computed() -> bool:
    """Whether it has threads already, which a fork would lose, and wait for without an end."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


class Process:
    """A forked process, the connection to it, and its end.

    Args:
        work: what it does, with its end of the connection.
        daemon: it may have no such process of its own.
    """

    def __init__(self, work: Callable[[Connection], None], *, daemon: bool) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_run_child, args=(theirs, self.connection, work), daemon=daemon
        )
        with warnings.catch_warnings():  # of threads that a fork loses: it uses none of them
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()
        self.alive = True

    def how_it_ended(self) -> str:
        """Of one that has closed the connection: its signal, or its exit status."""
        self.process.join(_END)
        self.end()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def end(self) -> None:
        """Kills it, whatever it does, and what it has started."""
        self.alive = False
        self.process.kill()
        with contextlib.suppress(ProcessLookupError):  # when all of them are gone
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        self.connection.close()


class _Child(Process):
    """A forked process that answers, one name after the other."""

    def __init__(self, ask: Ask, device: torch.device) -> None:
        super().__init__(functools.partial(_answer, ask, device), daemon=True)
        if not self.connection.poll(_START) or not self._is_ready():
            self.end()
            raise Unusable

    def _is_ready(self) -> bool:
        try:
            return bool(self.connection.recv())
        except EOFError:
            return False

    def answer(self, name: str, limit: float) -> Finding | None:
        """The last thing said in time; that it hung or crashed, if nothing was."""
        self.connection.send(name)
        end = time.monotonic() + limit
        found: list[Finding | None] = []
        while self.connection.poll(max(0.0, end - time.monotonic())):
            try:
                kind, said = self.connection.recv()
            except EOFError:
                crashed = Finding(Verdict.WRONG, CRASHED, {"how": self.how_it_ended()})
                return found[-1] if found else crashed
            if kind == "broken":
                raise RuntimeError(f"the property {name} itself broke:\n{said}")
            if kind == "done":
                finding = found[-1]
                if finding is not None and finding.text == OUT_OF_MEMORY:
                    self.end()  # what has filled it may still be there
                return finding
            found.append(said)
        self.end()
        return found[-1] if found else Finding(Verdict.WRONG, HUNG, {"limit": limit})


def _run_child(
    connection: Connection, parents: Connection, work: Callable[[Connection], None]
) -> None:
    """What a forked process does."""
    parents.close()
    faulthandler.disable()  # how it ended is reported by its parent, in a line
    _bind()
    work(connection)


def _bind() -> None:
    """It dies with its parent; Ctrl-C is its parent's, and its group are those it starts."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answer(ask: Ask, device: torch.device, connection: Connection) -> None:
    """It falls silent, then answers until its parent is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    _limit_memory()
    with (
        open(os.devnull, "w") as silent,
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
        torch.enable_grad(),  # where the function's module has switched it off
    ):
        serve(connection, ask, device)


def _limit_memory() -> None:
    """Asking for more fails from here on; by that one that grows is stopped before the machine.

    What counts is memory that can be written to: a GPU's driver reserves many more addresses.
    """
    import resource  # which other systems lack, as they lack /proc

    page = os.sysconf("SC_PAGE_SIZE")
    held = page * int(Path("/proc/self/statm").read_text().split()[5])
    own = held + int(_SHARE * page * os.sysconf("SC_PHYS_PAGES"))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    own = own if soft == resource.RLIM_INFINITY else min(own, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (own, hard))


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error, Python's or PyTorch's, says so."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def serve(connection: Connection, ask: Ask, device: torch.device) -> None:
    """Answers each name that comes in: what is found, piece by piece, and that it is done."""
    try:
        probe = torch.ones(1, device=device, requires_grad=True)
        probe.sum().backward()  # type: ignore[no-untyped-call]
    except Exception:
        connection.send(False)
        return
    connection.send(True)
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        try:
            for finding in ask(name):
                connection.send(("found", finding))
            connection.send(("done", None))
        except Exception as error:
            if ran_out_of_memory(error):  # what the function keeps leaves none to its examiner
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{frame.filename}:{frame.lineno}"
                connection.send(("found", Finding(Verdict.WRONG, OUT_OF_MEMORY, {"place": place})))
                connection.send(("done", None))
            else:
                connection.send(("broken", traceback.format_exc()))
