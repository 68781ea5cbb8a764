"""The function under test, called and compared; what a property talks to."""

import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.conformance.budget import Gradient, Question, Setting, Truth
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss, simplify
from attnref.conformance.subject import Subject, file_of
from attnref.conformance.verdict import Counterexample, Finding, Verdict
from attnref.text import Text

# In an error of PyTorch's own they show that it is about an option, a dtype or a limit, and not
# about numbers that happen not to fit.
_MEANT = (
    *("mask", "causal", "scale", "gqa", "dropout", "softcap", "window"),
    *("not implemented for", "support", "multiple of", "divisible", "unexpected keyword"),
)
_GROWN = 1e3
_PYTORCH = str(Path(torch.__file__).parent)

NOT_A_TENSOR = Text(
    en="It returned {kind}, not a tensor. Does every path end in return?",
    pt="Ela devolveu {kind}, e não um tensor. Todo caminho termina em return?",
)
STRANGE_TENSOR = Text(
    en="It returned a tensor of {dtype} and {layout}, expected floating numbers, torch.strided.",
    pt="Ela devolveu um tensor de {dtype} e {layout}, mas deveria devolver números de ponto "
    "flutuante, torch.strided.",
)
WRONG_DEVICE = Text(
    en="For inputs on {given} it returned its output on {got}. Make new tensors with "
    "device=query.device.",
    pt="Para entradas em {given} ela devolveu a saída em {got}. Crie tensores novos com "
    "device=query.device.",
)
WRONG_SHAPE = Text(
    en="It returned shape {got}, expected {expected}: (batch, heads, n, d_v).",
    pt="Ela devolveu a forma {got}, mas deveria ser {expected}: (lote, cabeças, n, d_v).",
)
MISSING = Text(
    en="It takes no {missing}; its parameters are {parameters}.",
    pt="Ela não recebe {missing}; os parâmetros são {parameters}.",
)


PERHAPS = Text(
    en="Its {parameter} may be {option}, and was not tested: --map {option}={parameter}, if it is.",
    pt="O parâmetro {parameter} pode ser {option}, e não foi testado: --map {option}={parameter}, "
    "se for.",
)


class Stopped(Exception):
    """A property cannot go on; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class CannotSay(Exception):
    """A mask of the function says less than this; ``what`` is all that it does.

    Nobody has called the function then, so that this is no refusal of its own.
    """

    def __init__(self, what: Text) -> None:
        super().__init__(what)
        self.what = what


class Raised(Exception):
    """The function raised ``error``, at ``place`` in its own code.

    ``own`` where the file that defines the function raises it, and no library that it calls;
    ``deliberate`` where the innermost line is a ``raise`` or an ``assert``, or cannot be read.
    ``hint`` says what it answers instead.
    """

    hint = Text(en="", pt="")

    def __init__(
        self, error: BaseException, place: str, *, own: bool = True, deliberate: bool = True
    ) -> None:
        self.error = error
        self.place = place
        self.own = own
        self.deliberate = deliberate


class Call(NamedTuple):
    """One call: what went in, and what came out, None until it did."""

    arguments: dict[str, object]
    output: Tensor | None


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

    def offers(self, *options: str) -> bool:
        """Whether the function takes all of these."""
        return all(option in self.subject.supports for option in options)

    def fit(self, sizes: Sizes) -> Sizes:
        """These, or the next ones that the function is made for, and within its own window."""
        if self.subject.reach is not None:
            sizes = sizes.cap(self.subject.reach)
        return sizes if self.subject.fits is None else sizes.fit(*self.subject.fits)

    def fitting(self) -> bool:
        """Whether the last call had sizes that the function is made for."""
        assert self.last is not None
        assert self.subject.fits is not None
        step, width = self.subject.fits
        tensors = [x for x in self.last.arguments.values() if isinstance(x, Tensor)][:3]
        return all(x.shape[-2] % step == 0 and x.shape[-1] == width for x in tensors)

    def cast(self, tensor: Tensor) -> Tensor:
        """What the function gets for ``tensor``: a copy, floats in the dtype, bools as they are."""
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, dtype, copy=True)

    def _cast_options(self, options: dict[str, object]) -> dict[str, object]:
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
        arguments = {"query": query, "key": key, "value": value, **options}
        self.last = Call(arguments, None)
        try:
            return self.subject.function(query, key, value, **options)
        except (Exception, SystemExit) as error:
            raise self._locate_error(error) from error

    def _locate_error(self, error: BaseException) -> Raised:
        """With ``file.py:12`` of the innermost line that is neither ours nor PyTorch's."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [
            f"{frame.filename}:{frame.lineno}"
            for frame in frames
            if frame.filename != __file__ and not frame.filename.startswith(_PYTORCH)
        ]
        last = frames[-1]
        line = last.line or "raise"
        return Raised(
            error,
            places[-1] if places else self.subject.name,
            own=last.filename == file_of(self.subject.function),
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
        self.last = Call(self.last.arguments, found.detach())
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
                found = torch.autograd.grad(output, inputs, upstream, allow_unused=True)
            except Exception:  # a reentrant checkpoint forbids to ask for some gradients alone
                found = self._accumulate(inputs, upstream, given)
        return _name_gradients(leaves, found)

    def _leaves(
        self, case: Case, options: dict[str, Any]
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What gradients are asked for, by name, and the options, with those of them in place."""
        given: dict[str, Any] = self._cast_options(options)
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
            output.backward(upstream)  # type: ignore[no-untyped-call]
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
        for axis in self.subject.same_along:
            if mask.ndim >= -axis:
                mask = mask.narrow(axis, 0, min(1, mask.shape[axis]))
        return mask.expand(shape).contiguous()

    def call(self, query: Tensor, key: Tensor, value: Tensor, /, **options: Any) -> Tensor:
        """The output for the rounded inputs, in float64 on the CPU, without gradients."""
        given = (self.cast(tensor) for tensor in (query, key, value))
        with torch.no_grad():
            found = self.output(*given, **self._cast_options(options))
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
        """What each query sees without a mask, ``(n, m)``: all, or the past of what is causal."""
        n, m = case.query.shape[-2], case.key.shape[-2]
        every = torch.ones(n, m, dtype=torch.bool)
        return every.tril() if self.subject.always_causal else every

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
        weights = self.weights(query, key) * factor
        return weights / weights.sum(-1, keepdim=True) @ self.to_double(value)

    def truth(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        /,
        *,
        exact_scores: bool = False,
        **setting: Any,
    ) -> Truth:
        """What :func:`call` should have returned, with the allowance of each number."""
        question = self._question(query, key, value, setting)
        truth = budget.truth(question, exact_scores=exact_scores)
        if self.subject.other is None:
            return truth
        # It is compared with itself alone, and its numbers may grow from one position to the next.
        return truth._replace(allowance=_GROWN * truth.allowance)

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
        question = self._question(case.query, case.key, case.value, setting)
        return budget.gradients(question, grad_output.to(self.dtype))

    def true_mask_gradient(self, case: Case, grad_output: Tensor, mask: Tensor) -> Gradient:
        """What :func:`gradients` should have returned for a mask of numbers ``(n, m)``."""
        question = self._question(case.query, case.key, case.value, {"attn_mask": mask})
        return budget.mask_gradient(question, grad_output.to(self.dtype))

    def usual_scale(self, d_k: int) -> float:
        """The factor where none is given: 1/sqrt(d_k), or its own."""
        factor = self.subject.factor
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
        if self.subject.factor is not None and setting.get("scale") is None:
            setting["scale"] = self.usual_scale(query.shape[-1])
        return Question(query, key, value, Setting(**setting), self.device)

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
        shown = self.subject.own_arguments(self.last.arguments)
        arguments = {name: simplify(argument) for name, argument in shown.items()}
        return Counterexample(arguments, simplify(self.last.output), simplify(expected))


def _name_gradients(
    leaves: dict[str, Tensor], found: tuple[Tensor | None, ...]
) -> dict[str, Tensor | None]:
    """Gradients by name, in float64 on the CPU."""
    return {
        name: None if gradient is None else gradient.double().cpu()
        for name, gradient in zip(leaves, found, strict=True)
    }
