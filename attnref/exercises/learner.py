"""The learner's function, from the learner's file."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnref.conformance.verdict import Finding
from attnref.exercises import findings
from attnref.exercises.findings import failure
from attnref.exercises.grading import describe_error, error_finding


class UnfitError(Exception):
    """The file has no function that could be judged; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


def load(path: Path, name: str, parameters: inspect.Signature) -> Callable[..., Any]:
    """The function ``name`` of the file, which can be called as the exercise says.

    The file is run as a module, and may import others that lie beside it. Nothing is written.

    Raises:
        UnfitError: when it cannot be read, is not Python, raises, lacks the function, or has it
            with other parameters.
    """
    file = str(path)
    try:
        code = compile(path.read_bytes(), file, "exec")
    except SyntaxError as error:
        code_line = (error.text or "").strip()
        raise UnfitError(
            failure(findings.SYNTAX, error=error.msg, line=error.lineno or 1, code=code_line)
        ) from None
    except (OSError, ValueError) as error:
        raise UnfitError(failure(findings.UNREADABLE, error=describe_error(error))) from None

    spec = importlib.util.spec_from_loader(name, loader=None, origin=file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = file
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise UnfitError(
            failure(findings.FILE_RAISED, **error_finding(error, file).values)
        ) from None
    finally:
        sys.dont_write_bytecode = writes

    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        there = sorted(each for each, value in vars(module).items() if inspect.isfunction(value))
        names = ", ".join(there) or "–"
        raise UnfitError(failure(findings.NO_FUNCTION, name=name, there=names))
    _check_parameters(function, name, parameters)
    sys.modules[name] = module  # a file beside it that imports it gets this one
    return function


def _check_parameters(
    function: Callable[..., Any], name: str, parameters: inspect.Signature
) -> None:
    try:
        found = inspect.signature(function)
    except ValueError:  # written in C; calling it will tell
        return
    try:
        found.bind(*parameters.parameters)
    except TypeError:
        values = {"expected": str(parameters), "came": str(found)}
        raise UnfitError(failure(findings.SIGNATURE, name=name, **values)) from None
