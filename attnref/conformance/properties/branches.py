"""Other branches of the same function: its switches flipped, and the mode of training."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.subject import modules
from attnref.conformance.trial import NOTHING_SUCH, Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

FLIPPED = Text(
    "With {switch}={state} {how} the output at {index} is {got:.6g}, with {switch}={other} "
    "{expected:.6g}: what it returns beside the output, or how it is computed, must not change it."
)
UNMASKED = Text("With {switch}={state} {how} is dropped: the output is the one without it.")
GRADIENTS = Text(
    "With {switch}={state} and a query that may attend to nothing the gradient of {name} at "
    "{index} is {got:.4g}, with {switch}={other} {expected:.4g}."
)
PLAIN = Text("without options")
MASK = Text("attn_mask")
CAUSAL = Text("is_causal")

MODE = Text(
    "{how}, in evaluation the output at {index} is {got:.6g}, in training, without dropout, "
    "{expected:.6g}: the two modes compute something else."
)
PLAINLY = Text("Without options")
BLINDLY = Text("For a query that may attend to nothing")

# What a parameter that is True or False by default only switches, by the words in its name.
_RETURNS = ("output_", "return_", "need_", "with_", "average_attn", "use_cache")
_COMPUTES = (
    "deterministic",
    "use_",
    "flash",
    "sdpa",
    "fast",
    "memory_efficient",
    "fused",
    "absorb",
)


# These say what is computed.
_OTHERWISE = ("norm", "rope", "rotary", "bias", "alibi", "sink", "window", "scale", "cap", "gate")


def _switches(trial: Trial) -> dict[str, bool]:
    return {
        name: default
        for name, default in trial.subject.defaults.items()
        if isinstance(default, bool)
        and name.startswith((*_RETURNS, *_COMPUTES))
        and not any(word in name for word in _OTHERWISE)
    }


def _ways(trial: Trial, case: Case) -> Iterator[tuple[Text, dict[str, Any]]]:
    n, m = case.query.shape[-2], case.key.shape[-2]
    yield PLAIN, {}
    if trial.offers("is_causal") and not trial.subject.always_causal:
        yield CAUSAL, {"is_causal": True}
    if trial.offers("attn_mask"):
        yield MASK, {"attn_mask": trial.restrict_mask(some_mask(case, (n, m)))}


def _blind(trial: Trial, case: Case) -> dict[str, Tensor]:
    """A mask that forbids one row, or all rows of a sample."""
    n, m = case.query.shape[-2], case.key.shape[-2]
    if -2 in trial.subject.reading.same_along:
        samples = torch.arange(case.query.shape[0]) > 0
        return {"attn_mask": samples[:, None, None, None].expand(-1, 1, 1, m).contiguous()}
    return {"attn_mask": (torch.arange(n) != n // 2)[:, None].expand(n, m).contiguous()}


@rule(
    statement=Text("A switch that only says what is returned, or how, does not change the output."),
    formula=r"f(Q, K, V, \mathrm{need\_weights}) = f(Q, K, V)",
    page="foundations/mask-traps",
    asked_of=("function",),
    holds_of="any",
    follows=OF_NUMBERS,
)
def switches(trial: Trial, case: Case) -> Finding | None:
    found = _switches(trial)
    if not found:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    inputs = (case.query, case.key, case.value)
    for switch, default in found.items():
        values = {"switch": switch, "state": not default, "other": default}
        for how, options in _ways(trial, case):
            try:
                expected = trial.call(*inputs, **options)
                output = trial.call(*inputs, **options, **{switch: not default})
            except (Raised, Stopped):
                continue  # a refusal is no silence
            wrong = miss(output, expected, 2 * trial.tolerance(*inputs, **options))
            if wrong is not None:
                failure = trial.failure(FLIPPED, expected, how=how, **values, **wrong.values())
                plain = trial.call(*inputs, **{switch: not default})
                lost = bool(options) and bool(((output - plain).abs() <= 1e-4).all())
                return failure.reword(UNMASKED, how=how, **values) if lost else failure
        blind = _blind_gradients(trial, case, values) if trial.offers("attn_mask") else None
        if blind is not None:
            return blind
    return None


def _blind_gradients(trial: Trial, case: Case, values: dict[str, Any]) -> Finding | None:
    """The gradients where a row sees nothing: finite in one branch, and not in the other."""
    mask, found = _blind(trial, case), []
    for state in (values["other"], values["state"]):
        try:
            options = {**mask, values["switch"]: state}
            found.append(trial.gradients(case, torch.ones_like, **options))
        except (Raised, Stopped):
            return None
    for name, expected in found[0].items():
        got = found[1][name]
        if expected is None or got is None:
            continue
        for one, other, swapped in ((got, expected, False), (expected, got, True)):
            bad = torch.nonzero(~one.isfinite() & other.isfinite())
            if len(bad):
                place = bad[0].tolist()
                numbers = {"got": float(one[tuple(place)]), "expected": float(other[tuple(place)])}
                if swapped:
                    values = values | {"state": values["other"], "other": values["state"]}
                return trial.failure(GRADIENTS, name=name, index=place, **values, **numbers)
    return None


@rule(
    statement=Text("Without dropout a module computes the same in training and in evaluation."),
    formula=r"f_{\text{train}}(Q, K, V) = f_{\text{eval}}(Q, K, V), \quad p = 0",
    page="foundations/dropout",
    holds_of="any",
    follows=OF_NUMBERS,
)
def same_in_training(trial: Trial, case: Case) -> Finding | None:
    inputs = (case.query, case.key, case.value)
    trial.call(*inputs)  # which makes a layer that is made for each shape
    if not modules(trial.subject.function):
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    ways: list[tuple[Text, dict[str, Any]]] = [(PLAINLY, {})]
    ways += [(BLINDLY, _blind(trial, case))] * (trial.offers("attn_mask") and trial.subject.apart)
    for how, options in ways:
        try:
            output = trial.call(*inputs, **options)
            with _training(trial):
                expected, again = (trial.call(*inputs, **options) for _ in range(2))
        except Raised:
            continue
        if miss(again, expected, 0.0) is not None:  # it draws, whatever its numbers say
            return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
        wrong = miss(output, expected, 2 * trial.tolerance(*inputs, **options))
        if wrong is not None:
            trial.call(*inputs, **options)
            return trial.failure(MODE, expected, how=how, **wrong.values())
    return None


@contextlib.contextmanager
def _training(trial: Trial) -> Iterator[None]:
    """Its modules in training, none of which drops anything; afterwards as they were."""
    kept: list[tuple[Any, str, Any]] = []
    for module in modules(trial.subject.function):
        kept.append((module, "training", module.training))
        for name, value in vars(module).items():
            drops = "drop" in name or (isinstance(module, torch.nn.Dropout) and name == "p")
            if drops and isinstance(value, float):
                kept.append((module, name, value))
    try:
        for module, name, _ in kept:
            setattr(module, name, name == "training" or 0.0)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)
