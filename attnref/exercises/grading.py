"""Judges a function by cases whose answers are known, and says what came on the first that fails.

A :class:`Grader` is a list of checks. A check is a generator of cases, smallest first, whose name
says what goes wrong when it fails: one property, one defect. What it finds is plain text, so that
it can leave the process in which the function ran.
"""

import copy
import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attnref.conformance.verdict import Counterexample, Finding
from attnref.exercises import findings
from attnref.exercises.findings import failure
from attnref.text import Text

Function = Callable[..., Any]
Arguments = dict[str, Any]

# A case adds up at most 2^6 terms and raises e to scores of at most 2^4 (or to exact integers),
# so that float32, whose rounding is 2^-24, errs by at most 2^(6 + 4 - 24) of the largest number,
# or of 1, the size of the inputs, where terms cancel.
TOLERANCE = 2.0**-14

# What nobody who is to write an attention, or a softmax, may call: whatever has it in its name.
ATTENTION = frozenset({"scaled_dot_product", "multi_head_attention"})
SOFTMAX = frozenset({"softmax", "softmin", "logsumexp", "logaddexp", "logcumsumexp"})

_SHOWN_NUMBERS = 48


class Observer(NamedTuple):
    """What of a call is compared: ``look`` at it, and ``which`` says what was looked at."""

    look: Callable[[Function, Arguments], Any]
    which: Text = findings.THE_RESULT


RESULT = Observer(lambda function, arguments: function(*arguments.values()))


class Case(NamedTuple):
    """One call and what it should give: a tensor, a tuple of tensors, or a largest number."""

    arguments: Arguments
    expected: Any
    observer: Observer = RESULT


Check = Callable[[], Iterator[Case]]


class Grader(NamedTuple):
    """How an exercise is judged.

    Attributes:
        checks: in the order in which a learner should hear of them.
        without: parts of the names of PyTorch's functions that would do the exercise, and may
            not be called. What this package has may never be.
        properties: of :mod:`attnref.conformance`, for a function that is a whole attention.
        fixed: arguments that it needs after query, key and value to be asked about these.
        usual: checks whose usual slip may also end otherwise than in wrong numbers, and how, as
            :func:`attnref.exercises.findings.kind` names it.
    """

    checks: tuple[Check, ...]
    without: frozenset[str] = frozenset()
    properties: tuple[str, ...] = ()
    fixed: tuple[object, ...] = ()
    usual: tuple[tuple[Check, str], ...] = ()


class Cut(Exception):
    """The result of a call carries no gradient."""


class Watch(TorchFunctionMode):
    """Notes which functions of PyTorch and of this package are called, and the largest tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()
        self.borrowed: set[str] = set()
        self.largest = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.called.add(func.__name__.removesuffix(".default"))
        self.borrowed |= _callers_of_this_package()
        if isinstance(result, Tensor):
            self.largest = max(self.largest, _stored_numbers(result))
        return result


def _stored_numbers(tensor: Tensor) -> int:
    """The numbers in its storage, for an expanded view repeats some without holding them."""
    try:
        return tensor.untyped_storage().nbytes() // tensor.itemsize
    except NotImplementedError:  # inside vmap, or sparse: it has none that can be seen
        return tensor.numel()


class Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes which kernels run, those too that are reached past the functions, by a script, say."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.called: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Or else the first call loads the compiler of PyTorch, in each forked process again."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.called.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _callers_of_this_package() -> set[str]:
    """Functions of the package, other than exercises, that run in the call which is watched."""
    found = set()
    frame = inspect.currentframe()
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("attnref.") and not module.startswith("attnref.exercises."):
            found.add(f"{module}.{frame.f_code.co_name}")
        if frame.f_code is _find.__code__:
            return found
        frame = frame.f_back
    return set()


def gradient_of(argument: str, upstream: Tensor) -> Observer:
    """Looks at the gradient of ``(output * upstream).sum()`` for one argument."""

    def look(function: Function, arguments: Arguments) -> Any:
        leaf = arguments[argument].clone().requires_grad_()
        output = function(*(arguments | {argument: leaf}).values())
        if not isinstance(output, Tensor) or output.shape != upstream.shape:
            return output
        if not output.requires_grad:
            raise Cut
        return torch.autograd.grad(output, leaf, upstream)[0]

    return Observer(look, findings.THE_GRADIENT.fill({"argument": argument}))


def largest_tensor(allowed: int) -> Observer:
    """Looks at the largest tensor that a call makes; up to ``allowed`` numbers count as that."""

    def look(function: Function, arguments: Arguments) -> int:
        watch = Watch()
        with watch:
            function(*arguments.values())
        return max(allowed, watch.largest)

    return Observer(look, findings.THE_LARGEST)


def grade(check: Check, function: Function, file: str, without: frozenset[str]) -> Finding | None:
    """What is wrong with ``function`` in the first case of ``check`` that fails, None if none does.

    Args:
        check: of an exercise.
        function: the learner's.
        file: where it was written, to name the line that raised.
        without: parts of the names of PyTorch's functions that it may not call.
    """
    found = (_find(case, function, file, without) for case in check())
    return next((each for each in found if each is not None), None)


def _find(case: Case, function: Function, file: str, without: frozenset[str]) -> Finding | None:
    arguments = copy.deepcopy(case.arguments)
    call: dict[str, object] = {name: format_value(value) for name, value in arguments.items()}
    watch, kernels = Watch(), Kernels()
    try:
        with kernels, watch:
            came = case.observer.look(function, arguments)
    except NotImplementedError as error:
        if "raise" in (traceback.extract_tb(error.__traceback__)[-1].line or "raise"):
            return failure(findings.UNWRITTEN)
        # PyTorch has nothing for this dtype, say.
        return replace(error_finding(error, file), counterexample=Counterexample(call, None, None))
    except Cut:
        return replace(
            failure(findings.NO_GRADIENT), counterexample=Counterexample(call, None, None)
        )
    except (Exception, SystemExit) as error:
        return replace(error_finding(error, file), counterexample=Counterexample(call, None, None))
    shortcuts = _find_forbidden(watch.called, without) | watch.borrowed
    shortcuts = shortcuts or _find_forbidden(kernels.called, without)
    if shortcuts:
        return failure(findings.SHORTCUT, called=", ".join(sorted(shortcuts)))
    changed = [
        name for name, value in arguments.items() if not is_same(value, case.arguments[name])
    ]
    if changed:
        found: Finding | None = failure(findings.CHANGED, argument=changed[0])
    else:
        found = difference(case.expected, came, case.observer.which)
    if found is None:
        return None
    seen = Counterexample(call, format_value(came), format_value(case.expected))
    return replace(found, counterexample=seen)


def _find_forbidden(called: set[str], without: frozenset[str]) -> set[str]:
    return {name for name in called if any(part in name for part in without)}


def error_finding(error: BaseException, file: str) -> Finding:
    """What was raised, and the last line of ``file`` that led to it."""
    said = describe_error(error)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == file:
            return failure(findings.RAISED_AT, error=said, line=frame.lineno, code=frame.line or "")
    return failure(findings.RAISED, error=said)


def describe_error(error: BaseException) -> str:
    """The type of an error with its message, on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def is_same(one: Any, other: Any) -> bool:
    """Whether two arguments hold the same, NaN in the same places included."""
    if isinstance(one, Tensor):
        return one.shape == other.shape and torch.allclose(one, other, 0.0, 0.0, equal_nan=True)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return bool(one == other)


def difference(expected: Any, came: Any, which: Text = findings.THE_RESULT) -> Finding | None:
    """The first difference, or None."""
    if came is None:
        return failure(findings.NOTHING, which=which)
    if isinstance(expected, int | float):
        bound = {"expected": expected, "came": came}
        return None if came == expected else failure(findings.AT_MOST, which=which, **bound)
    if isinstance(expected, tuple) and isinstance(came, tuple | list):
        if len(came) == len(expected):
            return _first_part(expected, came)
    elif isinstance(expected, Tensor) and isinstance(came, Tensor):
        return _tensor_difference(expected, came.detach(), which)
    types = {"expected": kind_of(expected), "came": kind_of(came)}
    return failure(findings.TYPE, which=which, **types)


def _first_part(expected: tuple[Any, ...], came: tuple[Any, ...] | list[Any]) -> Finding | None:
    for number, pair in enumerate(zip(expected, came, strict=True), start=1):
        part = findings.A_PART.fill({"number": number, "count": len(expected)})
        found = difference(*pair, part)
        if found is not None:
            return found
    return None


def _tensor_difference(expected: Tensor, came: Tensor, which: Text) -> Finding | None:
    if came.shape != expected.shape:
        shapes = {"expected": shape_of(expected), "came": shape_of(came)}
        return failure(findings.SHAPE, which=which, **shapes)
    if came.dtype != expected.dtype:
        return failure(findings.DTYPE, which=which, expected=expected.dtype, came=came.dtype)
    wrong = ~_is_close(expected, came)
    if not wrong.any():
        return None
    index = tuple(int(each) for each in wrong.nonzero()[0])
    values = {"expected": _number(expected[index]), "came": _number(came[index])}
    if not index:
        return failure(findings.NUMBER, which=which, **values)
    counts = {"wrong": int(wrong.sum()), "all": wrong.numel(), "where": list(index)}
    return failure(findings.VALUE, which=which, **counts, **values)


def _is_close(expected: Tensor, came: Tensor) -> Tensor:
    if not expected.is_floating_point():
        return expected == came
    finite = expected[expected.isfinite()].abs()
    size = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return torch.isclose(came, expected, rtol=0.0, atol=TOLERANCE * size, equal_nan=True)


def _number(entry: Tensor) -> str:
    value = entry.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_value(value: Any) -> str:
    """An argument or a result as a learner would write it; a large tensor by its shape alone."""
    if isinstance(value, Tensor):
        return repr(value.detach()) if value.numel() <= _SHOWN_NUMBERS else kind_of(value)
    if isinstance(value, tuple | list):
        left, right = "()" if isinstance(value, tuple) else "[]"
        return left + ",\n ".join(map(format_value, value)) + right
    if isinstance(value, dict):
        return "{" + ",\n ".join(f"{key!r}: {format_value(value[key])}" for key in value) + "}"
    return repr(value)


def kind_of(value: Any) -> str:
    """The type of a result in Python's own words, with the shape of a tensor."""
    if isinstance(value, Tensor):
        return f"Tensor{shape_of(value)}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(kind_of, value))})"
    return type(value).__name__


def shape_of(tensor: Tensor) -> str:
    """The shape as a tuple."""
    return str(tuple(tensor.shape))
