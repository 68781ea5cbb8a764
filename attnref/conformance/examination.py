"""One property of one function: asked, judged, and its counterexample made small."""

import warnings
from dataclasses import replace

import torch

from attnref.conformance.case import Case
from attnref.conformance.property import Property
from attnref.conformance.subject import Subject
from attnref.conformance.text import Text
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict

MISSING = Text(
    en="It takes no {missing}; its parameters are {parameters}.",
    pt="Ela não recebe {missing}; os seus parâmetros são {parameters}.",
)
REFUSED = Text(
    en="It declines with a clear error: {error}",
    pt="Ela recusa com um erro claro: {error}",
)
RAISED = Text(
    en="It raised {error} (at {place}).",
    pt="Ela lançou {error} (em {place}).",
)
NOT_IMPLEMENTED = Text(
    en="It is not written yet: it raised NotImplementedError (at {place}).",
    pt="Ela ainda não foi escrita: lançou NotImplementedError (em {place}).",
)
SHARED = Text(
    en="PyTorch's own function does so too.",
    pt="A função do próprio PyTorch também faz isso.",
)

_TRIES = 150  # smaller cases that are tried for one counterexample


def examine(prop: Property, trial: Trial, seed: int) -> Finding | None:
    """What ``prop`` finds; None when it holds."""
    missing = [option for option in prop.needs if not trial.offers(option)]
    if missing:
        known = trial.subject.parameters
        names = ", ".join(known) if known else "query, key, value, …"
        return Finding(
            Verdict.NOT_OFFERED, MISSING, {"missing": ", ".join(missing), "parameters": names}
        )
    finding = ask(prop, trial, Case.draw(prop.sizes, seed))
    if finding is None or finding.verdict is not Verdict.FAIL:
        return finding
    case, finding = _shrunk(prop, trial, seed, finding)
    if prop.danger and _pytorch_fails(prop, trial, case):
        text = Text(*map(" ".join, zip(finding.text, SHARED, strict=True)))
        return replace(finding, verdict=Verdict.CAUTION, text=text)
    return finding


def ask(prop: Property, trial: Trial, case: Case) -> Finding | None:
    """What ``prop`` finds for one case. What the function raises is a finding too."""
    trial.last = None
    torch.manual_seed(case.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return prop.test(trial, case)
        except Stopped as stopped:
            return stopped.finding
        except Raised as raised:
            return _raised(prop, trial, raised)


def _raised(prop: Property, trial: Trial, raised: Raised) -> Finding:
    error, place = raised.error, raised.place
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if prop.may_refuse and refuses(error, trial):
        return Finding(Verdict.NOT_OFFERED, REFUSED, {"error": said})
    if isinstance(error, NotImplementedError) and not prop.may_refuse:
        return trial.failure(NOT_IMPLEMENTED, place=place)
    return trial.failure(RAISED, error=said, place=place)


def refuses(error: Exception, trial: Trial) -> bool:
    """Whether an error was meant: its type is one for wrong arguments, or it names an option.

    Shapes that happen not to fit give a RuntimeError or an IndexError about numbers only.
    """
    if isinstance(error, ValueError | TypeError | NotImplementedError | AssertionError):
        return True
    return any(option in str(error) for option in trial.subject.supports)


def _shrunk(prop: Property, trial: Trial, seed: int, finding: Finding) -> tuple[Case, Finding]:
    """A smaller case in which the same is wrong: the smallest sizes first, then simple numbers."""
    case = Case.draw(prop.sizes, seed)
    for _, sizes in zip(range(_TRIES), prop.sizes.smaller(), strict=False):
        tried = Case.draw(sizes, seed)
        other = ask(prop, trial, tried)
        if _same(other, finding):
            case, finding = tried, other
            break
    for decimals in (0, 1):
        tried = case.rounded(decimals)
        other = ask(prop, trial, tried)
        if _same(other, finding):
            return tried, other
    return case, finding


def _same(one: Finding | None, other: Finding) -> bool:
    return one is not None and (one.verdict, one.text) == (other.verdict, other.text)


def _pytorch_fails(prop: Property, trial: Trial, case: Case) -> bool:
    function = torch.nn.functional.scaled_dot_product_attention
    theirs = Subject(function, "PyTorch", trial.subject.supports, None)
    found = ask(prop, Trial(theirs, trial.dtype, trial.device), case)
    return found is not None and found.verdict is Verdict.FAIL
