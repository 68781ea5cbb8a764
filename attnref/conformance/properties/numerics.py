"""Scores far from zero: the exponential must neither overflow nor vanish."""

import math
from typing import Any

import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import Miss, miss
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

VANISHED = Text(
    "With all scores at {score:.4g} the output at {index} is {got:.9g}, expected "
    "{expected:.9g}, the mean of the values: all exponentials vanish. Subtract the row's largest "
    "score first."
)
OUTDONE = Text(
    "With allowed scores at {score:.4g} the forbidden keys win: the output at {index} is "
    "{got:.9g}, expected {expected:.9g}. {option} is not obeyed, or puts a number above them in "
    "place of -inf."
)
CAUSAL_MASK = Text("Its causal mask")
TOUCHED = Text(
    "With allowed scores at {score:.4g} the forbidden keys keep some weight: the output at "
    "{index} is {got:.4g}, expected 0. {option} puts a finite number in place of -inf."
)
OTHER = Text(
    "With scores of {score:.4g} the output at {index} is {got:.9g}, expected {expected:.9g} "
    "(allowed error {allowed:.1e})."
)
OVERFLOW = Text(
    "With scores of {score:.4g} the output at {index} is {got:.9g}, expected {expected:.9g}: "
    "the exponential overflows. Subtract the row's largest score first."
)
CLAMPED = Text(
    "Two scores that differ by 1 weigh differently at {low:.4g} and at {high:.4g}: the output "
    "at {index} goes from {expected:.9g} to {got:.9g}. Large scores are cut off or rounded."
)

NEITHER = Text(
    "With scores of {score:.4g} the output at {index} is {got:.4g}, expected {expected:.4g}; "
    "with scores of 0 it is not the mean of the values either."
)
HIDDEN = Text(
    "NaN in a value that query {i} sees leaves {got:.4g} in its output at {index}: it is "
    "hidden, by nan_to_num perhaps, and so is the fault that it comes from."
)

# d_k = 16, so that 1/sqrt(d_k) is 1/4 and every score below is exact in every dtype.
EXACT = Sizes(batch=1, heads=2, n=5, d_k=16, keep=("d_k",))
_LOW = 248.0  # components of query and key, whose score of -15376 is below a -10000 for -inf
_LOWEST = 2.0**18
_SAME = 0.05  # of the largest value; so near, an output is the mean that a cause predicts


def first_component(like: Tensor, numbers: Tensor | float) -> Tensor:
    """Vectors in the shape of ``like`` with these first components, and zeros else."""
    vectors = torch.zeros_like(like)
    vectors[..., 0] = torch.as_tensor(numbers, dtype=like.dtype)
    return vectors


@rule(
    statement=Text("Very negative scores are as good as others, with and without a mask."),
    formula=r"\mathrm{softmax}(s - a) = \mathrm{softmax}(s), \quad s_{ij} \ll 0",
    page="foundations/mask-traps",
    sizes=EXACT,
    follows=(*OF_MASKS, *OF_CAUSALITY, *("scale",)),
    holds_of="products",
)
def very_negative_scores(trial: Trial, case: Case) -> Finding | None:
    n, d_k = case.query.shape[-2:]
    value = trial.to_double(case.value)
    every = torch.ones(n, n, dtype=torch.bool)
    first = (torch.arange(n) < max(1, n - 2)).expand(n, n).contiguous()
    plain = trial.visible_pairs(case)
    ways: dict[str | None, tuple[Tensor, dict[str, Any]]] = {None: (plain, {})}
    if trial.offers("attn_mask"):
        ways["attn_mask"] = (first & plain, {"attn_mask": first})
    if trial.offers("is_causal"):
        ways["is_causal"] = (plain & every.tril(), {"is_causal": True})
    # Every second query has scores of 0, for whom the largest score of all is subtracted from all.
    query = first_component(case.query, torch.where(torch.arange(n) % 2 == 0, _LOW, 0.0))
    score = -_LOW * _LOW * d_k**-0.5
    for option, (allowed, options) in list(ways.items()):
        if option is not None and not _takes(trial, case, options):
            del ways[option]  # another property tells why
            continue
        # The forbidden keys score 0, unless some query may see them.
        numbers = torch.where(_visible_keys(trial, allowed, option), -_LOW, 0.0)
        # What a query may see has one score, and shares the weight.
        shares = allowed.double() / allowed.sum(-1, keepdim=True)
        output = trial.call(query, first_component(case.key, numbers), case.value, **options)
        found = miss(output, shares @ value, budget.mean_error(value, trial.dtype, score))
        if found is not None:
            text = NEITHER
            if _averages(trial, case):
                text = _cause(found, option, shares, value, output)
            said = (
                trial.failure
                if option is None or text in (NEITHER, OTHER)
                else trial.unsafe_failure
            )
            return said(text, shares @ value, score=score, option=option, **found.values())
    if trial.dtype == torch.float16:
        return None  # a product of 61504 is about the most that it holds
    for option, (allowed, options) in ways.items():
        failure = _check_lowest(trial, case, option, allowed, options)
        if failure is not None:
            return failure
    return None


def _visible_keys(trial: Trial, allowed: Tensor, option: str | None) -> Tensor:
    """The keys that some query may see."""
    causal = option == "is_causal" or (trial.subject.always_causal and option is None)
    return allowed.any(0) | causal


def _takes(trial: Trial, case: Case, options: dict[str, Any]) -> bool:
    try:
        trial.call(case.query, case.key, case.value, **options)
    except Raised:
        return False
    return True


def _check_lowest(
    trial: Trial, case: Case, option: str | None, allowed: Tensor, options: dict[str, Any]
) -> Finding | None:
    """Allowed scores of -1.7e10, below the -1e9 that is taken for -inf too.

    To round such a score changes it by up to 1000, so that no weight is known. But where the
    forbidden keys alone have values, the output is 0.
    """
    n, d_k = case.query.shape[-2:]
    held = torch.arange(n) >= max(1, n - 2)
    blind = ~(allowed & held).any(-1, keepdim=True)  # the queries that may see none of these
    if not bool(blind.any()):
        return None
    value = case.value * held[:, None]
    numbers = torch.where(_visible_keys(trial, allowed, option), -_LOWEST, 0.0)
    query, key = first_component(case.query, _LOWEST), first_component(case.key, numbers)
    output = trial.call(query, key, value, **options)
    found = miss(torch.where(blind, output, 0.0), torch.zeros_like(output), 0.0)
    if found is None:
        return None
    text = OTHER
    if math.isfinite(found.got):
        shown = trial.last
        weight = trial.call(query, key, held.double()[:, None].expand_as(value), **options)
        trial.last = shown
        # They share it with each other, and not all of them are among the last keys.
        text = OUTDONE if float((weight * blind).max()) > 1 / n**2 else TOUCHED
    score = -_LOWEST * _LOWEST * d_k**-0.5
    return trial.unsafe_failure(text, score=score, option=option or CAUSAL_MASK, **found.values())


def _cause(found: Miss, option: str | None, shares: Tensor, value: Tensor, output: Tensor) -> Text:
    """The cause where the output shows it, else the plain comparison."""
    if option is None:
        return VANISHED if not math.isfinite(found.got) or found.got == 0 else OTHER
    # The forbidden keys that win share all the weight.
    forbidden = (shares == 0).double()
    lost = forbidden / forbidden.sum(-1, keepdim=True).clamp(min=1)
    won = ((output - lost @ value).abs() <= _SAME * value.abs().amax()).all(-1)
    return OUTDONE if bool((won & forbidden.any(-1)).any()) else OTHER


@rule(
    statement=Text("Large scores do not overflow."),
    formula=r"\mathrm{softmax}(s) = \mathrm{softmax}(s - \max s)",
    page="scale/saturation",
    sizes=EXACT,
    follows=(*OF_NUMBERS, *("scale",)),
    holds_of="products",
)
def large_scores(trial: Trial, case: Case) -> Finding | None:
    n, d_k = case.query.shape[-2:]
    value = trial.to_double(case.value)
    score = _LOW * _LOW * d_k**-0.5
    query = first_component(case.query, _LOW)
    for pair in (torch.arange(n) < min(2, n), torch.arange(n) == n - 1):
        # Two keys, or the last, of a large score, the others of its opposite: their values alone.
        key = first_component(case.key, torch.where(pair, _LOW, -_LOW))
        seen = trial.shares(case, pair)
        rows = seen.any(-1, keepdim=True)  # the others see what is below alone
        expected = torch.where(rows, seen @ value, 0.0)
        output = torch.where(rows, trial.call(query, key, case.value), 0.0)
        found = miss(output, expected, budget.mean_error(value, trial.dtype, score))
        if found is not None:
            text = NEITHER
            if _averages(trial, case):
                text = OTHER if math.isfinite(found.got) and found.got else OVERFLOW
            return trial.failure(text, expected, score=score, **found.values())
    return _check_clamping(trial, case)


def _averages(trial: Trial, case: Case) -> bool:
    """Whether a query of zeros gets the mean of the values; if not, no exponential is to blame."""
    value = trial.to_double(case.value)
    shown = trial.last
    output = trial.call(torch.zeros_like(case.query), case.key, case.value)
    trial.last = shown
    mean = trial.shares(case) @ value
    return miss(output, mean, budget.mean_error(value, trial.dtype)) is None


def _check_clamping(trial: Trial, case: Case) -> Finding | None:
    """The same difference of scores at the bottom and at the top."""
    n, d_k = case.query.shape[-2:]
    query = first_component(case.query, 16.0)
    steps = torch.where(torch.arange(n) == 0, 0.25, 0.0)
    bottom, top = (first_component(case.key, steps + shift) for shift in (0.0, 23.75))
    kept = trial.call(query, bottom, case.value)
    moved = trial.call(query, top, case.value)
    allowance = trial.truth(query, top, case.value, exact_scores=True).allowance
    found = miss(moved, kept, 2 * allowance)
    if found is None:
        return None
    low, high = (16.0 * number * d_k**-0.5 for number in (0.25, 24.0))
    return trial.failure(CLAMPED, kept, low=low, high=high, **found.values())


@rule(
    statement=Text("NaN in a value that a query sees is seen in its output."),
    formula=r"v_{jc} = \mathrm{NaN}, \; p_{ij} > 0 \implies o_{ic} = \mathrm{NaN}",
    page="pitfalls/numerics",
    follows=OF_NUMBERS,
)
def nan_seen(trial: Trial, case: Case) -> Finding | None:
    value = case.value.clone()
    value[..., 0, 0] = math.nan  # of the first position, which causality shows to all
    shown = trial.call(case.query, case.key, value)[..., :1]
    within = trial.visible_pairs(case)[..., :1]  # of a window of its own
    hidden = torch.nonzero(~shown.isnan() & within)
    if not len(hidden):
        return None
    place = hidden[0].tolist()
    return trial.unsafe_failure(HIDDEN, i=place[-2], index=place, got=float(shown[tuple(place)]))
