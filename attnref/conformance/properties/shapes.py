"""What comes out has the form of what went in."""

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.property import rule
from attnref.conformance.trial import NOT_A_TENSOR, WRONG_SHAPE, Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

SWAPPED = Text(
    "It returned shape {got}, expected {expected}: the axes of heads and positions are "
    "swapped. Move the heads back with transpose(-3, -2)."
)
MERGED = Text(
    "It returned shape {got}, expected {expected}: the heads are already merged. That belongs "
    "to the layer around the attention."
)
PAIR = Text("It returns a {kind} of {count}; the first is taken as the output.")
WRONG_DTYPE = Text("For {given} inputs it returned {got}. End with output.to(query.dtype).")


@rule(
    statement=Text("The output has one row for each query and the width of the values."),
    formula=r"O \in \mathbb{R}^{\cdots \times n \times d_v}",
    page="foundations/matrix-form",
    holds_of="any",
    convention="output",
    choices={None: "tensor", PAIR: "tuple"},
)
def shape(trial: Trial, case: Case) -> Finding | None:
    query, key, value = map(trial.cast, (case.query, case.key, case.value))
    found = trial.call_raw(query, key, value)
    several = found if isinstance(found, tuple | list) and found else None
    output = found if several is None else several[0]
    if not isinstance(output, Tensor):
        return trial.failure(NOT_A_TENSOR, kind=type(found).__name__)
    batch, heads, n, _ = query.shape
    got, expected = tuple(output.shape), (batch, heads, n, value.shape[-1])
    if got != expected:
        text = WRONG_SHAPE
        if got == (batch, n, heads, value.shape[-1]):
            text = SWAPPED
        elif got == (batch, n, heads * value.shape[-1]):
            text = MERGED
        return trial.failure(text, got=got, expected=expected)
    if trial.subject.reading.turned:  # it was given the axes back, or it would not be attention
        turned = (batch, n, heads, value.shape[-1])
        return Finding(Verdict.CONVENTION, SWAPPED, {"got": turned, "expected": expected})
    if several is None:
        return None
    values = {"kind": type(found).__name__, "count": len(several)}
    return Finding(Verdict.CONVENTION, PAIR, values)


@rule(
    statement=Text("The output has the dtype and the device of the query."),
    formula=r"\mathrm{dtype}(O) = \mathrm{dtype}(Q)",
    page="foundations/matrix-form",
    follows=("shape", "determinism"),
    holds_of="any",
)
def dtype(trial: Trial, case: Case) -> Finding | None:
    asked = [trial.dtype, torch.float32, torch.float64, torch.bfloat16]
    for each in dict.fromkeys(asked):
        one = Trial(trial.subject, each, trial.device)  # what it takes beside them has it, too
        try:
            found = one.output(*map(one.cast, (case.query, case.key, case.value)))
        except Raised:
            continue  # other dtypes than the one that is asked need not be supported
        if found.dtype != each:
            return one.failure(WRONG_DTYPE, given=_dtype_name(each), got=_dtype_name(found.dtype))
    return None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
