"""The function under test, called and compared; what a property talks to."""

import contextlib
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import torch
from torch import Tensor

from attnref.conformance import budget, difference, program, recurrence
from attnref.conformance.budget import Gradient, Question, Setting, Truth, loss
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss, simplify
from attnref.conformance.difference import Difference
from attnref.conformance.recurrence import Recurrence
from attnref.conformance.subject import Subject, place_of
from attnref.conformance.verdict import Counterexample, Finding, Verdict
from attnref.text import Text

# In an error of PyTorch's own they show that it is about an option, a dtype or a limit, and not
# about numbers that happen not to fit.
_MEANT = (
    *("mask", "causal", "scale", "gqa", "dropout", "softcap", "window"),
    *("not implemented for", "support", "multiple of", "divisible", "unexpected keyword"),
)
_ROUNDING = (
    64  # times the dtype's own, of the largest number: what a function may differ from itself
)
_STEPS = 16  # roundings of a position that count, where a reference is all that is known
_MEASURED = 2e-4  # of the largest number, where constants were measured
_Law = TypeVar("_Law")
_PYTORCH = str(Path(torch.__file__).parent)

NOT_A_TENSOR = Text("It returned {kind}, not a tensor. Does every path end in return?")
STRANGE_TENSOR = Text(
    "It returned a tensor of {dtype} and {layout}, expected floating numbers, torch.strided."
)
WRONG_DEVICE = Text(
    "For inputs on {given} it returned its output on {got}. Make new tensors with "
    "device=query.device."
)
WRONG_SHAPE = Text("It returned shape {got}, expected {expected}: (batch, heads, n, d_v).")
UNCLEAR = Text(
    "Not tested: its answers do not show which constants it has, for heads and width {shape}."
)
BESIDE_RAISED = Text("Not tested: the function beside it raised {error}.")
NOTHING_SUCH = Text("It has nothing of this kind.")
APART = Text("Not tested: query, key and value cannot be given apart to this layer.")
MISSING = Text("It takes no {missing}; its parameters are {parameters}.")


PERHAPS = Text(
    "Its {parameter} may be {option}, and was not tested: --map {option}={parameter}, if it is."
)


class Stopped(Exception):
    """A property cannot go on; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class Raised(Exception):
    """The function raised ``error``, at ``place`` in its own code.

    ``own`` where the file that defines the function raises it, and no library that it calls;
    ``deliberate`` where the innermost line is a ``raise`` or an ``assert``, or cannot be read.
    ``hint`` says what it answers instead.
    """

    hint = Text("")

    def __init__(
        self, error: BaseException, place: str, *, own: bool = True, deliberate: bool = True
    ) -> None:
        self.error = error
        self.place = place
        self.own = own
        self.deliberate = deliberate


class Call(NamedTuple):
    """One call: what went in, and what came out, None until it did; what the function got."""

    arguments: dict[str, object]
    output: Tensor | None
    got: list[program.Got]


class Trial:
    """A subject in one dtype on one device.

    Tensors come in and go out in float64 on the CPU; in between they are what the function
    gets, rounded to ``dtype``, and what it returns, exactly.
    """

    def __init__(self, subject: Subject, dtype: torch.dtype, device: torch.device) -> None:
        self.subject = subject
        self.dtype = dtype
        self.device = device
        self.last: Call | None = None
        self._measured: dict[int, Tensor] = {}
        self._biases: dict[tuple[int, int], Tensor] = {}
        self._laws: dict[tuple[int, int], Recurrence | Difference] = {}
        self.seed = 0  # of the case

    def offers(self, *options: str) -> bool:
        """Whether the function takes all of these."""
        return all(option in self.subject.supports for option in options)

    def fit(self, sizes: Sizes) -> Sizes:
        """These, or the next ones that the function is made for."""
        if self.subject.reading.formula.turn is not None:  # pairs, or pairs of a part
            sizes = replace(sizes, d_k=-(-sizes.d_k // 8) * 8)
        if isinstance(self.subject.reading.law, Difference):  # two halves
            sizes = replace(sizes, d_k=-(-sizes.d_k // 2) * 2)
        return sizes if self.subject.reading.fits is None else sizes.fit(*self.subject.reading.fits)

    def fitting(self) -> bool:
        """Whether the last call had sizes that the function is made for."""
        assert self.last is not None
        assert self.subject.reading.fits is not None
        step, width = self.subject.reading.fits
        tensors = [x for x in self.last.arguments.values() if isinstance(x, Tensor)][:3]
        return all(x.shape[-2] % step == 0 and x.shape[-1] == width for x in tensors)

    def cast(self, tensor: Tensor) -> Tensor:
        """What the function gets for ``tensor``: a copy, floats in the dtype, bools as they are."""
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, dtype, copy=True)

    def cast_options(self, options: dict[str, object]) -> dict[str, object]:
        return {
            name: self.cast(option) if isinstance(option, Tensor) else option
            for name, option in options.items()
        }

    def to_double(self, tensor: Tensor) -> Tensor:
        """The numbers that the function gets for ``tensor``, in float64 on the CPU."""
        return tensor.to(self.dtype).double()

    def call_raw(self, query: Tensor, key: Tensor, value: Tensor, /, **options: Any) -> object:
        """Whatever the function returns for these very tensors.

        Raises:
            Raised: what the function raised.
        """
        given = {self.subject.reading.names.get(name, name) for name in options}
        for name, extra in self.given_extras(query, key).items():
            if name not in given:
                options.setdefault(name, extra)
        arguments = {"query": query, "key": key, "value": value, **options}
        self.last = Call(arguments, None, program.note_calls())
        try:
            return self.subject.function(query, key, value, **options)
        except (Exception, SystemExit) as error:
            raise self._locate_error(error) from error

    def subject_extras(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        """What it takes beside them, drawn for tensors of these sizes."""
        return {
            name: draw.literal if draw.kind == "literal" else draw.tensor(query, key)
            for name, draw in self.subject.extras.items()
        }

    def given_extras(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        """The same as the function gets them."""
        return self.cast_options(self.subject_extras(query, key))

    def _locate_error(self, error: BaseException) -> Raised:
        """With ``file.py:12`` of the innermost line that is neither ours nor PyTorch's."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [
            f"{frame.filename}:{frame.lineno}"
            for frame in frames
            if frame.filename not in (__file__, program.__file__)
            and not frame.filename.startswith(_PYTORCH)
        ]
        last = frames[-1]
        line = last.line or "raise"
        return Raised(
            error,
            places[-1] if places else self.subject.name,
            own=(last.filename,) == (place_of(self.subject.function) or ())[:1],
            deliberate=re.search(r"\b(raise|assert)\b", line) is not None,
        )

    def output(self, query: Tensor, key: Tensor, value: Tensor, /, **options: Any) -> Tensor:
        """The tensor that the function returns for these very tensors, checked in its shape.

        Raises:
            Stopped: when it is none, on another device, or of another shape than ``(..., n, d_v)``.
        """
        found = self.call_raw(query, key, value, **options)
        if isinstance(found, tuple | list) and found:
            found = found[0]  # the property `shape` tells of it
        if not isinstance(found, Tensor):
            self.stop(NOT_A_TENSOR, kind=type(found).__name__)
        if found.layout != torch.strided or not found.is_floating_point():
            self.stop(STRANGE_TENSOR, dtype=found.dtype, layout=found.layout)
        if found.device.type != self.device.type:
            self.stop(WRONG_DEVICE, given=self.device, got=found.device)
        expected = (*query.shape[:-1], value.shape[-1])
        assert self.last is not None
        self.last = self.last._replace(output=found.detach())
        if found.shape != expected:
            self.stop(WRONG_SHAPE, got=tuple(found.shape), expected=expected)
        return found

    def gradients(
        self, case: Case, grad_output: Callable[[Tensor], Tensor], **options: Any
    ) -> dict[str, Tensor | None]:
        """The gradients of query, key and value in float64 on the CPU; None where none arrives.

        Args:
            case: the inputs.
            grad_output: makes the gradient of the loss to the output, given the output.
            options: as in :func:`call`; a tensor that requires its gradient gets it too.

        Raises:
            Raised: what the function, or its own backward, raised.
        """
        leaves, given = self._leaves(case, options)
        inputs = tuple(leaves.values())
        with torch.enable_grad():
            output = self.output(*inputs[:3], **given)
            if not output.requires_grad:
                return dict.fromkeys(leaves)
            upstream = self.cast(grad_output(output.detach())).to(output.dtype)
            found: tuple[Tensor | None, ...]
            try:
                found = torch.autograd.grad(loss(output, upstream), inputs, allow_unused=True)
            except Exception:  # a reentrant checkpoint forbids to ask for some gradients alone
                found = self._accumulate(inputs, upstream, given)
        return _name_gradients(leaves, found)

    def _leaves(
        self, case: Case, options: dict[str, Any]
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What gradients are asked for, by name, and the options, with those of them in place."""
        given: dict[str, Any] = self.cast_options(options)
        tensors = {"query": case.query, "key": case.key, "value": case.value}
        leaves = {name: self.cast(x).detach().requires_grad_() for name, x in tensors.items()}
        for name, option in options.items():
            if isinstance(option, Tensor) and option.requires_grad:
                leaves[name] = given[name] = given[name].detach().requires_grad_()
        return leaves, given

    def _accumulate(
        self, inputs: tuple[Tensor, ...], upstream: Tensor, options: dict[str, Any]
    ) -> tuple[Tensor | None, ...]:
        """What a whole backward pass leaves at the inputs."""
        output = self.output(*inputs[:3], **options)
        try:
            loss(output, upstream).backward()  # type: ignore[no-untyped-call]
        except Exception as error:
            raise self._locate_error(error) from error
        return tuple(leaf.grad for leaf in inputs)

    def penalty_gradients(self, case: Case, **options: Any) -> dict[str, Tensor | None]:
        """The gradients of the squared gradients' sum, of a loss that squares the output.

        None for all where the first gradients have no graph: the penalty is a constant.

        Raises:
            Raised: what the function, or its backward, raised.
        """
        leaves, given = self._leaves(case, options)
        inputs = tuple(leaves.values())
        with torch.enable_grad():
            output = self.output(*inputs[:3], **given)
            try:
                # The gradient of the sum is a constant: it tells nobody that more is to come.
                first = torch.autograd.grad(
                    output.sum(), inputs, create_graph=True, allow_unused=True
                )
                squares = [one.square().sum() for one in first if one is not None]
                penalty = sum(squares, output.new_zeros(()))
                if not penalty.requires_grad:
                    return dict.fromkeys(leaves)
                found = torch.autograd.grad(penalty, inputs, allow_unused=True)
            except Exception as error:
                raise self._locate_error(error) from error
        return _name_gradients(leaves, found)

    def restrict_mask(self, mask: Tensor) -> Tensor:
        """The mask, or its first row or head for all, where the function's says no more."""
        shape = mask.shape
        for axis in self.subject.reading.same_along:
            if mask.ndim >= -axis:
                mask = mask.narrow(axis, 0, min(1, mask.shape[axis]))
        return mask.expand(shape).contiguous()

    def call(self, query: Tensor, key: Tensor, value: Tensor, /, **options: Any) -> Tensor:
        """The output for the rounded inputs, in float64 on the CPU, without gradients."""
        given = (self.cast(tensor) for tensor in (query, key, value))
        with torch.no_grad():
            found = self.output(*given, **self.cast_options(options))
        return found.double().cpu()

    def weights(self, query: Tensor, key: Tensor, /, **options: Any) -> Tensor:
        """The effective weights ``(..., n, m)``: the outputs for values that are unit vectors.

        As many keys at a time as a value has components, d_k.
        """
        m, width = key.shape[-2:]
        found = []
        for start in range(0, m, width):
            units = torch.eye(m, dtype=torch.float64)[:, start : start + width]  # (m, ≤ width)
            units = torch.nn.functional.pad(units, (0, width - units.shape[-1]))
            value = units.expand(*key.shape[:-1], width)
            found.append(self.call(query, key, value.contiguous(), **options))
        return torch.cat(found, -1)[..., :m]

    def visible_pairs(self, case: Case) -> Tensor:
        """What each query sees without a mask, ``(n, m)``: all, its past, or its window."""
        n, m = case.query.shape[-2], case.key.shape[-2]
        window = self.subject.reading.formula.window
        seen = torch.ones(n, m, dtype=torch.bool) if window is None else window.seen(n, m)
        return seen.tril() if self.subject.always_causal else seen

    def shares(self, case: Case, allowed: Tensor | None = None) -> Tensor:
        """Equal weights for what each query sees, and may see, ``(n, m)``."""
        seen = self.visible_pairs(case)
        seen = (seen if allowed is None else seen & allowed).double()
        return seen / seen.sum(-1, keepdim=True).clamp(min=1)

    def predict(self, query: Tensor, key: Tensor, value: Tensor, factor: Tensor) -> Tensor:
        """The output if the function's own weights were multiplied by ``factor``.

        They are normalised again, as a softmax does when a mask is added to its scores. So what a
        property says of masks does not depend on whether the weights themselves are right.
        """
        own = self.weights(query, key)
        weights = own * factor
        total = weights.sum(-1, keepdim=True)
        if self.subject.reading.formula.sink:  # which has what the keys do not get
            total = total + (1 - own.sum(-1, keepdim=True))
        return weights / total @ self.to_double(value)

    def truth(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        /,
        *,
        exact_scores: bool = False,
        rows: Tensor | None = None,
        **setting: Any,
    ) -> Truth:
        """What :func:`call` should have returned, with the allowance of each number."""
        if self.subject.reference is not None:
            return self._reference_truth(query, key, value, setting, rows)
        return budget.truth(
            self._question(query, key, value, setting), exact_scores=exact_scores, rows=rows
        )

    def _reference_truth(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        setting: dict[str, Any],
        rows: Tensor | None,
    ) -> Truth:
        """What the reference returns in float64, and what rounding may do to that."""
        inputs = [self.to_double(x) for x in (query, key, value)]
        given = self._reference_options(inputs[0], inputs[1], setting)
        assert self.subject.reference is not None
        with torch.no_grad(), self._not_its_own():
            output = self.reference(query)(*inputs, **given)
        terms = query.shape[-2] + sum(key.shape[-2:]) + value.shape[-1]
        unit = torch.finfo(self.dtype).eps / 2
        sums = min(unit, torch.finfo(torch.float32).eps / 2)
        largest = output.abs().nan_to_num(0.0).amax() if output.numel() else 0.0
        allowance = torch.full_like(output, float((_STEPS * unit + terms * sums) * largest))
        if getattr(self.subject.reference, "measured", False):
            allowance = allowance + _MEASURED * largest
        told = slice(None) if rows is None else rows
        return Truth(output[..., told, :], output.new_zeros(()), allowance[..., told, :])

    @contextlib.contextmanager
    def _not_its_own(self) -> Iterator[None]:
        """What the reference raises is no fault of the function, which is not asked then."""
        try:
            yield
        except Raised as raised:
            error = f"{type(raised.error).__name__}: {raised.error}"
            raise Stopped(Finding(Verdict.NOT_ASKED, BESIDE_RAISED, {"error": error})) from None

    def reference(self, query: Tensor) -> Any:
        """The reference; constants of each head are measured, for so many and so wide ones."""
        reference = self.subject.reference
        assert reference is not None
        if not getattr(reference, "measured", False):
            return reference
        shape = (query.shape[1], query.shape[-1])
        if shape not in self._laws:
            of = difference if isinstance(reference, Difference) else recurrence
            try:
                self._laws[shape] = self.measure(of.measure, *shape)
            except recurrence.Unclear:
                raise Stopped(Finding(Verdict.NOT_ASKED, UNCLEAR, {"shape": shape})) from None
        return self._laws[shape]

    def measure(
        self, law: Callable[["Trial", int, int], _Law], heads: int = 3, width: int = 8
    ) -> _Law:
        """The constants that its answers show, in float64 where it takes that.

        Raises:
            Unclear: where they show none.
        """
        double = Trial(self.subject, torch.float64, self.device)
        shown = self.last
        try:
            found = law(double, heads, width)
        except (Raised, Stopped):
            found = law(self, heads, width)
        self.last = shown
        return found

    def draw(self, sizes: Sizes, seed: int) -> Case:
        """A case; keys of a delta rule are no longer than 1, or its state may grow."""
        case = Case.draw(sizes, seed)
        other = self.subject.reading.other is not None
        if (
            other
            or isinstance(self.subject.reference, Recurrence)
            or recurrence.gates_of(self.subject.extras)
        ):
            case = replace(case, key=torch.nn.functional.normalize(case.key, dim=-1))
        return case

    def _reference_options(
        self, query: Tensor, key: Tensor, setting: dict[str, Any]
    ) -> dict[str, Any]:
        """The options, and the tensors that are drawn, as the reference takes them."""
        given = {name: each for name, each in setting.items() if each is not None}
        if self.subject.always_causal:
            given.setdefault("is_causal", True)
        if isinstance(self.subject.reference, Recurrence):
            extras = self.subject_extras(query, key)
            given = {
                name: self.to_double(each) if isinstance(each, Tensor) else each
                for name, each in (extras | given).items()
                if name in extras
            }
        return given

    def tolerance(self, query: Tensor, key: Tensor, value: Tensor, /, **options: Any) -> Tensor:
        """What rounding may do to the output; where no formula is known, to the largest number."""
        if self.subject.reading.other is None:
            return self.truth(query, key, value, **options).allowance
        output = self.call(query, key, value, **options)
        largest = output.abs().nan_to_num(0.0, 0.0).amax() if output.numel() else output.sum()
        return (_ROUNDING * torch.finfo(self.dtype).eps * largest).expand(output.shape)

    def dependence(self, case: Case, **options: Any) -> Tensor:
        """Whether output i is moved by other numbers in position j of all inputs, ``(n, n)``."""
        inputs = [x[:1, :1] for x in (case.query, case.key, case.value)]
        before, columns = self.call(*inputs, **options), []
        allowed = self.tolerance(*inputs, **options)
        for j in range(case.query.shape[-2]):
            other = [x.clone() for x in inputs]
            for x in other:
                x[..., j, :] = 1.0 - 2.0 * x[..., j, :]
            same = (self.call(*other, **options) - before).abs() <= allowed
            columns.append(~same.all(-1)[0, 0])
        return torch.stack(columns, -1)

    def is_right(self, case: Case, /, *, strictly: bool = False, **options: Any) -> bool:
        """Whether the output with these options is what it should be.

        Where there is none, it is not, or ``strictly``, that is raised.
        """
        try:
            output = self.call(case.query, case.key, case.value, **options)
        except Raised:
            if strictly:
                raise
            return False
        right = self.truth(case.query, case.key, case.value, **options)
        return miss(output, right.output, right.allowance) is None

    def true_gradients(
        self, case: Case, grad_output: Tensor, **setting: Any
    ) -> dict[str, Gradient]:
        """What :func:`gradients` should have returned, with the allowance of each number."""
        if self.subject.reference is not None:
            return self._reference_gradients(case, grad_output, setting)
        question = self._question(case.query, case.key, case.value, setting)
        return budget.gradients(question, grad_output.to(self.dtype))

    def _reference_gradients(
        self, case: Case, grad_output: Tensor, setting: dict[str, Any]
    ) -> dict[str, Gradient]:
        leaves = [self.to_double(x).requires_grad_() for x in (case.query, case.key, case.value)]
        given = self._reference_options(leaves[0], leaves[1], setting)
        assert self.subject.reference is not None
        with torch.enable_grad(), self._not_its_own():
            output = self.reference(case.query)(*leaves, **given)
            found = torch.autograd.grad(loss(output, self.to_double(grad_output)), leaves)
        unit = torch.finfo(self.dtype).eps / 2
        terms = sum(case.query.shape[-2:]) + case.value.shape[-1]
        measured = getattr(self.subject.reference, "measured", False)
        share = (_STEPS + terms) * unit + _MEASURED * measured
        return {
            name: Gradient(each, torch.full_like(each, share * float(each.abs().amax())))
            for name, each in zip(("query", "key", "value"), found, strict=True)
        }

    def usual_scale(self, d_k: int) -> float:
        """The factor where none is given: 1/sqrt(d_k), or its own."""
        factor = self.subject.reading.formula.factor
        return float(d_k**-0.5) if factor is None else factor.value(d_k)

    def _question(
        self, query: Tensor, key: Tensor, value: Tensor, setting: dict[str, Any]
    ) -> Question:
        """The call in the numbers that the function gets, on the CPU."""
        mask = setting.get("attn_mask")
        if mask is not None and mask.is_floating_point():
            setting["attn_mask"] = mask.to(self.dtype)
        query, key, value = (x.to(self.dtype) for x in (query, key, value))
        if self.subject.always_causal:
            setting.setdefault("is_causal", True)
        given = {name: each for name, each in setting.items() if each is not None}
        setting = self.own_setting(query, key) | given
        return Question(query, key, value, Setting(**setting), self.device)

    def own_setting(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        """What is its own, as the fields of a :class:`Setting`; sinks and biases are measured."""
        setting = self.subject.reading.formula.setting(query, key)
        if self.subject.reading.formula.sink:
            setting["sink"] = self._sinks(query.shape[-3], query.shape[-1])
        if self.subject.reading.formula.biased and query.shape[-2] == key.shape[-2]:
            setting["bias"] = self._bias(query.shape[-3], *query.shape[-2:])
        return setting

    def _bias(self, heads: int, n: int, width: int) -> Tensor:
        """What is added to the scores by distance, ``(h, n, n)``, as queries of zeros see it.

        The first row shows it for what lies ahead and the last one for what lies behind; the
        rows in between are to be found out.
        """
        if (heads, n) not in self._biases:
            zeros = torch.zeros(1, heads, n, width, dtype=torch.float64)
            shown, trial = self.last, Trial(self.subject, torch.float64, self.device)
            try:
                weights = trial.weights(zeros, zeros)[0]
            except Raised:
                weights = self.weights(zeros, zeros)[0]
            self.last = shown
            logs = weights.masked_fill(weights == 0, 1.0).log()
            ahead, behind = logs[:, 0], logs[:, -1]
            series = torch.cat([behind - behind[:, -1:], (ahead - ahead[:, :1])[:, 1:]], -1)
            place = torch.arange(n) - torch.arange(n)[:, None] + n - 1
            self._biases[heads, n] = series[:, place]
        return self._biases[heads, n]

    def _sinks(self, heads: int, width: int) -> Tensor:
        """What joins the sum of each head's exponentials: the weight of one key of score 0 says."""
        if heads not in self._measured:
            zeros = torch.zeros(1, heads, 1, width, dtype=torch.float64)
            weight = self.call(zeros, zeros, zeros + 1.0)[0, :, 0, 0]
            self._measured[heads] = (1 / weight - 1).clamp(min=0.0).log()
        return self._measured[heads]

    def stop(self, text: Text, **values: object) -> NoReturn:
        """Ends the property with a failure."""
        raise Stopped(self.failure(text, **values))

    def failure(self, text: Text, wanted: Tensor | None = None, /, **values: object) -> Finding:
        """A failure, with the last call, that should have given ``wanted``, as counterexample."""
        return Finding(Verdict.WRONG, text, values, self.counterexample(wanted))

    def unsafe_failure(
        self, text: Text, wanted: Tensor | None = None, /, **values: object
    ) -> Finding:
        """The same for what is right as long as the inputs are tame."""
        return replace(self.failure(text, wanted, **values), verdict=Verdict.UNSAFE)

    def is_refusal(self, raised: Raised) -> bool:
        """Whether an error was meant: it is raised on purpose, or it names an option.

        Shapes that happen not to fit, and tuples that cannot be unpacked, are accidents.
        """
        error = raised.error
        if isinstance(error, ValueError | TypeError | NotImplementedError | AssertionError):
            return raised.deliberate or any(word in str(error) for word in _MEANT)
        return any(word in str(error) for word in _MEANT)

    def not_claimed(self, *missing: str) -> Finding:
        """What to say where the function takes none of these options."""
        for option in missing:
            if option in self.subject.overlooked:
                names = {"option": option, "parameter": self.subject.overlooked[option]}
                return Finding(Verdict.NOT_ASKED, PERHAPS, names)
        known = self.subject.parameters or ("query", "key", "value", "…")
        values = {"missing": ", ".join(missing), "parameters": ", ".join(known)}
        return Finding(Verdict.NOT_CLAIMED, MISSING, values)

    def counterexample(self, expected: Tensor | None = None) -> Counterexample:
        """The last call, in plain numbers."""
        assert self.last is not None
        given, output, got = self.last
        shown = self.subject.own_arguments(given)
        arguments = {name: simplify(argument) for name, argument in shown.items()}
        text = program.write(self.subject, got, given, self.seed)
        own = [simplify(program.own_axes(self.subject, each)) for each in (output, expected)]
        return Counterexample(arguments, simplify(output), simplify(expected), text, *own)


def _name_gradients(
    leaves: dict[str, Tensor], found: tuple[Tensor | None, ...]
) -> dict[str, Tensor | None]:
    """Gradients by name, in float64 on the CPU."""
    return {
        name: None if gradient is None else gradient.double().cpu()
        for name, gradient in zip(leaves, found, strict=True)
    }
