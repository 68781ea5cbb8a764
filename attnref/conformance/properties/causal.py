"""Under is_causal a query sees its past and itself, and no more."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref import masks
from attnref.conformance.case import Case
from attnref.conformance.comparison import argmax_index, miss
from attnref.conformance.property import OF_CAUSALITY, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

IGNORED = Text(
    "is_causal=True is accepted but ignored: query {i} gives key {j}, which is in its future, "
    "the weight {weight:.3g}, as it does without is_causal."
)
FUTURE = Text("The future moves the past: query {i} gives key {j} the weight {weight:.3g}.")
ONE_AHEAD = Text(
    "It sees all of its past, and one position of its future: the output at position {i} "
    "changes with the numbers of position {j}. The causal mask is off by one: keep j <= i."
)
MOVED = Text(
    "When the keys and values after position {i} change, the output of query {i} goes from "
    "{expected:.6g} to {got:.6g}."
)
STRICT = Text(
    "Query {i} does not see its own key: the diagonal is masked too. Allow j <= i: forbid "
    "torch.triu(…, diagonal=1)."
)
SOME_STRICT = Text(
    "Query {i} does not see its own key, though others see theirs ({count} of {n} do not): a "
    "border is off there, of a block, of a chunk or of a sequence. Allow j <= i."
)
PAST = Text(
    "With is_causal query {i} gives key {j} the weight {weight:.3g}, expected {right:.3g}: its "
    "own weights for the keys up to {i}, normalised again."
)
TOP_LEFT = Text(
    "With n ≠ m is_causal is aligned top-left: query i sees the keys j <= i, both sequences "
    "begin together. So does PyTorch. For decoding with a cache, use bottom-right."
)
BOTTOM_RIGHT = Text(
    "With n ≠ m is_causal is aligned bottom-right: query i sees the keys j <= i + m - n, both "
    "sequences end together. So does FlashAttention, and decoding with a cache needs it; "
    "PyTorch's is_causal is top-left."
)
NEITHER = Text(
    "For n = {n} and m = {m} query {i} sees the keys {keys}; the queries together are aligned "
    "neither top-left (j <= i) nor bottom-right (j <= i + m - n)."
)
KEYLESS = Text(
    "Aligned bottom-right, for n = {n} and m = {m}, query {i} has no key; its output must be "
    "0, but is {got:.4g}."
)
MIXED = Text(
    "is_causal is aligned bottom-right for one of the cases n < m and n > m, and top-left for "
    "the other. Use the same alignment for both."
)

_WEIGHTLESS = 1e-6  # of normal queries and keys no key that may be seen weighs less


@rule(
    statement=Text("With is_causal, whatever changes in the future leaves the past as it is."),
    formula=r"j > i \implies \partial o_i / \partial (k_j, v_j) = 0",
    page="foundations/masks",
    needs=("is_causal",),
    follows=OF_NUMBERS,
    holds_of="any",
    asked_of=("function",),
)
def causality(trial: Trial, case: Case) -> Finding | None:
    inputs = (case.query, case.key, case.value)
    options = {"is_causal": True} if trial.subject.apart else {}
    kept = trial.call(*inputs, **options)
    allowed = 2 * trial.tolerance(*inputs, **options)
    # NaN that stays NaN, of a query that has no key yet, is the matter of own_token.
    keyless = kept.isnan() & ~kept.isnan().all()
    kept = kept.masked_fill(keyless, 0.0)
    for i in range(case.query.shape[-2] - 1):
        query, key, value = (x.clone() for x in inputs)
        query[..., i + 1 :, :] += 1.0 * (not trial.subject.apart)
        key[..., i + 1 :, :] += 1.0
        value[..., i + 1 :, :] += 8.0
        moved = trial.call(query, key, value, **options)
        moved = moved.masked_fill(keyless & moved.isnan(), 0.0)[..., : i + 1, :]
        found = miss(moved, kept[..., : i + 1, :], allowed[..., : i + 1, :])
        if found is not None:
            failure = trial.failure(MOVED, kept, **found.values() | {"i": found.place[-2]})
            if trial.subject.apart:
                return _heaviest(trial, query, key, failure)
            sight = trial.dependence(case)
            ahead = torch.equal(sight, torch.ones_like(sight).tril(1))
            return failure.reword(ONE_AHEAD, i=0, j=1) if ahead else failure
    return None


def _heaviest(trial: Trial, query: Tensor, key: Tensor, failure: Finding) -> Finding:
    """Names the future key that weighs most, if any has a weight."""
    weights = trial.weights(query, key, is_causal=True)
    future = weights.triu(1).abs().nan_to_num(0.0)
    place = argmax_index(future)
    if not future[place]:
        return failure
    plain = trial.weights(query, key)
    text = IGNORED if bool((plain == weights).all()) else FUTURE
    values = {"i": place[-2], "j": place[-1], "weight": float(weights[place])}
    return failure.reword(text, **values)


@rule(
    statement=Text("With is_causal each query sees itself and all of its past."),
    formula=r"j \le i \implies p_{ij} > 0",
    page="foundations/masks",
    needs=("is_causal",),
    follows=(*OF_NUMBERS, "causality"),
    asked_of=("function",),
)
def own_token(trial: Trial, case: Case) -> Finding | None:
    expected = _past_shares(trial.weights(case.query, case.key))
    if not expected.isfinite().all():
        return None  # `row_sums` tells of it
    weights = _past_shares(trial.weights(case.query, case.key, is_causal=True))
    unseen = ~(weights.diagonal(dim1=-2, dim2=-1) > 0)  # (..., n), NaN too
    if bool(unseen.any()):
        rows = unseen.flatten(0, -2).any(0)  # (n,)
        i, n, count = int(rows.to(torch.uint8).argmax()), len(rows), int(rows.sum())
        # The first query may get a key, for it has no other.
        if bool(rows[min(1, n - 1) :].all()):
            return trial.failure(STRICT, i=i)
        return trial.failure(SOME_STRICT, i=i, n=n, count=count)
    wrong = (weights - expected).abs() > 0.05 * expected
    if not bool(wrong.any()):
        return None
    place = argmax_index(wrong.to(torch.uint8))
    numbers = {"weight": float(weights[place]), "right": float(expected[place])}
    return trial.failure(PAST, i=place[-2], j=place[-1], **numbers)


def _past_shares(weights: Tensor) -> Tensor:
    """How the weights of the past relate to each other; what the future gets is not the matter."""
    past = weights.tril()
    return past / past.sum(-1, keepdim=True)


@rule(
    statement=Text("With n ≠ m, is_causal is aligned either top-left or bottom-right."),
    formula=r"j \le i \quad\text{or}\quad j \le i + m - n",
    page="foundations/kv-cache",
    needs=("is_causal",),
    may_crash=True,
    follows=OF_CAUSALITY,
    asked_of=("function",),
    convention="alignment",
    choices={TOP_LEFT: "top-left", BOTTOM_RIGHT: "bottom-right"},
)
def alignment(trial: Trial, case: Case) -> Finding | None:
    found: set[Text] = set()
    declined = None
    length = case.query.shape[-2]
    short = max(1, length // 2)
    # A triangle that is kept for n alone would be cut to the keys of this first question.
    trial.call(*(x[..., :short, :] for x in (case.query, case.key, case.value)), is_causal=True)
    for n, m in ((short, length), (length, short)):
        query, key = case.query[..., :n, :], case.key[..., :m, :]
        try:
            weights = trial.weights(query, key, is_causal=True)
        except Raised as raised:
            declined = raised
            continue
        seen = seen_keys(weights)
        top_left = masks.causal(n, m, alignment="top-left").dense()
        bottom_right = masks.causal(n, m, alignment="bottom-right").dense()
        if trial.subject.reading.formula.window is not None:
            top_left = top_left & trial.subject.reading.formula.window.seen(n, m)
            bottom_right = bottom_right & trial.subject.reading.formula.window.seen(n, m, m - n)
        keyed = bottom_right.any(-1)  # the other queries have no key
        if all_equal(seen, top_left):
            found.add(TOP_LEFT)
        elif all_equal(seen[..., keyed, :], bottom_right[keyed]):
            keyless = weights[..., ~keyed, :]
            if bool((keyless != 0).any()):
                got = float(keyless[keyless != 0][0])
                failure = trial.failure(KEYLESS, n=n, m=m, i=0, got=got)
                return replace(failure, verdict=Verdict.CONVENTION)
            found.add(BOTTOM_RIGHT)
        elif weights.isnan().all():
            return None  # `row_sums` tells of it
        else:
            return strange_row(trial, weights, NEITHER, (top_left, bottom_right), n=n, m=m)
    if not found and declined is not None:
        raise declined
    if len(found) > 1:
        return trial.failure(MIXED)
    return Finding(Verdict.CONVENTION, found.pop())


def seen_keys(weights: Tensor) -> Tensor:
    return ~(weights.abs() <= _WEIGHTLESS)  # NaN is no sign of not being seen


def all_equal(seen: Tensor, pattern: Tensor) -> bool:
    return bool((seen == pattern).all())


def strange_row(
    trial: Trial, weights: Tensor, text: Text, patterns: tuple[Tensor, ...], **values: Any
) -> Finding:
    """A failure that names the first query whose keys do not fit the pattern that fits best.

    One whose weights are NaN is named only where there is no other, for what it sees is unknown.
    """
    rows = seen_keys(weights).flatten(0, -3)  # (samples and heads, n, m)
    known = ~weights.isnan().any(-1).flatten(0, -2)
    misfits = [(rows != pattern).any(-1) for pattern in patterns]
    best = min(misfits, key=lambda each: int(each.sum()))
    best = best & known if bool((best & known).any()) else best
    i = int(best.any(0).to(torch.uint8).argmax())
    one = int(best[:, i].to(torch.uint8).argmax())
    keys = torch.nonzero(rows[one, i]).flatten().tolist()
    return trial.failure(text, i=i, keys=keys, **values)
