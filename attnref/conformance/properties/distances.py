"""Positions inside of it: a bias that grows with distance, and a rotation."""

from dataclasses import replace

import torch

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.formula import SERIES
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.trial import NOTHING_SUCH, Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

SLOPES = Text(
    "Its bias by distance has {slopes}; ALiBi's are 2^(-8i/p), i = 1, …, p, for the largest "
    "power of two p up to the number of heads, and every second slope of 2p heads for the others. "
    "With {heads} heads: {got}, expected {expected}."
)
ONE_SLOPE = Text(
    "With few heads its slopes are ALiBi's, but with {heads} heads the slope of head {head} is "
    "{got:.5g}, expected {right:.5g}: beyond a power of two, heads take every other slope of the "
    "series for twice as many heads."
)
_HEADS = 12


@rule(
    statement=Text("The slopes of a bias by distance are ALiBi's, for each number of heads."),
    formula=r"b^{(h)}_{ij} = -s_h |i - j|, \quad s_i = 2^{-8i/p}",
    page="foundations/positions",
    sizes=Sizes(heads=_HEADS, n=5, keep=("heads",)),
    follows=OF_NUMBERS,
)
def slopes(trial: Trial, case: Case) -> Finding | None:
    kind = trial.subject.reading.formula.slopes
    if kind is None:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    usual, *others = SERIES
    for name in (usual, *others):
        if _has(trial, case, name):
            break
    else:
        return _unknown_slopes(trial, case)
    if name == usual == kind:
        return None
    found = name if name != usual else kind
    got, expected = (
        [round(float(x), 5) for x in SERIES[each][1](_HEADS)[:4]] for each in (found, usual)
    )
    values = {"slopes": SERIES[found][0], "heads": _HEADS, "got": got, "expected": expected}
    trial.call(case.query, case.key, case.value)
    return trial.failure(SLOPES, **values)


def _unknown_slopes(trial: Trial, case: Case) -> Finding | None:
    """What queries of zeros see of the last two keys shows them."""
    zeros = torch.zeros_like(case.query)
    weights = trial.weights(zeros, zeros)[0, :, -1].log()
    got = [round(float(x), 5) for x in weights[:, -1] - weights[:, -2]]
    right = [round(float(x), 5) for x in SERIES["alibi"][1](_HEADS)]
    wrong = [head for head in range(_HEADS) if not abs(got[head] - right[head]) <= 1e-4]
    trial.call(case.query, case.key, case.value)
    values = {"heads": _HEADS, "head": wrong[0], "got": got[wrong[0]], "right": right[wrong[0]]}
    return trial.failure(ONE_SLOPE, **values) if wrong else None  # `oracle` tells of it


def _has(trial: Trial, case: Case, kind: str) -> bool:
    reading = trial.subject.reading
    reading = replace(reading, formula=reading.formula._replace(slopes=kind))
    other = Trial(replace(trial.subject, reading=reading), trial.dtype, trial.device)
    try:
        output = trial.call(case.query, case.key, case.value)
    except Raised:
        return False
    right = other.truth(case.query, case.key, case.value)
    return miss(output, right.output, right.allowance + torch.tensor(1e-6)) is None


HALF = Text(
    "It turns the pairs (i, i + d/2) of queries and keys by their positions, as a checkpoint in "
    "halves needs."
)
NEIGHBOURS = Text(
    "It turns the pairs (2i, 2i + 1) of queries and keys by their positions, as a checkpoint of "
    "neighbours needs."
)
OF_PART = Text(
    "Of the components that are turned the frequencies are theirs, theta^(-2i/rotary_dim)."
)
OF_WHOLE = Text(
    "Of the components that are turned the frequencies are those of the whole head, "
    "theta^(-2i/head_dim), and so are the pairs."
)


@rule(
    statement=Text(
        "Where queries and keys are turned, which components make a pair; reported, not judged."
    ),
    formula=r"R_{\theta}: (x_i, x_{i + d/2}) \text{ or } (x_{2i}, x_{2i + 1})",
    page="foundations/positions",
    convention="rotary",
    choices={HALF: "half", NEIGHBOURS: "neighbours"},
)
def rotary_pairs(trial: Trial, case: Case) -> Finding | None:
    turn = trial.subject.reading.formula.turn
    if turn is None:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    return Finding(Verdict.CONVENTION, HALF if turn.half else NEIGHBOURS)


@rule(
    statement=Text(
        "Where a part of each head is turned, whose frequencies it has; reported, not judged."
    ),
    formula=r"\theta^{-2i/r} \text{ or } \theta^{-2i/d}",
    page="foundations/positions",
    convention="rotary-width",
    choices={OF_PART: "part", OF_WHOLE: "head"},
)
def rotary_width(trial: Trial, case: Case) -> Finding | None:
    turn = trial.subject.reading.formula.turn
    if turn is None or turn.part == 1.0:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    return Finding(Verdict.CONVENTION, OF_WHOLE if turn.over else OF_PART)
