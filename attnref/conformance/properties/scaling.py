"""What the scores are multiplied by, and when."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.properties.numerics import EXACT, first_component
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

BEHAVES = Text(
    "With d_k = {d_k} it behaves as {name} = {factor:.3g}, expected 1/sqrt(d_k) = {right:.3g}."
)
BEHAVES_UNNAMED = Text(
    "With d_k = {d_k} it behaves as a factor of {factor:.3g}, expected 1/sqrt(d_k) = {right:.3g}."
)
STATED = Text("With d_k = {d_k} it behaves as a factor of {factor:.3g}, stated is {right:.3g}.")
FIXED = Text(
    "It multiplies the scores by the same factor, {factor:.3g}, for every d_k (tested with "
    "{widths}), though scale=None stands for 1/sqrt(d_k). If the heads have another width than "
    "the incoming query (absorbed into a latent, padded), let the caller give scale."
)
OWN_FIXED = Text(
    "It multiplies the scores by {factor:.3g} whatever d_k is, and has no scale=None that "
    "would stand for 1/sqrt(d_k). Not judged: the heads may have another width than the incoming "
    "query, as when they are absorbed into a latent. All else is judged with this factor."
)
OWN_MULTIPLE = Text(
    "It multiplies the scores by {factor:.3g}/sqrt(d_k). Not judged: such a factor may be "
    "meant, as in YaRN. All else is judged with it."
)
UNSCALED = Text("no scaling")
NO_FACTOR = Text("No single factor explains the weights: they are not exponentials of the scores.")
ROOT = Text(
    "scale={asked} gives NaN: the square root of the factor is taken, perhaps. Multiply the "
    "scores by it, or the query alone, or raise an error."
)
IGNORED = Text(
    "scale={asked} is accepted but ignored: with d_k = {d_k} it behaves as {factor:.3g} with it "
    "and without it."
)
ON_TOP = Text(
    "With scale={asked} and d_k = {d_k} it behaves as {factor:.3g}: scale is multiplied on top "
    "of 1/sqrt(d_k), expected to replace it."
)
DIVIDES = Text(
    "With scale={asked} it behaves as {factor:.3g}: the scores are divided by scale, expected "
    "to be multiplied."
)
OTHER_FACTOR = Text("With scale={asked} and d_k = {d_k} it behaves as a factor of {factor:.3g}.")
MASK_SCALED = Text(
    "The float mask is multiplied by {factor:.3g}, expected 1: it must be added after the "
    "scores are scaled by 1/sqrt(d_k) = {right:.3g}."
)
OVERFLOW = Text(
    "Products of {product:.6g} overflow float16 before 1/sqrt(d_k) makes them {score:.6g}: at "
    "{index} the output is {got:.4g}, expected {expected:.4g}. Scale the query first."
)
NO_ORDER = Text(
    "Without attn_mask, and in a dtype whose products do not overflow, no order can be seen."
)
NOT_ADDED = Text(
    "The float mask is not added to the scores, not even by a factor; no order can be seen."
)
CAUSAL_SCALE = Text(
    "With is_causal and scale={asked} the output is {got:.4g} at {index}, expected "
    "{expected:.4g}: the -inf of the mask is multiplied by the factor. Mask after scaling."
)
# Where the usual mistakes are far apart. What is found there names its sizes, for the call that is
# shown below it may be smaller.
WIDE = Sizes(batch=1, heads=3, n=5, d_k=64)
NARROW = replace(WIDE, d_k=16)
_CLOSE = 5e-3  # of two factors; YaRN's 1.459 for s = 8 is no log2(e)
_TINY = 1e-3  # a factor that is none
_ASKED = 0.3  # neither 1/sqrt(d_k) nor its square for any d_k
_UNUSUAL = (0.0, -0.3, 1.5)  # no factor, not even 0, is None, or has to be a positive fraction


class Fit(NamedTuple):
    """The factor that explains weights best, and whether it explains them."""

    factor: float
    good: bool


def effective_scale(trial: Trial, case: Case, **options: Any) -> Fit:
    r"""The slope of log-weights over dot products, both as differences from their row's mean.

    log p_ij - log p_ī = c (q_i·k_j - q_i·k̄)
    """
    seen = trial.visible_pairs(case)
    for size in (1.0, 0.125):  # a large factor makes weights vanish; then smaller scores serve
        query = size * case.query
        weights = trial.weights(query, case.key, **options)  # (..., n, m)
        if (weights > 0).logical_or(~seen).all():
            break
    else:
        return Fit(math.nan, False)
    if bool((weights.masked_fill(seen, 0.0) != 0).any()):
        return Fit(math.nan, False)
    dots = trial.to_double(query) @ trial.to_double(case.key).mT
    logs = weights.masked_fill(~seen, 1.0).log()
    dots, logs = (centre(x, seen) for x in (dots, logs))
    factor = float((dots * logs).sum() / (dots * dots).sum())
    left = float((logs - factor * dots).abs().mean())
    rounding = 4 * torch.finfo(trial.dtype).eps  # of a weight, which is what is left of a factor 0
    return Fit(factor, left <= 0.02 * float(logs.abs().mean()) + rounding)


def centre(x: Tensor, seen: Tensor) -> Tensor:
    """Its differences from the mean of its row, over what is ``seen``; zeros elsewhere."""
    x = x.masked_fill(~seen, 0.0)
    return (x - x.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)).masked_fill(~seen, 0.0)


@rule(
    statement=Text("The scores are multiplied by 1/sqrt(d_k), or by scale where it is given."),
    formula=r"s_{ij} = c\, q_i \cdot k_j, \quad c = 1/\sqrt{d_k}",
    page="scale/scale-factor",
    sizes=WIDE,
    follows=OF_NUMBERS,
)
def scale(trial: Trial, case: Case) -> Finding | None:
    factor = trial.subject.reading.formula.factor
    usual = _check_default(trial, case)
    if factor is not None and factor.stated is None and usual is None:
        text = OWN_FIXED if factor.fixed else OWN_MULTIPLE
        usual = Finding(Verdict.NOT_CLAIMED, text, {"factor": factor.number})
    asked = _check_given(trial, case) if trial.offers("scale") else None
    return asked or usual if factor is not None else usual or asked


def _check_given(trial: Trial, case: Case) -> Finding | None:
    """The factors where some are given."""
    for asked in (_ASKED, *_UNUSUAL):
        try:
            found = _check_factor(trial, case, asked)
        except Raised as raised:
            # One below 0 turns attention around, and an error says so; 0 is a number like others.
            if asked == _ASKED or (asked >= 0 and not trial.is_refusal(raised)):
                raise
            continue
        if found is not None:
            return found
    return None


def _check_factor(trial: Trial, case: Case, asked: float) -> Finding | None:
    """The factor where ``asked`` is given."""
    expected = trial.truth(case.query, case.key, case.value, scale=asked)
    output = trial.call(case.query, case.key, case.value, scale=asked)
    if miss(output, expected.output, expected.allowance) is None:
        return None
    failure = trial.failure(OTHER_FACTOR, expected.output)
    if asked < 0 and not output.isfinite().all():
        return trial.unsafe_failure(ROOT, expected.output, asked=asked)
    wide = trial.fit(WIDE)
    fit = effective_scale(trial, Case.draw(wide, case.seed), scale=asked)
    if fit.good and _is_close(fit.factor, asked):
        return None  # something else is wrong
    right = wide.d_k**-0.5
    text = OTHER_FACTOR if fit.good else NO_FACTOR
    ways = [(right, IGNORED), (right * asked, ON_TOP)] + ([(1 / asked, DIVIDES)] if asked else [])
    for factor, name in ways:
        if fit.good and _is_close(fit.factor, factor):
            text = name
    return failure.reword(text, asked=asked, factor=fit.factor, d_k=wide.d_k)


def _is_close(one: float, other: float) -> bool:
    """Equal up to 2 %; of a factor near 0, up to a thousandth."""
    return abs(one - other) < max(0.02 * abs(other), 1e-3)


def _check_default(trial: Trial, case: Case) -> Finding | None:
    """The factor where none is given."""
    expected = trial.truth(case.query, case.key, case.value)
    output = trial.call(case.query, case.key, case.value)
    if miss(output, expected.output, expected.allowance) is None:
        return None
    failure = trial.failure(BEHAVES, expected.output)
    wide, narrow = trial.fit(WIDE), trial.fit(NARROW)
    fit = effective_scale(trial, Case.draw(wide, case.seed))
    right = trial.usual_scale(wide.d_k)
    values: dict[str, Any] = {"factor": fit.factor, "right": right, "d_k": wide.d_k}
    if not fit.good:
        return failure.reword(NO_FACTOR)
    if abs(fit.factor / right - 1) < 0.02:
        return None  # something else is wrong
    stated = trial.subject.reading.formula.factor
    if stated is not None and stated.stated is not None:
        return failure.reword(STATED, **values)
    other = effective_scale(trial, Case.draw(narrow, case.seed))
    same = wide != narrow and other.good and _is_close(other.factor, fit.factor)
    others = named_factors(narrow)
    for name, factor in named_factors(wide).items():
        fixed = wide != narrow and others.get(name) == factor
        if abs(fit.factor / factor - 1) < _CLOSE and fixed == same:
            values["name"] = name
            return failure.reword(BEHAVES, **values)
    if same:
        return failure.reword(FIXED, factor=fit.factor, widths=[narrow.d_k, wide.d_k])
    return failure.reword(BEHAVES_UNNAMED, **values)


def named_factors(sizes: Sizes) -> dict[str | Text, float]:
    """Factors that are taken for 1/sqrt(d_k)."""
    heads, n, d_k = sizes.heads, sizes.n, sizes.d_k
    return {
        "1/d_k": 1 / d_k,
        UNSCALED: 1.0,
        "sqrt(d_k)": d_k**0.5,
        "d_k ** -0.25": d_k**-0.25,
        f"1/sqrt(n = {n})": n**-0.5,
        f"1/sqrt((heads = {heads}) * d_k)": (heads * d_k) ** -0.5,
        f"1/sqrt(heads = {heads})": heads**-0.5,
        "ln(2)/sqrt(d_k)": math.log(2) * d_k**-0.5,
        "log2(e)/sqrt(d_k)": d_k**-0.5 / math.log(2),
        "-1/sqrt(d_k)": -(d_k**-0.5),
    }


@rule(
    statement=Text("Scores are scaled before a mask is added, and before they can overflow."),
    formula=r"s_{ij} = (c\, q_i) \cdot k_j + b_{ij}",
    page="scale/scale-factor",
    sizes=EXACT,
    may_refuse=True,
    follows=(*OF_MASKS, *("scale",)),
)
def scaling_order(trial: Trial, case: Case) -> Finding | None:
    half = trial.dtype == torch.float16
    if half:
        found = overflows(trial, case)
        if found is not None:
            return found
    if trial.offers("attn_mask"):
        try:
            return _mask_scaled(trial, case)
        except Raised:
            return Finding(Verdict.NOT_CLAIMED, NOT_ADDED)  # `float_mask` tells why
    return None if half else Finding(Verdict.NOT_CLAIMED, NO_ORDER)


def overflows(trial: Trial, case: Case) -> Finding | None:
    """Products of 160000, beyond float16's 65504; a quarter of them, 40000, is not."""
    vectors = first_component(case.query, 400.0)
    value = trial.to_double(case.value)
    expected = trial.shares(case) @ value
    output = trial.call(vectors, vectors, case.value)
    found = miss(output, expected, budget.mean_error(value, trial.dtype))
    if found is None:
        return None
    product = 400.0 * 400.0
    score = product * case.query.shape[-1] ** -0.5
    return trial.unsafe_failure(OVERFLOW, expected, product=product, score=score, **found.values())


def _mask_scaled(trial: Trial, case: Case) -> Finding | None:
    """The slope of what a float mask adds to the log-weights over the mask itself."""
    n, m = case.query.shape[-2], case.key.shape[-2]
    bias = torch.randn(n, m, generator=case.generator(), dtype=torch.float64)
    bias = (4 * bias).round() / 4
    seen = trial.visible_pairs(case)
    own = trial.weights(case.query, case.key).masked_fill(~seen, 1.0)
    # The call under the mask comes last: it is the one to be shown.
    under = trial.weights(case.query, case.key, attn_mask=bias).masked_fill(~seen, 1.0)
    added = under.log() - own.log()
    bias, added = (centre(x, seen) for x in (bias, added))
    size = (bias * bias).sum()
    factor = float((added * bias).sum() / size / (added.numel() / bias.numel()))
    left = float((added - factor * bias).abs().mean())
    if not left <= 0.05 * abs(factor) * float(bias.abs().mean()) or abs(factor) < _TINY:
        return Finding(Verdict.NOT_CLAIMED, NOT_ADDED)  # the property `float_mask` tells of it
    if abs(factor - 1) < 0.05:
        return None
    right = case.query.shape[-1] ** -0.5
    return trial.failure(MASK_SCALED, factor=factor, right=right)


@rule(
    statement=Text(
        "is_causal forbids the future whatever the factor, 0 and negative ones included."
    ),
    formula=r"j > i \implies p_{ij} = 0 \text{ for each } c",
    page="foundations/mask-traps",
    needs=("is_causal", "scale"),
    follows=(*OF_CAUSALITY, *("scale",)),
    asked_of=("function",),
)
def causal_scale(trial: Trial, case: Case) -> Finding | None:
    for asked in (0.0, -_ASKED):
        options: dict[str, Any] = {"scale": asked, "is_causal": True}
        if not trial.is_right(case, is_causal=True) or not trial.is_right(case, scale=asked):
            continue  # another property tells of it
        output = trial.call(case.query, case.key, case.value, **options)
        right = trial.truth(case.query, case.key, case.value, **options)
        wrong = miss(output, right.output, right.allowance)
        if wrong is not None:
            values = {"index": list(wrong.place), "got": wrong.got, "expected": wrong.expected}
            return trial.unsafe_failure(CAUSAL_SCALE, right.output, asked=asked, **values)
    return None
