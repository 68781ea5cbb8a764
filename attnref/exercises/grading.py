"""Judges a function by cases whose answers are known, and says what came on the first that fails.

A :class:`Grader` is a list of checks. A check is a generator of cases, smallest first, whose name
says what goes wrong when it fails: one property, one defect. What it finds are plain strings, so
that they can leave the process in which the function ran.
"""

import copy
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Function = Callable[..., Any]
Arguments = dict[str, Any]

# A case adds up at most 2^6 terms and raises e to scores of at most 2^4 (or to exact integers),
# so that float32, whose rounding is 2^-24, errs by at most 2^(6 + 4 - 24) of the largest number,
# or of 1, the size of the inputs, where terms cancel.
TOLERANCE = 2.0**-14

# What nobody who is to write an attention may call.
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})

_SHOWN_NUMBERS = 48


class Observer(NamedTuple):
    """What of a call is compared, and the key of the phrase that names it."""

    name: str
    look: Callable[[Function, Arguments], Any]


RESULT = Observer("result", lambda function, arguments: function(*arguments.values()))


class Case(NamedTuple):
    """One call and what it should give: a tensor, a tuple of tensors, or a number."""

    arguments: Arguments
    expected: Any
    observer: Observer = RESULT


Check = Callable[[], Iterator[Case]]


class Grader(NamedTuple):
    """How an exercise is judged.

    Attributes:
        checks: in the order in which a learner should hear of them.
        without: names of PyTorch functions that would do the exercise, and may not be called.
        properties: of :mod:`attnref.conformance`, for a function that is a whole attention.
    """

    checks: tuple[Check, ...]
    without: frozenset[str] = frozenset()
    properties: tuple[str, ...] = ()


class Failure(NamedTuple):
    """Why a check failed: the key of a sentence, and what that sentence tells."""

    kind: str
    facts: dict[str, str]
    arguments: dict[str, str]
    observed: str = "result"


class Outcome(NamedTuple):
    """A check and, unless it passed, why."""

    check: str
    failure: Failure | None


class Complaint(Exception):
    """Raised by an observer that cannot look: the kind of the failure."""


class Watch(TorchFunctionMode):
    """Notes which functions of PyTorch are called, and the largest tensor that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()
        self.largest = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.called.add(func.__name__)
        if isinstance(result, Tensor):
            # Of its storage, for an expanded view repeats numbers without holding them.
            held = result.untyped_storage().nbytes() // result.itemsize
            self.largest = max(self.largest, held)
        return result


def gradient_of(argument: str, upstream: Tensor) -> Observer:
    """Looks at the gradient of ``(output * upstream).sum()`` for one argument."""

    def look(function: Function, arguments: Arguments) -> Any:
        leaf = arguments[argument].clone().requires_grad_()
        output = function(*(arguments | {argument: leaf}).values())
        if not isinstance(output, Tensor) or output.shape != upstream.shape:
            return output
        if not output.requires_grad:
            raise Complaint("no_gradient")
        return torch.autograd.grad(output, leaf, upstream)[0]

    return Observer("gradient", look)


def largest_tensor(allowed: int) -> Observer:
    """Looks at the largest tensor that a call makes; up to ``allowed`` numbers count as that."""

    def look(function: Function, arguments: Arguments) -> int:
        with Watch() as watch:
            function(*arguments.values())
        return max(allowed, watch.largest)

    return Observer("largest", look)


def grade(function: Function, grader: Grader, file: str) -> Iterator[Outcome]:
    """Every check with its outcome; a function that is not written yet ends it at once.

    Args:
        function: the learner's.
        grader: of the exercise.
        file: where the function was written, to name the line that raised.
    """
    for check in grader.checks:
        failure = next(_failures(function, check, grader.without, file), None)
        yield Outcome(check.__name__, failure)
        if failure is not None and failure.kind == "unwritten":
            return


def _failures(
    function: Function, check: Check, without: frozenset[str], file: str
) -> Iterator[Failure]:
    for case in check():
        found = _failure(function, case, without, file)
        if found is not None:
            kind, facts = found
            arguments = {name: shown(value) for name, value in case.arguments.items()}
            yield Failure(kind, facts, arguments, case.observer.name)


def _failure(
    function: Function, case: Case, without: frozenset[str], file: str
) -> tuple[str, dict[str, str]] | None:
    arguments = copy.deepcopy(case.arguments)
    try:
        with Watch() as watch:
            came = case.observer.look(function, arguments)
    except NotImplementedError:
        return "unwritten", {}
    except Complaint as complaint:
        return str(complaint), {}
    except (Exception, SystemExit) as error:
        return "error", error_facts(error, file)
    shortcuts = sorted(watch.called & without)
    if shortcuts:
        return "shortcut", {"called": ", ".join(shortcuts)}
    changed = [name for name, value in arguments.items() if not same(value, case.arguments[name])]
    if changed:
        return "changed", {"argument": changed[0]}
    return difference(case.expected, came)


def error_facts(error: BaseException, file: str) -> dict[str, str]:
    """What was raised, and the last line of ``file`` that led to it."""
    facts = {"error": type(error).__name__, "message": str(error).strip(), "line": "", "code": ""}
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            facts |= {"line": str(frame.lineno), "code": frame.line or ""}
    return facts


def same(one: Any, other: Any) -> bool:
    """Whether two arguments hold the same, NaN in the same places included."""
    if isinstance(one, Tensor):
        return one.shape == other.shape and torch.allclose(one, other, 0.0, 0.0, equal_nan=True)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def difference(expected: Any, came: Any) -> tuple[str, dict[str, str]] | None:
    """The kind and the facts of the first difference, or None."""
    if came is None:
        return "nothing", {"expected": shown(expected)}
    if isinstance(expected, tuple):
        if not isinstance(came, tuple | list) or len(came) != len(expected):
            return "type", {"expected": kind_of(expected), "came": kind_of(came)}
        for number, pair in enumerate(zip(expected, came, strict=True), start=1):
            found = difference(*pair)
            if found is not None:
                return found[0], found[1] | {"part": str(number)}
        return None
    if not isinstance(expected, Tensor):
        return None if expected == came else ("value", _both(expected, came))
    if not isinstance(came, Tensor):
        return "type", {"expected": kind_of(expected), "came": kind_of(came)}
    if came.shape != expected.shape:
        facts = {"expected": shape_of(expected), "came": shape_of(came)}
        return "shape", facts
    if came.dtype != expected.dtype:
        return "dtype", {"expected": str(expected.dtype), "came": str(came.dtype)}
    came = came.detach()
    wrong = ~_close(expected, came)
    if not wrong.any():
        return None
    where = [int(index) for index in wrong.nonzero()[0]]
    facts = _both(expected, came) | {"count": str(int(wrong.sum())), "all": str(wrong.numel())}
    if where:
        place = tuple(where)
        facts |= {
            "where": str(where),
            "expected_there": f"{expected[place].item():.6g}",
            "came_there": f"{came[place].item():.6g}",
        }
    return "value", facts


def _close(expected: Tensor, came: Tensor) -> Tensor:
    if not expected.is_floating_point():
        return expected == came
    finite = expected[expected.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 0.0
    return torch.isclose(came, expected, rtol=0.0, atol=TOLERANCE * max(1.0, size), equal_nan=True)


def _both(expected: Any, came: Any) -> dict[str, str]:
    return {"expected": shown(expected), "came": shown(came)}


def shown(value: Any) -> str:
    """An argument or a result as a learner would write it; a large tensor by its shape alone."""
    if isinstance(value, Tensor):
        if value.numel() > _SHOWN_NUMBERS:
            return kind_of(value)
        return repr(value.detach())
    if isinstance(value, tuple | list):
        left, right = "()" if isinstance(value, tuple) else "[]"
        return left + ",\n ".join(map(shown, value)) + right
    return repr(value)


def kind_of(value: Any) -> str:
    """The type of a result in Python's own words, with the shape of a tensor."""
    if isinstance(value, Tensor):
        return f"Tensor{shape_of(value)}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(kind_of, value))})"
    return type(value).__name__


def shape_of(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
