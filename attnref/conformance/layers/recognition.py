"""Which projections a layer has, tried until its answer is the one of the formula."""

import contextlib
import functools
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnref.conformance import recurrence
from attnref.conformance.case import Case, Sizes
from attnref.conformance.layers.construction import Shape
from attnref.conformance.layers.layer import Layer
from attnref.conformance.layers.projections import (
    IDENTITY,
    WRAP,
    Inseparable,
    Projections,
    assign_roles,
    matrices,
)
from attnref.conformance.own import is_odd
from attnref.conformance.properties.scaling import effective_scale
from attnref.conformance.reading import Reading
from attnref.conformance.recurrence import Unclear
from attnref.conformance.subject import CheckError, Subject
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.text import Text

NO_ANSWER = Text(
    "function: {name} was read so: {said}; but then it fails: {error} (at {place}). {wrap}"
)
IS_MORE = Text(
    "function: {name} is not attention between its projections ({said}): the answer is "
    "different, perhaps because of {more}. {wrap}"
)
REPLACED = Text("it raises {error} when they are replaced")
MORE = Text("besides its projections its output depends on {more}")

_CPU = torch.device("cpu")
_ROUNDING = 1e-4  # of float32, with room
_LOWEST = -1e4  # below this a number is a mask's, not a bias


def recognise(layer: Layer, shape: Shape, known: Projections | None = None) -> Projections:
    """The projections with which it answers what the formula does, or as near as they come.

    Where it does without no mask, ``layer.entry`` has one then.

    Args:
        layer: it.
        shape: for which it is asked.
        known: those that were recognised of it for another shape; they serve where none is found.

    Raises:
        CheckError: when it does not take a sequence.
        Inseparable: when it answers with none, or when it is more than attention, so that its
            answer says nothing.
    """
    refused: list[CheckError] = []
    usual, *others = layer.entry.ways()
    for entry in (usual, *others):
        layer.entry = entry
        try:
            return _recognise(layer, shape, known)
        except CheckError as error:
            refused.append(error)
            if entry is usual and isinstance(error, Inseparable):
                break  # it does without a mask
    layer.entry = usual
    raise next((each for each in refused if isinstance(each, Inseparable)), refused[0])


def _recognise(layer: Layer, shape: Shape, known: Projections | None) -> Projections:
    case = Case.draw(Sizes(heads=shape.heads, key_heads=shape.key_heads, d_k=shape.head_width), 0)
    made = layer.build(shape, torch.float32, _CPU)
    if isinstance(made, nn.MultiheadAttention):
        plan = IDENTITY
    else:
        called = _output_widths(layer, shape, case)
        try:
            plan = assign_roles(called, shape, made, layer.maker.name)
        except Inseparable:
            same = _identity(layer, case)
            if same is None:
                raise
            return same
    errors: dict[Projections, float] = {}
    refused: Raised | None = None
    for each in plan.candidates():
        try:
            if known is None:
                errors[each] = _error(layer, each, case)
            else:
                errors[each] = _sharing_error(layer, each, known, case)
        except Raised as reason:
            refused = refused or reason
        except Stopped:
            errors[each] = math.inf
        if errors.get(each, math.inf) < _ROUNDING:
            return each
    if known is not None:
        return known
    said = plan.describe()
    if not errors:
        assert refused is not None
        error = f"{type(refused.error).__name__}: {refused.error}"
        raise Inseparable(
            NO_ANSWER.fill(
                {
                    "name": layer.maker.name,
                    "said": said,
                    "error": error,
                    "place": refused.place,
                    "wrap": WRAP,
                }
            ),
            REPLACED.fill({"error": error}),
        )
    nearest = min(errors, key=lambda each: errors[each])  # the first of those that are as near
    if _recurs(layer, nearest, case):
        return nearest
    more = _other_influences(layer, nearest, shape, case)
    if more:
        raise Inseparable(
            IS_MORE.fill(
                {
                    "name": layer.maker.name,
                    "said": said,
                    "more": ", ".join(more),
                    "wrap": WRAP,
                }
            ),
            MORE.fill({"more": ", ".join(more)}),
        )
    return nearest


def _recurs(layer: Layer, plan: Projections, case: Case) -> bool:
    """Whether it is a recurrence between its projections, with whatever constants."""
    about = Subject(functools.partial(layer.apply_plan, plan), layer.maker.name, (), None)
    trial = Trial(replace(about, reading=Reading(causal=True)), torch.float32, _CPU)
    try:
        return trial.measure(recurrence.measure).measured and is_odd(trial, case)
    except (Raised, Stopped, Unclear):
        return False


def _identity(layer: Layer, case: Case) -> Projections | None:
    """For matrices that are parameters, or that another function reads, where inputs are three."""
    for each in IDENTITY.candidates() if layer.entry.takes_three else ():
        with contextlib.suppress(Raised, Stopped):
            if _error(layer, each, case) < _ROUNDING:
                return each
    return None


def _output_widths(layer: Layer, shape: Shape, case: Case) -> dict[str, int]:
    """How many features of a position each of its matrices returns, in the order of the calls."""
    made = layer.build(shape, torch.float32, _CPU)
    b, _, n, d = case.query.shape
    widths: dict[str, int] = {}

    def note(name: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
        widths.setdefault(name, output.numel() // (b * n))

    hooks = [
        made.get_submodule(name).register_forward_hook(functools.partial(note, name))
        for name in matrices(made)
    ]
    sequences = [torch.zeros(b, n, shape.width) for _ in range(3)]
    try:
        with torch.no_grad():
            made(**layer.entry.fill_inputs(sequences, torch.zeros(n, d), b, n))
    except Exception as error:
        raise CheckError(
            "function: {name} does not take a sequence of shape ({b}, {n}, {width}): {kind}: "
            "{error}. Supply the missing arguments, --with name=value, in Python arguments={{…}}, "
            "or wrap what it does between its projections in a function of query, key and value.",
            name=layer.maker.name,
            b=b,
            n=n,
            width=shape.width,
            kind=type(error).__name__,
            error=error,
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return widths


def _error(layer: Layer, plan: Projections, case: Case) -> float:
    """How far its weights are from exponentials of the scores, with or without the future.

    Infinite where they are none at all, whatever the factor.
    """
    about = Subject(functools.partial(layer.apply_plan, plan), layer.maker.name, (), None)
    errors = [math.inf]
    for causal in (False, True):
        trial = Trial(replace(about, reading=Reading(causal=causal)), torch.float32, _CPU)
        fit = effective_scale(trial, case)
        if fit.good:
            scores = fit.factor * trial.to_double(case.query) @ trial.to_double(case.key).mT
            scores = scores.masked_fill(~trial.visible_pairs(case), -math.inf)
            weights = trial.weights(case.query, case.key)
            errors.append(float((weights - scores.softmax(-1)).abs().max()))
    return min(errors)


def _sharing_error(layer: Layer, plan: Projections, known: Projections, case: Case) -> float:
    """How far its answer is from that of a layer with as many heads of keys, which are repeated."""
    query, key, value = (x.float() for x in (case.query, case.key, case.value))
    times = query.shape[1] // key.shape[1]
    repeated = (x.repeat_interleave(times, 1) for x in (key, value))
    trial = Trial(
        Subject(functools.partial(layer.apply_plan, plan), "", (), None), torch.float32, _CPU
    )
    output = trial.call(case.query, case.key, case.value)
    return float((output - layer.apply_plan(known, query, *repeated)).abs().max())


def _other_influences(layer: Layer, plan: Projections, shape: Shape, case: Case) -> list[str]:
    """What else in it has a say: others' modules, numbers, parameters that move its output."""
    made = layer.inject(plan, shape, torch.float32, _CPU).layer
    own = {*plan.names, plan.output}
    modules = [
        f"{name} ({type(module).__name__})"
        for name, module in made.named_modules()
        if name
        and not type(module).__module__.startswith("torch.nn.")
        and not any(f"{each}.".startswith(f"{name}.") for each in own)
        and not name.startswith(f"{plan.output}.")
    ]
    numbers = [
        f"{name} {tuple(buffer.shape)}"
        for name, buffer in made.named_buffers()
        if buffer.is_floating_point()
        and bool(((buffer != 0) & (buffer != 1) & (buffer > _LOWEST)).any())
    ]
    inputs = [x.float() for x in (case.query, case.key, case.value)]
    moving = []
    with torch.no_grad(), torch.random.fork_rng([]):
        before = layer.apply_plan(plan, *inputs)
        for name, parameter in made.named_parameters():
            if name.rpartition(".")[0] in own:
                continue
            kept = parameter.clone()
            parameter.add_(torch.randn_like(parameter))
            if not torch.equal(layer.apply_plan(plan, *inputs), before):
                moving.append(f"{name} {tuple(parameter.shape)}")
            parameter.copy_(kept)
    return [*modules, *numbers, *moving]
