"""Half precision beside float32, where a function takes it: asked even if nobody asks for it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.properties.numerics import EXACT
from attnref.conformance.properties.scaling import overflows
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

ROUGH = Text(
    "In {dtype} {how} the output at {index} is {got:.6g}, expected {expected:.6g} (allowed "
    "error {allowed:.1e}), though in float32 it is right."
)
RAISES = Text(
    "In {dtype} {how} it raises {error} (at {place}), though it answers in float32, and in "
    "{dtype} without options."
)
TOO_LARGE = Text(
    "In {dtype} {how} it raises {error} (at {place}): a number that is written down for -inf, "
    "such as -1e9, does not fit. Write -math.inf."
)
NOT_TAKEN = Text("It takes neither bfloat16 nor float16.")
OTHER_DTYPE = Text("Tested beside float32 alone.")
PLAIN = Text("without options")
MASKED = Text("with attn_mask")
CAUSAL = Text("with is_causal")
AUTOCAST = Text("under torch.autocast")


@rule(
    statement=Text(
        "Where it takes half precision, the answer is the one of float32, up to rounding."
    ),
    formula=r"u = 2^{-8} \text{ in bfloat16}, \quad u = 2^{-11} \text{ in float16}",
    page="pitfalls/numerics",
    sizes=EXACT,
    follows=(*OF_NUMBERS, *("scale",)),
    holds_of="formula",
)
def half_precision(trial: Trial, case: Case) -> Finding | None:
    if trial.dtype != torch.float32:
        return Finding(Verdict.NOT_CLAIMED, OTHER_DTYPE)
    taken = False
    for dtype in (torch.bfloat16, torch.float16):
        half = Trial(trial.subject, dtype, trial.device)
        if _takes(half, case):
            taken = True
            found = _check_half(trial, half, case)
            if found is not None:
                return found
    return None if taken else Finding(Verdict.NOT_CLAIMED, NOT_TAKEN)


def _takes(trial: Trial, case: Case) -> bool:
    try:
        trial.call(case.query, case.key, case.value)
    except (Raised, Stopped):
        return False
    return True


def _check_half(trial: Trial, half: Trial, case: Case) -> Finding | None:
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    ways: list[tuple[Text, dict[str, Any]]] = [
        (PLAIN, {}),
        (MASKED, {"attn_mask": mask}),
        (CAUSAL, {"is_causal": True}),
    ]
    for how, options in ways:
        if not (trial.offers(*options) and trial.is_right(case, **options)):
            continue  # other properties tell of it
        found = _find_miss(half, case, how, half.call, options)
        if found is not None:
            return found
    if not trial.is_right(case):
        return None  # what it does before the factor is not known
    plain = trial.subject.reference is None and trial.subject.reading.formula.plain
    if half.dtype == torch.bfloat16:
        return _find_miss(half, case, AUTOCAST, _autocast(trial), {})
    return overflows(half, case) if plain else None


def _find_miss(
    half: Trial,
    case: Case,
    how: Text,
    call: Callable[..., Tensor],
    options: dict[str, Any],
) -> Finding | None:
    query, key, value = (half.to_double(x) for x in (case.query, case.key, case.value))
    name = str(half.dtype).removeprefix("torch.")
    try:
        output = call(query, key, value, **options)
    except Raised as raised:
        if how is AUTOCAST or half.is_refusal(raised):
            return None  # a refusal is no silence
        said = f"{type(raised.error).__name__}: {raised.error}"
        text = TOO_LARGE if "without overflow" in said else RAISES
        return half.unsafe_failure(text, dtype=name, how=how, error=said, place=raised.place)
    right = half.truth(query, key, value, **options)
    found = miss(output, right.output, right.allowance)
    return found and half.failure(ROUGH, right.output, dtype=name, how=how, **found.values())


def _autocast(trial: Trial) -> Callable[..., Tensor]:
    """A call with tensors of float32 whose products PyTorch takes in bfloat16."""

    def call(*tensors: Tensor) -> Tensor:
        with torch.autocast(trial.device.type, torch.bfloat16):
            return trial.call(*tensors)

    return call
