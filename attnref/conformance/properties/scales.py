"""Scales of keys and values that are held in few bits: what they stand for is their product."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.trial import NOTHING_SUCH, Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

IGNORED = Text(
    "{names} are accepted but ignored: attention must be that to {key} times the keys and {value} "
    "times the values."
)
FIRST = Text(
    "The scale of the first sample and head counts for all: {names} have one for each of them."
)
OTHER = Text(
    "With {names} the output at {index} is {got:.6g}, expected {expected:.6g}, that of the keys "
    "times {key} and the values times {value}."
)

_KEY = ("k_scale", "k_descale", "key_scale", "descale_k", "scale_k", "k_dequant_scale")


def _names(trial: Trial) -> tuple[str, str] | None:
    """The two parameters, that of the keys first."""
    known = trial.subject.parameters or ()
    for key in _KEY:
        value = key.replace("key", "value").replace("k_", "v_").replace("_k", "_v")
        if key in known and value in known:
            return key, value
    return None


def _scales(case: Case) -> Iterator[tuple[Any, Any]]:
    """A number for all, and one for each sample and head."""
    yield 0.5, 2.0
    shape = case.key.shape[:2]
    steps = torch.linspace(0.5, 2.0, shape.numel(), dtype=torch.float64).reshape(shape)
    yield steps, steps.flip(0, 1)


@rule(
    statement=Text("Scales of keys and values are multiplied by them, each by its own."),
    formula=r"f(Q, K, V, s_K, s_V) = f(Q, s_K K, s_V V)",
    page="variants/quantized",
    asked_of=("function",),
    follows=OF_NUMBERS,
)
def descaling(trial: Trial, case: Case) -> Finding | None:
    names = _names(trial)
    if names is None:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    if not trial.is_right(case):
        return None  # `oracle` tells of it
    inputs = (case.query, case.key, case.value)
    for key, value in _scales(case):
        options = dict(zip(names, (key, value), strict=True))
        try:
            output = trial.call(*inputs, **options)
        except Raised:
            continue  # it takes scales of the other kind
        right = trial.truth(case.query, _times(key, case.key), _times(value, case.value))
        found = miss(output, right.output, 3 * right.allowance)
        if found is None:
            continue
        told = {"names": " and ".join(names), "key": names[0], "value": names[1]}
        failure = trial.failure(OTHER, right.output, **told, **found.values())
        if miss(output, trial.call(*inputs), 0.0) is None:
            return failure.reword(IGNORED, **told)
        if isinstance(key, Tensor):
            one = trial.truth(case.query, key[0, 0] * case.key, value[0, 0] * case.value)
            if miss(output, one.output, 3 * one.allowance) is None:
                return failure.reword(FIRST, **told)
        return failure
    return None


def _times(scale: Any, tensor: Tensor) -> Tensor:
    return (scale[..., None, None] if isinstance(scale, Tensor) else scale) * tensor
