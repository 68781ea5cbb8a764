"""Judges a function that is named, in a process of its own from the loading on.

To load a module is to run it: it may hang, crash, end its process, or change the state of the one
that it is loaded into.
"""

import functools
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

import torch

from attnref.conformance.isolation import Process
from attnref.conformance.subject import CheckError

F = TypeVar("F")
T = TypeVar("T")

_LOADING = 6  # times the limit of a property: large libraries take long to import


def judge_named(
    target: str,
    find: Callable[[], F],
    judge: Callable[..., T],
    limit: float | None,
    told: Callable[..., None] | None = None,
) -> T:
    """What ``judge`` says of the function that ``find`` loads, a report mostly.

    Args:
        target: its name, as messages give it.
        find: loads it, in six times ``limit`` seconds; prints go to the error stream.
        judge: asks it.
        limit: seconds for a property; None asks in this process.
        told: what ``judge`` calls in between, if anything.

    Raises:
        CheckError: of both, and when the process hangs or ends before the report.
        RuntimeError: when something broke that is not the function.

    Where there is no fork it is all done in this process, and nothing stops it.
    """
    if limit is None or sys.platform != "linux":
        return judge(find(), told=told) if told else judge(find())
    process = Process(functools.partial(_host, find, judge, telling=bool(told)), daemon=False)
    loading = _LOADING * limit
    kind = ""
    try:
        while kind != "report":
            if not process.connection.poll(None if kind else loading):
                raise CheckError(
                    "function: {target} did not load within {loading:g} s. Fix it, so that it can "
                    "be imported by itself, or give it more --limit.",
                    target=target,
                    loading=loading,
                )
            kind, said = process.connection.recv()
            if kind == "refused":
                raise CheckError(said)
            if kind == "broken":
                raise RuntimeError(said)
            if kind == "told" and told is not None:
                told(*said)
        report: T = pickle.loads(said)
        return report
    except EOFError:
        ended = process.how_it_ended()
        raise CheckError(
            "function: {target} ended its process before it could be tested: {ended}. Fix it, so "
            "that it can be imported by itself.",
            target=target,
            ended=ended,
        ) from None
    finally:
        process.end()


def _host(
    find: Callable[[], F],
    judge: Callable[..., object],
    connection: Connection,
    *,
    telling: bool = False,
) -> None:
    """What the process does: it loads the function, and says so; then it hands over the report."""
    sys.argv = sys.argv[:1]  # for a script that reads its arguments
    sys.dont_write_bytecode = True
    os.dup2(2, 1)
    torch.set_num_threads(1)  # threads of its own would be lost to the processes that are asked
    try:
        about = find()
        connection.send(("loaded", None))
        # In bytes of its own: torch would send the tensors in it through files that go with it.
        tell = {"told": lambda *said: connection.send(("told", said))} if telling else {}
        connection.send(("report", pickle.dumps(judge(about, **tell))))
    except CheckError as error:
        connection.send(("refused", error.text))
    except RuntimeError as error:  # of a property, with all there is to say
        connection.send(("broken", str(error)))
    except Exception:
        connection.send(("broken", traceback.format_exc()))
