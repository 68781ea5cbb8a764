"""Heads that share their keys and values."""

from dataclasses import replace

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.step import StepSubject
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

TILED = Text(
    "Query head {head} reads another key head than {right}: the key heads are laid out 0, 1, 0, "
    "1, …, expected 0, 0, 1, 1, …. Use repeat_interleave instead of repeat."
)
OTHER = Text(
    "Query head {head} does not read key head {right}: the output at {index} is {got:.6g}, with "
    "the heads repeated by hand {expected:.6g}."
)

MASKED = Text(
    "With enable_gqa and a mask for each query head, head {head} does not obey its own: the "
    "output at {index} is {got:.6g}, with the heads repeated by hand {expected:.6g}."
)


ONE = Text(
    "For one query, as in decoding, head {head} does not read the key head that it reads for "
    "several: the output at {index} is {got:.6g}, with the heads repeated by hand {expected:.6g}."
)


@rule(
    statement=Text("With enable_gqa consecutive query heads share a key head."),
    formula=r"o^{(h)} = f(Q^{(h)}, K^{(\lfloor h/g \rfloor)}, V^{(\lfloor h/g \rfloor)})",
    page="foundations/grouped-queries",
    sizes=Sizes(heads=6, key_heads=2),
    needs=("enable_gqa",),
    follows=OF_NUMBERS,
    convention="groups",
    choices={None: "interleave", TILED: "tile"},
)
def grouped_queries(trial: Trial, case: Case) -> Finding | None:
    heads, shared = case.query.shape[1], case.key.shape[1]
    group = heads // shared
    repeated = (tensor.repeat_interleave(group, 1) for tensor in (case.key, case.value))
    expected = trial.call(case.query, *repeated)
    allowance = trial.truth(case.query, case.key, case.value, enable_gqa=True).allowance
    output = trial.call(case.query, case.key, case.value, enable_gqa=True)
    found = miss(output, expected, 2 * allowance)
    if found is None:
        masked = _check_masked(trial, case) if trial.offers("attn_mask") else None
        return masked or _check_one(trial, case)
    tiled = [tensor.repeat(1, group, 1, 1) for tensor in (case.key, case.value)]
    head = found.place[1]
    values = {**found.values(), "head": head, "right": head // group}
    failure = trial.failure(OTHER, expected, **values)
    if miss(output, trial.call(case.query, *tiled), 2 * allowance) is None:
        return replace(failure.reword(TILED, **values), verdict=Verdict.CONVENTION)
    return failure


def _check_one(trial: Trial, case: Case) -> Finding | None:
    """The same for one query, which may have a branch of its own, as in decoding."""
    if isinstance(trial.subject, StepSubject) or trial.subject.square:
        return None
    query, group = case.query[..., -1:, :], case.query.shape[1] // case.key.shape[1]
    repeated = [tensor.repeat_interleave(group, 1) for tensor in (case.key, case.value)]
    try:
        expected = trial.call(query, *repeated)
        output = trial.call(query, case.key, case.value, enable_gqa=True)
    except Raised:
        return None  # other properties tell of it
    found = miss(output, expected, 2 * trial.tolerance(case.query, *repeated)[..., -1:, :])
    return found and trial.failure(ONE, expected, head=found.place[1], **found.values())


def _check_masked(trial: Trial, case: Case) -> Finding | None:
    """The same under a mask that differs from head to head, where such masks are taken."""
    group = case.query.shape[1] // case.key.shape[1]
    mask = trial.restrict_mask(some_mask(case, (*case.query.shape[:3], case.key.shape[-2])))
    repeated = (tensor.repeat_interleave(group, 1) for tensor in (case.key, case.value))
    try:
        expected = trial.call(case.query, *repeated, attn_mask=mask)
    except Raised:
        return None  # the property `mask_broadcast` tells of it
    truth = trial.truth(case.query, case.key, case.value, enable_gqa=True, attn_mask=mask)
    output = trial.call(case.query, case.key, case.value, enable_gqa=True, attn_mask=mask)
    found = miss(output, expected, 2 * truth.allowance)
    return found and trial.failure(MASKED, expected, head=found.place[1], **found.values())
