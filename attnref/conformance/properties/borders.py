"""Packed sequences lie one after the other, and each sees its own keys alone."""

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.packed import SIDES
from attnref.conformance.property import rule
from attnref.conformance.trial import NOTHING_SUCH, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

NEIGHBOUR = Text(
    "A packed sequence notices the one {side} it: with other numbers there, its output at {index} "
    "is {got:.6g} instead of {expected:.6g}. Its keys are those from cu_seqlens[i] to "
    "cu_seqlens[i + 1], the last one excluded, and a state begins again there."
)
LONGER = Text(
    "Beside longer sequences the output of a packed one at {index} is {got:.6g} instead of "
    "{expected:.6g}. max_seqlen is the length of the longest, and says nothing of the others."
)
LOST = Text(
    "Query {i} of a packed sequence of {m} keys gives its key {j} no weight: the border is off by "
    "one. The keys are those from cu_seqlens[i] to cu_seqlens[i + 1], the last one excluded."
)
SIDE = {"before": Text("before"), "after": Text("after")}
_WEIGHTLESS = 1e-6  # of normal queries and keys no key that may be seen weighs less


@rule(
    statement=Text("Of packed sequences none notices those beside it, and each sees all its keys."),
    formula=r"O_s = f(Q_s, K_s, V_s), \quad s = 1, 2, \ldots",
    page="variants/varlen",
    asked_of=("function",),
    holds_of="any",
    follows=("shape", "determinism"),
)
def borders(trial: Trial, case: Case) -> Finding | None:
    if trial.subject.reading.layout != "packed":
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    inputs = (case.query, case.key, case.value)
    expected = trial.call(*inputs)
    allowed = 2 * trial.tolerance(*inputs)
    for side in SIDES:
        found = miss(trial.call(*inputs, changed=side), expected, allowed)
        if found is not None:
            return trial.failure(NEIGHBOUR, expected, side=SIDE[side], **found.values())
    longer = _check_longer(trial, case)
    if longer is not None:
        return longer
    if trial.subject.reference is not None or trial.subject.reading.other is not None:
        return None  # what a weight is, only a softmax says
    lost = trial.weights(case.query, case.key).abs() < _WEIGHTLESS
    lost &= trial.visible_pairs(case)
    if not lost.any():
        return None
    *_, i, j = torch.nonzero(lost)[0].tolist()
    trial.call(*inputs)  # the one to be shown
    return trial.failure(LOST, i=i, j=j, m=case.key.shape[-2])


def _check_longer(trial: Trial, case: Case) -> Finding | None:
    """The same beside longer ones; with fewer queries than keys, too, if causality is offered."""
    if any("n" in draw.axes for draw in trial.subject.extras.values()):
        return None  # whose numbers lie as those beside do
    n = case.query.shape[-2]
    ways: list[tuple[Tensor, dict[str, bool]]] = [(case.query, {})]
    if trial.offers("is_causal") and not trial.subject.positional:
        ways.append((case.query[..., n // 2 :, :], {"is_causal": True}))
    for query, options in ways:
        inputs = (query, case.key, case.value)
        expected = trial.call(*inputs, **options)
        found = miss(
            trial.call(*inputs, **options, changed="longer"),
            expected,
            2 * trial.tolerance(*inputs, **options),
        )
        if found is not None:
            return trial.failure(LONGER, expected, **found.values())
    return None
