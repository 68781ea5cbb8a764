"""Options together, lengths that differ, and sizes beyond the usual: right alone is not enough."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.meanings import CannotSay
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

TOGETHER = Text(
    "With {options}, n = {n} and m = {m}, the output at {index} is {got:.6g}, expected "
    "{expected:.6g}, though each of them is right by itself."
)
OTHER_LENGTHS = Text(
    "With {options}, n = {n} and m = {m}, the output at {index} is {got:.6g}, expected "
    "{expected:.6g}, though it is right for n = m."
)
CRASHES = Text(
    "With {options}, n = {n} and m = {m}, it raised {error} (at {place}), though each of them "
    "is right by itself."
)
BLIND = Text(
    "In a batch padded on the left, with is_causal, query {i} may attend to nothing and gets "
    "{got:.4g} at {index}. It must get zeros."
)
TWICE = Text(
    "In a batch padded on the left, with is_causal, query {i} may attend to nothing and gets "
    "{got:.4g} at {index}: each mask adds a number of its own, so that a key hidden by one of them "
    "wins over one that both hide. Combine the masks first, and forbid with -inf."
)
PADDED = Text(
    "In a batch padded on the left, with is_causal, the output at {index} is {got:.6g}, "
    "expected {expected:.6g}."
)
LENGTHS = Text(
    "Cut off after {few} of {n} positions, the sequence gets {got:.6g} at {index}, in its whole "
    "length {expected:.6g}, though no position sees its future."
)
NOT_CAUSAL = Text("Each position sees the whole sequence: it is not causal.")
SIZES = Text(
    "For {batch} samples, {heads} heads, n = {n}, m = {m} and d_k = {d_k} the output at {index} "
    "is {got:.6g}, expected {expected:.6g}, though small inputs are answered right."
)


class Asked(NamedTuple):
    """A call, and those with less at a time that must be right before."""

    case: Case
    options: dict[str, Any]
    before: list[tuple[Case, dict[str, Any]]]


@rule(
    statement=Text(
        "Options are obeyed together, by masks of each shape, and for one query among keys."
    ),
    formula=r"f(Q_{1 \ldots n}, K_{1 \ldots m}, V_{1 \ldots m}, a, b), \quad n \le m",
    page="foundations/mask-traps",
    sizes=Sizes(heads=2, n=5),
    follows=(*OF_MASKS, *OF_CAUSALITY, *("fully_masked", "mask_with_causal", "mask_broadcast")),
)
def options_together(trial: Trial, case: Case) -> Finding | None:
    known: dict[tuple[object, ...], bool] = {}

    def is_right(case: Case, options: dict[str, Any]) -> bool:
        place = (case.query.shape, case.key.shape, *_words(options))
        if place not in known:
            known[place] = trial.is_right(case, **options)
        return known[place]

    crash: Finding | None = None
    for asked in _calls(trial, case):
        if not all(is_right(*call) for call in asked.before):
            continue  # the property of that option tells of it
        try:
            found = _find_error(trial, asked.case, asked.options)
        except Raised as raised:  # nothing is silently wrong then
            crash = crash or _crash(trial, asked, raised)
            continue
        if found is not None:
            text = TOGETHER if len(asked.options) > 1 else OTHER_LENGTHS
            words = ", ".join(_words(asked.options))
            return trial.failure(text, **found | {"options": words})
    return _padded_left(trial, case) or crash


def _crash(trial: Trial, asked: Asked, raised: Raised) -> Finding | None:
    """What it raises by accident; None where it declines, or is not asked at all."""
    meant = raised.deliberate or trial.is_refusal(raised) or isinstance(raised.error, CannotSay)
    if meant or len(asked.options) < 2:
        return None
    return trial.unsafe_failure(
        CRASHES,
        options=", ".join(_words(asked.options)),
        error=f"{type(raised.error).__name__}: {raised.error}",
        place=raised.place,
        n=asked.case.query.shape[-2],
        m=asked.case.key.shape[-2],
    )


def _calls(trial: Trial, case: Case) -> Iterator[Asked]:
    """For as many queries as keys, for fewer, and for one."""
    n = case.query.shape[-2]
    for queries in (n, max(1, n // 2), 1)[: 1 if trial.subject.positional else 3]:
        short = Case(case.query[..., :queries, :], case.key, case.value, case.seed)
        square = queries == n
        singles = list(_singles(trial, short))
        for count in (1, 2, 3) if square else (1, 2):
            for several in itertools.combinations(singles, count):
                options = {name: value for single in several for name, value in single.items()}
                if len(options) < count:
                    continue  # one mask at a time
                if count == 1 and (square or "is_causal" in options):
                    continue  # properties of their own ask this
                before = [(short, single) for single in several]
                yield Asked(
                    short,
                    options,
                    before if count > 1 else _square_cases(trial, case, short, options),
                )
    if trial.offers("enable_gqa") and case.query.shape[1] % 2 == 0:
        key, value = (x[:, : case.query.shape[1] // 2] for x in (case.key, case.value))
        shared = Case(case.query, key, value, case.seed)
        for single in _singles(trial, shared):
            yield Asked(
                shared,
                {"enable_gqa": True, **single},
                [(shared, {"enable_gqa": True}), (case, single)],
            )


def _square_cases(
    trial: Trial, case: Case, short: Case, options: dict[str, Any]
) -> list[tuple[Case, dict[str, Any]]]:
    """Fewer queries without the option, and the option with as many queries as keys."""
    n = case.query.shape[-2]
    square = (
        {"attn_mask": trial.restrict_mask(some_mask(case, (n, n)))}
        if "attn_mask" in options
        else options
    )
    return [(short, {}), (case, square)]


def _singles(trial: Trial, case: Case) -> Iterator[dict[str, Any]]:
    (b, h, n), m = case.query.shape[:3], case.key.shape[-2]
    if trial.offers("attn_mask"):
        for shape in ((n, m), (b, h, n, m)):
            mask = trial.restrict_mask(some_mask(case, shape))
            mask[..., 0] = True  # so that causality leaves no row without keys
            yield {"attn_mask": mask}
        keys = torch.rand((b, 1, 1, m), generator=case.generator()) < 0.6
        keys[..., 0] = True
        yield {"attn_mask": keys}
    if trial.offers("is_causal"):
        yield {"is_causal": True}
    if trial.offers("scale"):
        yield {"scale": 0.3}


def _words(options: dict[str, Any]) -> list[str]:
    return [
        f"{name} {tuple(value.shape)}" if isinstance(value, Tensor) else f"{name}={value}"
        for name, value in options.items()
    ]


def _find_error(trial: Trial, case: Case, options: dict[str, Any]) -> dict[str, Any] | None:
    expected = trial.truth(case.query, case.key, case.value, **options)
    output = trial.call(case.query, case.key, case.value, **options)
    found = miss(output, expected.output, expected.allowance)
    sizes = {"n": case.query.shape[-2], "m": case.key.shape[-2]}
    return None if found is None else {**found.values(), **sizes}


def _padded_left(trial: Trial, case: Case) -> Finding | None:
    """The commonest batch of all: texts of several lengths that end together."""
    if not (trial.offers("attn_mask", "is_causal") and trial.is_right(case, is_causal=True)):
        return None
    b, m = case.query.shape[0], case.key.shape[-2]
    missing = torch.arange(b) % max(1, min(3, m - 1)) + 1
    mask = (torch.arange(m) >= missing[:, None])[:, None, None, :]
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": True}
    try:
        output = trial.call(case.query, case.key, case.value, **options)
    except Raised:
        return None
    right = trial.truth(case.query, case.key, case.value, **options)
    blind = ~(mask & torch.ones(m, m, dtype=torch.bool).tril()).any(-1, keepdim=True)
    blind = blind.expand(output.shape)
    # Without causality the mask must be obeyed; `mask_broadcast` tells of that.
    seen = miss(output.masked_fill(blind, 0.0), right.output, right.allowance)
    if seen is not None:
        return trial.failure(PADDED, right.output, **seen.values()) if _obeys(trial, case) else None
    lost = torch.nonzero((output != 0) & blind)
    if not len(lost):
        return None
    place = lost[0].tolist()
    scores = trial.to_double(case.query) @ trial.to_double(case.key).mT
    scores = scores * trial.usual_scale(case.query.shape[-1])
    once = mask ^ torch.ones(m, m, dtype=torch.bool).tril()  # what one of the two hides
    weights = scores.masked_fill(~once, -torch.inf).softmax(-1).nan_to_num(0.0)
    twice = weights @ trial.to_double(case.value)
    rows = blind & once.any(-1, keepdim=True)
    if bool(((output - twice).abs() <= 1e-2)[rows].all()) and not mask.all():
        return trial.failure(
            TWICE, right.output, i=place[-2], index=place, got=float(output[tuple(place)])
        )
    return trial.unsafe_failure(
        BLIND, right.output, i=place[-2], index=place, got=float(output[tuple(place)])
    )


def _obeys(trial: Trial, case: Case) -> bool:
    n, m = case.query.shape[-2], case.key.shape[-2]
    mask = trial.restrict_mask(some_mask(case, (n, m)))
    return trial.is_right(case, attn_mask=mask) and trial.is_right(
        case, attn_mask=mask, is_causal=True
    )


# One long row after blocks of 256, 512, 1024 and 4096, vectors of 128 and 256, an odd number of
# heads, more samples than two.
_OTHERS = (
    Sizes(batch=1, heads=1, n=1, m=1100),
    Sizes(batch=1, heads=1, n=1, m=2100),
    Sizes(batch=1, heads=1, n=1, m=5000),
    Sizes(batch=1, heads=1, n=3, d_k=128),
    Sizes(batch=1, heads=1, n=3, d_k=256),
    Sizes(batch=1, heads=17, n=2),
    Sizes(batch=5, heads=2, n=2),
)
_LARGEST = 2**23


@rule(
    statement=Text(
        "Long rows, wide vectors, many heads and samples are answered as small ones are."
    ),
    formula=r"m \in \{1100, 2100, 5000\}, \; d_k \in \{128, 256\}, \; h = 17, \; b = 5",
    page="foundations/matrix-form",
    follows=(*OF_NUMBERS, *("batch_independence", "head_independence")),
    holds_of="any",
)
def other_sizes(trial: Trial, case: Case) -> Finding | None:
    if trial.subject.reading.other is not None:
        return _check_beginnings(trial, case)
    if not trial.is_right(case):
        return None  # `oracle` tells of it
    for usual in _OTHERS:
        if usual.m is not None and trial.subject.positional:
            continue
        sizes = trial.fit(usual)
        if sizes.n * (sizes.m or sizes.n) * sizes.d_k > _LARGEST:
            continue  # one row of it was meant
        other = trial.draw(sizes, case.seed)
        try:
            found = _find_error(trial, other, {})
        except Raised:
            continue  # what is declined is not silently wrong
        if found is not None:
            about = {"batch": sizes.batch, "heads": sizes.heads, "d_k": sizes.d_k}
            return trial.failure(SIZES, **found | about)
    return None


# Beyond the blocks of 16, 32 and 64 that recurrences are cut into, and no multiple of them.
_WHOLE = 133


def _check_beginnings(trial: Trial, case: Case) -> Finding | None:
    """Of what has no known formula, and is causal: a beginning gets what it gets in the whole."""
    if not trial.subject.always_causal:
        return Finding(Verdict.NOT_CLAIMED, NOT_CAUSAL)
    sizes = trial.fit(Sizes(batch=1, heads=2, n=_WHOLE, d_k=case.query.shape[-1]))
    long = trial.draw(sizes, case.seed)
    inputs = (long.query, long.key, long.value)
    whole, allowed = trial.call(*inputs), 2 * trial.tolerance(*inputs)
    for few in (1, 7, sizes.n // 2, sizes.n - 1):
        output = trial.call(*(x[..., :few, :] for x in inputs))
        found = miss(output, whole[..., :few, :], allowed[..., :few, :])
        if found is not None:
            return trial.failure(LENGTHS, whole[..., :few, :], few=few, n=sizes.n, **found.values())
    return None
