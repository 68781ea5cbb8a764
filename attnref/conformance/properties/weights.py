"""Each output is an average of the values, with the weights of a softmax."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref.conformance import recurrence
from attnref.conformance.budget import Truth
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import distinguish, miss
from attnref.conformance.explanations import explain
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.recurrence import Recurrence
from attnref.conformance.step import StepSubject
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

OTHER_SUM = Text(
    "The weights of the rows sum to {least:.4g} at least and {most:.4g} at most, expected 1."
)
NOT_FINITE = Text(
    "For finite numbers the output at {index} is {got:.4g}, whatever the values: no weights sum "
    "to 1. Look for 0/0 (a sum that is 0, a row without keys), for inf - inf, and for memory that "
    "nobody has written."
)
SLOTS = Text(
    "The weights of the rows sum to {least:.4g} at least and {most:.4g} at most, expected 1: "
    "the rest goes to keys of zeros, {first} at the first query and {last} at the last, such as "
    "empty slots of a cache or padding. Mask them, or cut them off."
)
UNWRITTEN = Text(
    "The output at {index} is {got:.4g}, and with zeros in place of NaN in the slots of the "
    "cache that nobody has written it is a number: a weight of 0 times NaN is NaN. Cut the slots "
    "off, or fill them, before both products."
)
OTHER_AXIS = Text(
    "The weights of the rows sum to {least:.4g} at least and {most:.4g} at most, expected 1; it "
    "is the sum over the {axis} that is 1. Take the softmax over the keys, dim=-1."
)
AXES = {
    -2: Text("queries (dim=-2)"),
    1: Text("heads (dim=1)"),
    0: Text("batch (dim=0)"),
}
OUTSIDE = Text(
    "At {index} the output is {got:.4g}, outside of the values' range from {least:.4g} to "
    "{most:.4g}: some weights are negative, or do not sum to 1."
)
FOREIGN = Text(
    "At {index} the output is {got:.4g}, outside of the values' range from {least:.4g} to "
    "{most:.4g}: it changes with the values of another {whose}, whose keys must not be seen."
)
NEIGHBOURS = {
    0: Text("sample"),
    1: Text("head"),
}
BESIDES = Text(
    "At {index} the output is {got:.4g}, outside of the values' range from {least:.4g} to "
    "{most:.4g}, though no weight is negative and they sum to 1: something besides averaging is "
    "done to the values."
)
OTHER = Text(
    "At {index} the output is {got:.6g}, expected {expected:.6g} (allowed error {allowed:.1e})."
)
LONG = Text(
    "For n = {n}, {heads} heads and d_k = {d_k} the output at {index} is {got:.6g}, expected "
    "{expected:.6g}, though small inputs are answered right."
)
LONG_CAUSAL = Text(
    "With is_causal, for n = {n}, {heads} heads and d_k = {d_k}, the output at {index} is "
    "{got:.6g}, expected {expected:.6g}, though small inputs are answered right."
)
BORDER = Text(
    "The positions before {border} are right, and from there on at {index} the output is "
    "{got:.6g}, expected {expected:.6g}. If it computes by chunks, look at what a chunk of "
    "{border} hands on, and at what the next one makes of it."
)
AS_IF = Text("At {index} the output is {got:.6g}, expected {expected:.6g}. It behaves as if {way}.")


@rule(
    statement=Text("The weights of each query sum to 1."),
    formula=r"\sum_j p_{ij} = 1",
    page="foundations/softmax-or-sum",
    follows=("shape", "determinism", "borders", "past_kept"),
    holds_of="average",
)
def row_sums(trial: Trial, case: Case) -> Finding | None:
    ones = torch.ones_like(case.value)
    expected = trial.truth(case.query, case.key, ones)
    sums = trial.call(case.query, case.key, ones)
    if miss(sums, expected.output, expected.allowance) is None:
        return None
    if not sums.isfinite().all():
        place = torch.nonzero(~sums.isfinite())[0].tolist()
        got = float(sums[tuple(place)])
        text = UNWRITTEN if _reads_slots(trial, case) else NOT_FINITE
        return trial.failure(text, expected.output, index=place, got=got)
    least, most, _ = distinguish(float(sums.min()), float(sums.max()), 1.0)
    failure = trial.failure(OTHER_SUM, expected.output, least=least, most=most)
    slots = _empty_slots(trial, case, sums[..., 0])
    if slots is not None:
        trial.call(case.query, case.key, ones)
        return failure.reword(SLOTS, **failure.values, **slots)
    weights = trial.weights(case.query, case.key)
    for axis, name in AXES.items():
        if weights.shape[axis] > 1 and bool(((weights.sum(axis) - 1).abs() < 1e-2).all()):
            values = {**failure.values, "axis": name}
            return failure.reword(OTHER_AXIS, **values)
    return failure


def _empty_slots(trial: Trial, case: Case, sums: Tensor) -> dict[str, object] | None:
    """How many keys of zeros, whose scores are 0, would take what is missing of the weights."""
    scores = trial.to_double(case.query) @ trial.to_double(case.key).mT
    scores = scores * trial.usual_scale(case.query.shape[-1])
    powers = scores.exp().masked_fill(~trial.visible_pairs(case), 0.0).sum(-1)
    missing = (powers / sums - powers)[0, 0]
    whole = missing.round()
    if not bool(((missing - whole).abs() <= 1e-2 * whole).all() and (whole >= 2).all()):
        return None
    return {"first": int(whole[0]), "last": int(whole[-1])}


def _reads_slots(trial: Trial, case: Case) -> bool:
    """Whether a step answers numbers once the cache that it begins with has zeros for NaN."""
    if not isinstance(trial.subject, StepSubject) or trial.subject.step.factory is None:
        return False
    shown = trial.last
    step = replace(trial.subject.step, filled=True)
    other = Trial(trial.subject.stepping(step), trial.dtype, trial.device)
    output = other.call(case.query, case.key, case.value)
    trial.last = shown
    return bool(output.isfinite().all())


@rule(
    statement=Text("No output leaves the range of the values: it is a weighted average of them."),
    formula=r"\min_j v_{jc} \le o_{ic} \le \max_j v_{jc}",
    page="foundations/six-words",
    follows=(*OF_NUMBERS, *("batch_independence", "head_independence")),
    holds_of="products",
)
def convexity(trial: Trial, case: Case) -> Finding | None:
    expected = trial.truth(case.query, case.key, case.value)
    output = trial.call(case.query, case.key, case.value)
    value = trial.to_double(case.value)
    least, most = value.amin(-2, keepdim=True), value.amax(-2, keepdim=True)
    inside = output.clamp(least, most)
    found = miss(output, inside, expected.allowance)
    if found is None:
        return None
    place = (*found.place[:-2], 0, found.place[-1])
    about = found.values() | {"least": float(least[place]), "most": float(most[place])}
    failure = trial.failure(OUTSIDE, expected.output, **about)
    for axis, whose in NEIGHBOURS.items():
        own = torch.arange(value.shape[axis]) == found.place[axis]
        own = own.reshape(-1, *[1] * (value.ndim - axis - 1))
        moved = trial.call(case.query, case.key, torch.where(own, case.value, 8.0 - case.value))
        if bool((moved - output)[found.place].abs() > expected.allowance[found.place]):
            return failure.reword(FOREIGN, **about, whose=whose)
    weights = trial.weights(case.query, case.key)
    allowed = float(expected.allowance.max())
    average = bool((weights >= -allowed).all() and ((weights.sum(-1) - 1).abs() <= 1e-3).all())
    return failure.reword(BESIDES, **about) if average else failure


BESIDE = Text("For {what} the output at {index} is {got:.6g}, expected {expected:.6g}.")
FEWER = Text("{n} queries and {m} keys")
SHARED = Text("{heads} heads that share {shared} heads of keys")


@rule(
    statement=Text("The output is the one of the formula, computed in float64, up to rounding."),
    formula=r"O = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right)V",
    page="foundations/matrix-form",
    follows=(*OF_NUMBERS, *("batch_independence", "head_independence", "long_caches", "scale")),
    holds_of="formula",
)
def oracle(trial: Trial, case: Case) -> Finding | None:
    expected = trial.truth(case.query, case.key, case.value)
    output = trial.call(case.query, case.key, case.value)
    found = miss(output, expected.output, expected.allowance)
    if found is None:
        beside = _check_beside(trial, case) if trial.subject.beside is not None else None
        return beside or _check_long(trial, case)
    way = _known_way(trial, case, output)
    border = _border(output, expected)
    # Where there is a softmax, the first position sees itself alone, and is right anyway.
    recurs = isinstance(trial.subject.reference, Recurrence)
    least = 0 if recurs or isinstance(trial.subject, StepSubject) else 1
    if way is None and border > least and trial.subject.reference is not None:
        return trial.failure(BORDER, expected.output, border=border, **found.values())
    if way is None:
        return trial.failure(OTHER, expected.output, **found.values())
    return trial.failure(AS_IF, expected.output, way=way, **found.values())


def _check_beside(trial: Trial, case: Case) -> Finding | None:
    """The same with other numbers of queries and of heads, where the reference answers them."""
    n = case.query.shape[-2]
    tail = case.query[..., n // 2 :, :]
    few = trial.draw(trial.fit(Sizes(heads=4, key_heads=2)), case.seed)
    ways = {
        FEWER.fill({"n": tail.shape[-2], "m": n}): (tail, case.key, case.value),
        SHARED.fill({"heads": 4, "shared": 2}): (few.query, few.key, few.value),
    }
    flag: dict[str, Any] = {"enable_gqa": True} if trial.offers("enable_gqa") else {}
    for what, inputs in ways.items():
        options = flag if inputs[0] is few.query else {}
        try:
            right = trial.truth(*inputs, **options)
            output = trial.call(*inputs, **options)
        except (Raised, Stopped):
            continue
        found = miss(output, right.output, right.allowance)
        if found is not None:
            return trial.failure(BESIDE, right.output, what=what, **found.values())
    return None


def _border(output: Tensor, right: Truth) -> int:
    """The first position that is wrong, 0 where it is the first of all."""
    wrong = ~((output - right.output).abs() <= right.allowance)
    return int(wrong.any(-1).flatten(0, -2).any(0).to(torch.uint8).argmax())


def _known_way(trial: Trial, case: Case, output: Tensor) -> Text | None:
    """What gives that output, if it is a known way to be wrong."""
    if trial.subject.reference is None:
        return explain(case, output)
    reference = trial.reference(case.query)
    if isinstance(reference, Recurrence):
        inputs = [trial.to_double(x) for x in (case.query, case.key, case.value)]
        extras = trial.subject_extras(*inputs[:2])
        given = {name: trial.to_double(each) for name, each in extras.items()}
        return recurrence.explain(
            reference.inputs(inputs[0], inputs[1], inputs[2], given), output, reference.delta
        )
    return None


# Beyond the blocks of 32, 64 and 128 that code computes with, and no multiple of 8.
_LONG = Sizes(batch=1, heads=9, n=133, d_k=69)
_EVERY = 4  # rows are compared


def _check_long(trial: Trial, case: Case) -> Finding | None:
    """The same where blocks, heads and widths have limits, which a function may declare."""
    usual = trial.fit(Sizes())
    if case.query.numel() < usual.batch * usual.heads * usual.n * usual.d_k:
        return None  # a smaller case is asked for what the usual one shows
    sizes = trial.fit(_LONG)
    long = trial.draw(sizes, case.seed)
    inputs = (long.query, long.key, long.value)
    ways: dict[Text, dict[str, Any]] = {} if trial.subject.always_causal else {LONG: {}}
    if trial.offers("is_causal") and trial.is_right(case, is_causal=True):
        ways[LONG_CAUSAL] = {"is_causal": True}
    rows = torch.arange(sizes.n - 1, -1, -_EVERY)
    for text, options in ways.items():
        try:
            output = trial.call(*inputs, **options)
        except Raised as raised:
            if not trial.is_refusal(raised):
                raise
            continue
        right = trial.truth(*inputs, rows=rows, **options)
        found = miss(output[..., rows, :], right.output, right.allowance)
        if found is not None:
            place = [*found.place[:2], int(rows[found.place[2]]), found.place[3]]
            about = {"n": sizes.n, "heads": sizes.heads, "d_k": sizes.d_k}
            return trial.failure(text, **found.values() | {"index": place} | about)
    return None
