"""What a change of the inputs does to the output."""

import math
from typing import Any

import torch

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.right import right_subject
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

NONE = Text(
    "No gradient arrives at {name}: the path from it to the output is cut, by detach(), "
    "no_grad(), .data or a detour outside of PyTorch."
)
INFERENCE = Text(
    "Its output has no gradient at all: it is for inference, or its path is cut by detach(), "
    "no_grad(), .data or a detour outside of PyTorch. A loss that depends on nothing else raises "
    "in backward()."
)
SLOPE = Text(
    "The gradient times a direction is {got:.6g}, the change of the output in that direction "
    "{expected:.6g}."
)
NO_DOUBLE = Text("It takes no float64, in which alone a slope can be measured.")
OTHER = Text(
    "The gradient of {name} at {index} is {got:.6g}, expected {expected:.6g} "
    "(allowed error {allowed:.1e})."
)

LOST = Text(
    "A gradient penalty is lost without a word: the gradient of {name} has no gradient itself. "
    "Drop once_differentiable, or raise an error in backward() if torch.is_grad_enabled()."
)
OTHER_SECOND = Text(
    "The gradient of a gradient penalty to {name} at {index} is {got:.6g}, expected "
    "{expected:.6g} (allowed error {allowed:.1e})."
)

MASK_CUT = Text(
    "No gradient arrives at a mask of numbers, which is added to the scores: a learned bias, "
    "such as one for relative positions, stays as it is."
)


@rule(
    statement=Text("The gradient of a gradient penalty is that of the formula, or it is refused."),
    formula=r"\partial\, \lVert \partial L / \partial (Q, K, V) \rVert^2 / \partial (Q, K, V)",
    page="scale/saturation",
    follows=(*OF_NUMBERS, *("gradients",)),
    asked_of=("function",),
    holds_of="formula",
)
def gradient_penalty(trial: Trial, case: Case) -> Finding | None:
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    found = _check_penalty(trial, case)
    for options in ({"is_causal": True}, {"attn_mask": mask}):
        if found is None and trial.offers(*options):
            found = _check_penalty(trial, case, **options)
    return found


def _check_penalty(trial: Trial, case: Case, **options: Any) -> Finding | None:
    if not trial.is_right(case, **options):
        return None  # the property `oracle`, or that of the option, tells of it
    try:
        found = trial.penalty_gradients(case, **options)
    except Raised:
        return None  # a refusal is no silence
    query, key, value = map(trial.to_double, (case.query, case.key, case.value))
    exact = Trial(right_subject(trial.subject), torch.float64, torch.device("cpu"))
    right = exact.penalty_gradients(Case(query, key, value, case.seed), **options)
    if all(gradient is None for gradient in found.values()):
        return trial.failure(LOST, name="query")
    # It is terms that get lost, not digits: they are many times larger than this.
    share = max(0.02, 32 * torch.finfo(trial.dtype).eps)
    for name, expected in right.items():
        got = found[name]
        if expected is None:
            continue  # a reference that does not depend on it
        got = torch.zeros_like(expected) if got is None else got
        wrong = miss(got, expected, share * float(expected.abs().max()))
        if wrong is not None:  # NaN is loud
            fails = trial.unsafe_failure if math.isnan(wrong.got) else trial.failure
            return fails(OTHER_SECOND, name=name, **wrong.values())
    return None


@rule(
    statement=Text(
        "The gradients of query, key and value are those of the formula, up to rounding."
    ),
    formula=r"dV = P^\top dO, \quad dS = P \circ (dP - \mathrm{rowsum}(P \circ dP))",
    page="scale/saturation",
    may_refuse=True,
    follows=(*OF_NUMBERS, *("batch_independence", "head_independence", "scale", "oracle")),
    asked_of=("function",),
    holds_of="any",
)
def gradients(trial: Trial, case: Case) -> Finding | None:
    if trial.subject.reading.other is not None:
        return _check_slope(trial, case)
    found = _check_gradients(trial, case)
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    bias = torch.randn(mask.shape, generator=case.generator(), dtype=torch.float64)
    ways: list[tuple[str, object]] = [("is_causal", True), ("attn_mask", mask)]
    for option, value in [*ways, ("attn_mask", trial.to_double(bias)), ("scale", 0.3)]:
        if found is None and trial.offers(option):
            options: dict[str, Any] = {option: value}
            # Where the output is wrong already, the property of the option tells of it.
            if trial.is_right(case, **options):
                found = _check_gradients(trial, case, **options)
    return found


def _check_gradients(trial: Trial, case: Case, **options: Any) -> Finding | None:
    shape = (*case.query.shape[:-1], case.value.shape[-1])
    upstream = torch.randn(shape, generator=case.generator(), dtype=torch.float64)
    found = trial.gradients(case, lambda output: upstream, **options)
    if all(gradient is None for gradient in found.values()):
        return Finding(Verdict.NOT_CLAIMED, INFERENCE)
    right = trial.true_gradients(case, upstream, **options)
    for name, got in found.items():
        if got is None:
            return trial.failure(NONE, name=name)
        wrong = miss(got, right[name].expected, right[name].allowance)
        if wrong is not None:
            return trial.failure(OTHER, name=name, **wrong.values())
    return None


def _check_slope(trial: Trial, case: Case) -> Finding | None:
    """Of what has no known formula: the gradient is the slope of its output."""
    double = Trial(trial.subject, torch.float64, trial.device)
    inputs = (case.query, case.key, case.value)
    upstream = torch.randn(case.query.shape, generator=case.generator(), dtype=torch.float64)
    try:
        double.call(*inputs)
    except Raised:
        return Finding(Verdict.NOT_CLAIMED, NO_DOUBLE)
    directions = [upstream.flip(-1).roll(place, -2) for place in range(3)]
    found = double.gradients(case, lambda output: upstream).values()
    if all(each is None for each in found):
        return Finding(Verdict.NOT_CLAIMED, INFERENCE)
    pairs = zip(found, directions, strict=True)
    got = sum(float((one * other).sum()) for one, other in pairs if one is not None)
    for step in _STEPS:
        beside = [
            double.call(*(x + sign * step * u for x, u in zip(inputs, directions, strict=True)))
            for sign in (1, -1)
        ]
        changes = (beside[0] - beside[1]) * upstream / (2 * step)
        expected = float(changes.sum())
        if abs(got - expected) <= _SLOPE * float(changes.abs().sum()):
            return None
    return double.failure(SLOPE, got=got, expected=expected)


# Of a difference in float64. Between two points there may be a kink, as those of a ReLU are, which
# a smaller step escapes, and what is computed in float32 wants a larger one; a wrong gradient is
# wrong at each.
_STEPS = (1e-3, 1e-4, 1e-6, 1e-7, 1e-8)
_SLOPE = 1e-4  # relative error of a slope that counts


@rule(
    statement=Text("A mask of numbers, such as a learned bias, gets the gradient of the scores."),
    formula=r"\partial L / \partial M = P \circ (dP - \mathrm{rowsum}(P \circ dP))",
    page="foundations/masks",
    needs=("attn_mask",),
    may_crash=True,
    follows=(*OF_MASKS, *("gradients",)),
)
def mask_gradient(trial: Trial, case: Case) -> Finding | None:
    shape = (case.query.shape[-2], case.key.shape[-2])
    drawn = torch.randn(shape, generator=case.generator(), dtype=torch.float64)
    bias = trial.to_double(drawn).requires_grad_()
    if not trial.is_right(case, strictly=True, attn_mask=bias.detach()):
        return None  # `float_mask` tells of it
    width = case.value.shape[-1]
    upstream = torch.randn(
        (*case.query.shape[:-1], width), generator=case.generator(), dtype=torch.float64
    )
    found = trial.gradients(case, lambda output: upstream, attn_mask=bias)
    if all(gradient is None for gradient in found.values()):
        return Finding(Verdict.NOT_CLAIMED, INFERENCE)
    got = found["attn_mask"]
    if got is None:
        return trial.unsafe_failure(MASK_CUT)
    right = trial.true_gradients(case, upstream, attn_mask=bias.detach())["attn_mask"]
    wrong = miss(got, right.expected, right.allowance)
    return wrong and trial.failure(OTHER, name="attn_mask", **wrong.values())
