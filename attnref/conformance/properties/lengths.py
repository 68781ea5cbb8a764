"""Lengths and widths that differ, that are one, that are none."""

import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

ROWS = Text(
    "For n = {n} and m = {m} the output at {index} is {got:.6g}; with m queries at a time it "
    "is {expected:.6g}."
)
WIDTH = Text(
    "For d_v = {d_v} and d_k = {d_k} the output at {index} is {got:.6g}; with d_k columns of "
    "the values at a time it is {expected:.6g}."
)
CAUSAL = Text(
    "It is causal, or positions are part of it; `alignment` says what it does with n ≠ m."
)
ONE_KEY = Text(
    "For n = {n} and a single key the output at {index} is {got:.6g}, expected {expected:.6g}, "
    "the value of that key."
)
NOT_FINITE = Text("For a sequence of one position the output is {got}.")
ONE_QUERY = Text(
    "For one query among {m} keys the output at {index} is {got:.6g}, beside other queries "
    "{expected:.6g}."
)
ONE_MASKED = Text(
    "For one query under a mask the output at {index} is {got:.6g}, beside other queries "
    "{expected:.6g}: is the mask looked at?"
)
NO_KEYS = Text("Without keys each output must be 0, the empty sum; it is {got:.4g}.")
EMPTY_RAISES = Text(
    "For {what} it raises {error}. Nothing is silently wrong, but an empty batch or sequence "
    "must be caught before."
)
NO_SAMPLES = Text("an empty batch")
NO_QUERIES = Text("no queries")
NOTHING = Text("no keys")


@rule(
    statement=Text("There may be more or fewer queries than keys."),
    formula=r"f([Q_1; Q_2], K, V) = [f(Q_1, K, V); f(Q_2, K, V)]",
    page="foundations/queries-keys-values",
    sizes=Sizes(n=11, m=5),
    may_refuse=True,
    may_crash=True,
    follows=OF_NUMBERS,
    asked_of=("function",),
)
def rectangular(trial: Trial, case: Case) -> Finding | None:
    if trial.subject.positional:
        return Finding(Verdict.NOT_CLAIMED, CAUSAL)
    n, m = case.query.shape[-2], case.key.shape[-2]
    for queries in (n, max(1, m // 2)):
        query = case.query[..., :queries, :]
        output = trial.call(query, case.key, case.value)
        allowance = trial.truth(query, case.key, case.value).allowance
        shown = trial.last
        expected = _call_squares(trial, query, case.key, case.value)
        trial.last = shown
        found = miss(output, expected, 2 * allowance)
        if found is not None:
            return trial.failure(ROWS, expected, n=queries, m=m, **found.values())
    return None


def _call_squares(trial: Trial, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same, as many queries as keys at a time, the last ones repeated to fill up."""
    m, parts = key.shape[-2], []
    for start in range(0, query.shape[-2], m):
        rows = query[..., start : start + m, :]
        missing = m - rows.shape[-2]
        full = torch.cat([rows, rows[..., -1:, :].expand(*rows.shape[:-2], missing, -1)], -2)
        parts.append(trial.call(full, key, value)[..., : rows.shape[-2], :])
    return torch.cat(parts, -2)


@rule(
    statement=Text("The values may be wider or narrower than the keys."),
    formula=r"f(Q, K, [V_1, V_2]) = [f(Q, K, V_1), f(Q, K, V_2)]",
    page="foundations/queries-keys-values",
    sizes=Sizes(d_k=8, d_v=13),
    may_refuse=True,
    may_crash=True,
    follows=OF_NUMBERS,
)
def value_width(trial: Trial, case: Case) -> Finding | None:
    d_k, most = case.key.shape[-1], case.value.shape[-1]
    for d_v in (most, max(1, d_k // 2)):
        value = case.value[..., :d_v]
        output = trial.call(case.query, case.key, value)
        shown = trial.last
        allowance = trial.truth(case.query, case.key, value).allowance
        expected = _call_widths(trial, case.query, case.key, value)
        trial.last = shown
        found = miss(output, expected, 2 * allowance)
        if found is not None:
            return trial.failure(WIDTH, expected, d_v=d_v, d_k=d_k, **found.values())
    return None


def _call_widths(trial: Trial, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same, as many columns as the keys have at a time, zeros filling up the last ones."""
    width, parts = key.shape[-1], []
    for start in range(0, value.shape[-1], width):
        columns = value[..., start : start + width]
        full = torch.nn.functional.pad(columns, (0, width - columns.shape[-1]))
        parts.append(trial.call(query, key, full)[..., : columns.shape[-1]])
    return torch.cat(parts, -1)


@rule(
    statement=Text("One key gets all the weight; one query is answered as among others."),
    formula=r"m = 1 \implies o_i = v_1",
    page="foundations/kv-cache",
    may_refuse=True,
    follows=(*OF_MASKS, *("batch_independence", "head_independence", "scale")),
    holds_of="any",
)
def single_token(trial: Trial, case: Case) -> Finding | None:
    query, key, value = (x[..., :1, :] for x in (case.query, case.key, case.value))
    if trial.subject.reading.other is not None:
        bad = (output := trial.call(query, key, value))[~output.isfinite()]
        return trial.failure(NOT_FINITE, got=float(bad[0])) if len(bad) else None
    expected = trial.truth(query, key, value).output
    allowance = budget.mean_error(expected, trial.dtype)
    found = miss(trial.call(query, key, value), expected, allowance)
    if found is not None:
        return trial.failure(ONE_KEY, expected, n=1, **found.values())
    own = trial.subject.reading.formula.sink or trial.subject.reading.law is not None
    if trial.subject.positional or own:
        return None  # whether one query, or one key among several, sees any is a convention
    try:
        return _check_one(trial, case)
    except Raised:
        return None  # `rectangular` tells whether n ≠ m is taken


def _check_one(trial: Trial, case: Case) -> Finding | None:
    """One key for several queries, then one query for several keys."""
    query, key, value = (x[..., :1, :] for x in (case.query, case.key, case.value))
    wanted = trial.to_double(value).expand(*case.query.shape[:-1], -1)
    found = miss(trial.call(case.query, key, value), wanted, budget.mean_error(wanted, trial.dtype))
    if found is not None:
        return trial.failure(ONE_KEY, wanted, n=case.query.shape[-2], **found.values())
    among = trial.call(case.query, case.key, case.value)[..., :1, :]
    allowed = 2 * trial.truth(query, case.key, case.value).allowance
    found = miss(trial.call(query, case.key, case.value), among, allowed)
    if found is not None:
        return trial.failure(ONE_QUERY, among, m=case.key.shape[-2], **found.values())
    return _one_masked(trial, case, query) if trial.offers("attn_mask") else None


def _one_masked(trial: Trial, case: Case, query: Tensor) -> Finding | None:
    """The first query alone, and among the others, under the same row of a mask."""
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    row = mask[:1].contiguous()
    allowance = trial.truth(query, case.key, case.value, attn_mask=row).allowance
    among = trial.call(case.query, case.key, case.value, attn_mask=mask)[..., :1, :]
    found = miss(trial.call(query, case.key, case.value, attn_mask=row), among, 2 * allowance)
    return found and trial.failure(ONE_MASKED, among, **found.values())


@rule(
    statement=Text("No samples or no queries give an empty output; no keys give zeros."),
    formula=r"m = 0 \implies o_i = 0",
    page="foundations/batches-and-padding",
    follows=OF_NUMBERS,
    asked_of=("function",),
)
def empty(trial: Trial, case: Case) -> Finding | None:
    query, key, value = case.query, case.key, case.value
    declined = None
    for what, inputs in {
        NO_SAMPLES: (query[:0], key[:0], value[:0]),
        NO_QUERIES: (query[..., :0, :], key, value),
        NOTHING: (query, key[..., :0, :], value[..., :0, :]),
    }.items():
        try:
            output = trial.call(*inputs)
        except Raised as raised:
            declined = declined or (what, f"{type(raised.error).__name__}: {raised.error}")
            continue
        if bool((output != 0).any()):
            return trial.unsafe_failure(NO_KEYS, got=float(output[output != 0][0]))
    if declined is None:
        return None
    values: dict[str, object] = {"what": declined[0], "error": declined[1]}
    return Finding(Verdict.NOT_CLAIMED, EMPTY_RAISES, values)
