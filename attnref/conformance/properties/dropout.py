"""Dropout: off when it is not wanted, unbiased when it is."""

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.causal import all_equal
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

STILL_ON = Text(
    "With dropout_p=0.0 the output at {index} is {got:.6g}, without dropout_p {expected:.6g}: "
    "something is dropped, or the factor stays."
)
OFF = Text("dropout_p={p} drops nothing.")
ON_OUTPUT = Text(
    "It drops parts of the output, not weights: with equal values the components of one output "
    "differ, from {least:.3g} to {most:.3g}."
)
SHARE = Text("In {calls} calls dropout_p={p} drops {share:.0%} of the weights, expected {p:.0%}.")
KEPT = Text(
    "In {calls} calls dropout_p={p} multiplies the weights that it keeps by {least:.3g} to "
    "{most:.3g}, expected 1/(1 - p) = {right:.3g}, which keeps their expected value."
)

REPEATED = Text("dropout_p={p} drops the same weights {where}. Draw again for each weight.")
AXES = (
    Text("in every call"),
    Text("in all samples"),
    Text("in all heads"),
    Text("for all queries"),
    Text("for all keys"),
)

_P = 0.25  # unlike 1 - p, and exact
_CALLS = 8
_DEVIATIONS = 6.0  # of a fair coin's share, in standard deviations; beyond, 1 time in 5e8


@rule(
    statement=Text("dropout_p=0.0, as in evaluation, drops nothing."),
    formula=r"p = 0 \implies f(Q, K, V, p) = f(Q, K, V)",
    page="foundations/dropout",
    needs=("dropout_p",),
    follows=OF_NUMBERS,
)
def dropout_off(trial: Trial, case: Case) -> Finding | None:
    allowance = trial.truth(case.query, case.key, case.value).allowance
    plain = trial.call(case.query, case.key, case.value)
    for _ in range(2):
        output = trial.call(case.query, case.key, case.value, dropout_p=0.0)
        found = miss(output, plain, 2 * allowance)
        if found is not None:
            return trial.failure(STILL_ON, plain, **found.values())
    return None


@rule(
    statement=Text(
        "Dropout sets a share p of the weights to 0 and multiplies the others by 1/(1 - p)."
    ),
    formula=r"\tilde p_{ij} = \frac{b_{ij}}{1-p}\, p_{ij}, \quad P(b_{ij} = 0) = p",
    page="foundations/dropout",
    needs=("dropout_p",),
    follows=OF_NUMBERS,
)
def dropout_scale(trial: Trial, case: Case) -> Finding | None:
    rows = trial.call(case.query, case.key, torch.ones_like(case.value), dropout_p=_P)
    least, most = rows.amin(-1), rows.amax(-1)
    spread = (most - least) > 1e-2
    if bool(spread.any()):
        worst = int((most - least).argmax())
        return trial.failure(
            ON_OUTPUT, least=float(least.flatten()[worst]), most=float(most.flatten()[worst])
        )
    own = trial.weights(case.query, case.key)
    ratios = torch.stack([_ratios(trial, case, own) for _ in range(_CALLS)])
    dropped = ratios.abs() < 1e-3
    share = float(dropped.double().mean())
    if share == 0.0:
        return trial.failure(OFF, p=_P)
    kept, right = ratios[~dropped], 1 / (1 - _P)
    # A ratio of two weights, each rounded twice, and itself rounded.
    if bool(((kept - right).abs() > 10 * torch.finfo(trial.dtype).eps + 1e-4).any()):
        values = {"least": float(kept.min()), "most": float(kept.max()), "right": right}
        return trial.failure(KEPT, p=_P, calls=_CALLS, **values)
    for axis, where in enumerate(AXES):  # two slices of fair coins hardly ever agree
        if dropped.shape[axis] > 1 and all_equal(dropped, dropped.narrow(axis, 0, 1)):
            return trial.failure(REPEATED, p=_P, where=where)
    deviation = (_P * (1 - _P) / dropped.numel()) ** 0.5
    if abs(share - _P) > _DEVIATIONS * deviation:
        return trial.failure(SHARE, p=_P, calls=_CALLS, share=share)
    return None


def _ratios(trial: Trial, case: Case, own: Tensor) -> Tensor:
    """What dropout multiplies each weight by."""
    return trial.weights(case.query, case.key, dropout_p=_P) / own
