"""What the scores are multiplied by, and when."""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial, miss
from attnref.conformance.verdict import Finding

BEHAVES = Text(
    en="It behaves as {name} = {factor:.3g}, expected 1/sqrt(d_k) = {right:.3g}.",
    pt="Ela se comporta como {name} = {factor:.3g}; o esperado é 1/sqrt(d_k) = {right:.3g}.",
)
BEHAVES_UNNAMED = Text(
    en="It behaves as a factor of {factor:.3g}, expected 1/sqrt(d_k) = {right:.3g}.",
    pt="Ela se comporta como um fator {factor:.3g}; o esperado é 1/sqrt(d_k) = {right:.3g}.",
)
NO_FACTOR = Text(
    en="No single factor explains the weights: they are not exponentials of the scores.",
    pt="Nenhum fator único explica os pesos: eles não são exponenciais dos escores.",
)
IGNORED = Text(
    en="scale={asked} is accepted but ignored: it behaves as {factor:.3g} with it and without it.",
    pt="scale={asked} é aceito mas ignorado: ela se comporta como {factor:.3g} com ele e sem ele.",
)
ON_TOP = Text(
    en="With scale={asked} it behaves as {factor:.3g}: scale is multiplied on top of 1/sqrt(d_k), "
    "expected to replace it.",
    pt="Com scale={asked} ela se comporta como {factor:.3g}: scale multiplica 1/sqrt(d_k), quando "
    "deveria substituí-lo.",
)
DIVIDES = Text(
    en="With scale={asked} it behaves as {factor:.3g}: the scores are divided by scale, expected "
    "to be multiplied.",
    pt="Com scale={asked} ela se comporta como {factor:.3g}: os escores são divididos por scale, "
    "quando deveriam ser multiplicados.",
)
OTHER_FACTOR = Text(
    en="With scale={asked} it behaves as a factor of {factor:.3g}.",
    pt="Com scale={asked} ela se comporta como um fator {factor:.3g}.",
)

_ASKED = 0.3  # neither 1/sqrt(d_k) nor its square for any d_k


class Fit(NamedTuple):
    """The factor that explains weights best, and whether it explains them."""

    factor: float
    good: bool


def effective_scale(weights: Tensor, query: Tensor, key: Tensor) -> Fit:
    """The slope of log-weights over dot products, both as differences from their row's mean.

    .. math:: \\log p_{ij} - \\overline{\\log p_i} = c\\,(q_i \\cdot k_j - \\overline{q_i \\cdot k})
    """
    dots = query @ key.mT  # (..., n, m)
    if not (weights > 0).all():
        return Fit(float("nan"), False)
    logs = weights.log()
    dots, logs = (x - x.mean(-1, keepdim=True) for x in (dots, logs))
    factor = float((dots * logs).sum() / (dots * dots).sum())
    left = float((logs - factor * dots).abs().mean())
    return Fit(factor, left <= 0.02 * float(logs.abs().mean()))


@rule(
    statement=Text(
        en="The scores are multiplied by 1/sqrt(d_k), or by scale where it is given.",
        pt="Os escores são multiplicados por 1/sqrt(d_k), ou por scale quando é dado.",
    ),
    formula=r"s_{ij} = c\, q_i \cdot k_j, \quad c = 1/\sqrt{d_k}",
    page="scale/scale-factor",
    sizes=Sizes(batch=1, heads=2, n=5, d_k=64),
)
def scale(trial: Trial, case: Case) -> Finding | None:
    usual = _without(trial, case)
    if usual is not None or not trial.offers("scale"):
        return usual
    expected = trial.truth(case.query, case.key, case.value, scale=_ASKED)
    output = trial.call(case.query, case.key, case.value, scale=_ASKED)
    if miss(output, expected.output, expected.allowance) is None:
        return None
    failure = trial.failure(OTHER_FACTOR, wanted=expected.output)
    fit = effective_scale(
        trial.weights(case.query, case.key, scale=_ASKED), case.query, case.key
    )
    right = case.query.shape[-1] ** -0.5
    text = OTHER_FACTOR if fit.good else NO_FACTOR
    for factor, name in ((right, IGNORED), (right * _ASKED, ON_TOP), (1 / _ASKED, DIVIDES)):
        if fit.good and abs(fit.factor / factor - 1) < 0.02:
            text = name
    values = {"asked": _ASKED, "factor": fit.factor}
    return Finding(failure.verdict, text, values, failure.counterexample)


def _without(trial: Trial, case: Case) -> Finding | None:
    """The factor where none is given."""
    expected = trial.truth(case.query, case.key, case.value)
    output = trial.call(case.query, case.key, case.value)
    if miss(output, expected.output, expected.allowance) is None:
        return None
    failure = trial.failure(BEHAVES, wanted=expected.output)
    fit = effective_scale(trial.weights(case.query, case.key), case.query, case.key)
    right = case.query.shape[-1] ** -0.5
    values: dict[str, object] = {"factor": fit.factor, "right": right}
    if not fit.good:
        return Finding(failure.verdict, NO_FACTOR, {}, failure.counterexample)
    if abs(fit.factor / right - 1) < 0.02:
        return None  # something else is wrong
    for name, factor in _names(case).items():
        if abs(fit.factor / factor - 1) < 0.02:
            values["name"] = name
            return Finding(failure.verdict, BEHAVES, values, failure.counterexample)
    return Finding(failure.verdict, BEHAVES_UNNAMED, values, failure.counterexample)


def _names(case: Case) -> dict[str, float]:
    """Factors that are taken for 1/sqrt(d_k)."""
    _, heads, n, d_k = case.query.shape
    return {
        "1/d_k": 1 / d_k,
        "1 (no scaling)": 1.0,
        "sqrt(d_k)": d_k**0.5,
        "d_k ** -0.25": d_k**-0.25,
        "1/sqrt(n)": n**-0.5,
        "1/sqrt(heads * d_k)": (heads * d_k) ** -0.5,
        "1/sqrt(heads)": heads**-0.5,
        "ln(2)/sqrt(d_k)": float(torch.log(torch.tensor(2.0))) * d_k**-0.5,
        "log2(e)/sqrt(d_k)": d_k**-0.5 / float(torch.log(torch.tensor(2.0))),
        "-1/sqrt(d_k)": -(d_k**-0.5),
    }
