"""One property of one function: asked, judged, and its counterexample made small."""

import contextlib
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch

from attnref.conformance.case import Case, Sizes
from attnref.conformance.isolation import OUT_OF_MEMORY, ran_out_of_memory
from attnref.conformance.meanings import CannotSay
from attnref.conformance.property import Property
from attnref.conformance.right import match_causality, right_subject
from attnref.conformance.subject import Subject, subject
from attnref.conformance.trial import APART, Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

REFUSED = Text("It declines with a clear error: {error}")
CANNOT_SAY = Text("Its mask {what}, which is not enough here.")
NOT_MADE = Text("It is not made for this: {error}")
RAISED = Text("It raised {error} (at {place}).")
NOT_IMPLEMENTED = Text("It is not written yet: it raised NotImplementedError (at {place}).")
UNFIT = Text(
    "It is tested only with lengths that are multiples of {step} and vectors of {width}, which "
    "does not suit this property: {error}"
)
UNASKED = Text(
    "It is tested only with lengths that are multiples of {step} and vectors of {width} numbers."
)
NO_SOFTMAX = Text(
    "This is not softmax attention of the products alone, and is not judged here: {what}."
)
OF_BOTH = Text("The function beside it does so too.")
NOT_OF_THIS = Text("This holds of softmax attention; it is judged beside its own formula.")
MORE_THAN_PRODUCTS = Text(
    "Not claimed: its scores are not the products alone, or a sink shares the weight."
)
APPROXIMATE = Text("Not tested: it is approximate, and this property holds for the exact formula.")
ERRORS = Text(
    "Approximate: its relative error is {few:.2g} for n = {n_few} and {many:.2g} for n = "
    "{n_many}, with standard normal inputs and d_k = {d_k}."
)
BEYOND = Text(
    "Its relative error is {few:.2g} for n = {n_few} and {many:.2g} for n = {n_many}, more than "
    "{bound:.2g}, with standard normal inputs and d_k = {d_k}; zeros would err by 1."
)

# These hold of any function, but compare with the formula where there is one.
_OF_EXACT = ("key_permutation", "mask_polarity", "gradients", "single_token")
_PYTORCH = subject(torch.nn.functional.scaled_dot_product_attention)
BOUND = 0.9  # relative error, where none is stated: what errs so much is hardly better than zeros
_TRIES = 150  # smaller cases that are tried for one counterexample


def examine(prop: Property, trial: Trial, seed: int) -> Iterator[Finding | None]:
    """What ``prop`` finds, None when it holds; after a failure, the same in a smaller case."""
    known = ("any", "average") if trial.subject.reading.average else ("any",)
    if trial.subject.reference is not None and not trial.subject.apart:
        known = ("any", "formula") if prop.name == "oracle" else known  # a layer beside a layer
    if trial.subject.reading.other is not None and prop.holds_of not in known:
        text = NO_SOFTMAX if trial.subject.apart else APART
        yield Finding(Verdict.NOT_ASKED, text, {"what": trial.subject.reading.other})
        return
    if trial.subject.reference is not None and prop.holds_of not in ("any", "formula"):
        yield Finding(Verdict.NOT_CLAIMED, NOT_OF_THIS)
        return
    if prop.holds_of == "products" and not trial.subject.reading.formula.plain:
        yield Finding(Verdict.NOT_CLAIMED, MORE_THAN_PRODUCTS)
        return
    missing = [option for option in prop.needs if not trial.offers(option)]
    if missing:
        yield trial.not_claimed(*missing)
        return
    exact = prop.holds_of != "any" or prop.name in _OF_EXACT
    if trial.subject.reading.approximate and exact and prop.name != "oracle":
        yield Finding(Verdict.NOT_CLAIMED, APPROXIMATE)
        return
    fits = trial.subject.reading.fits
    if fits is not None and not prop.sizes.can_be(fits.width):
        yield Finding(Verdict.NOT_CLAIMED, UNASKED, fits._asdict())
        return
    if trial.subject.reading.approximate and prop.name == "oracle":
        prop = replace(prop, test=_error)
    case = trial.draw(trial.fit(prop.sizes), seed)
    finding = ask(prop, trial, case)
    if finding is None or finding.verdict not in (Verdict.WRONG, Verdict.UNSAFE):
        yield finding
        return
    if trial.subject.beside is not None and _right_fails(prop, trial, case):
        yield Finding(Verdict.NOT_CLAIMED, OF_BOTH)
        return
    shared = finding.verdict is Verdict.UNSAFE and _is_shared(prop, trial, case, finding)
    yield replace(finding, shared=shared)
    finding = _shrink(prop, trial, case, finding, shared=shared)
    yield replace(finding, shared=shared)


def ask(prop: Property, trial: Trial, case: Case) -> Finding | None:
    """What ``prop`` finds for one case. What the function raises is a finding too."""
    trial.last, trial.seed = None, case.seed
    with warnings.catch_warnings(), _seed(trial.device, case.seed):
        warnings.simplefilter("ignore")
        try:
            return prop.test(trial, case)
        except Stopped as stopped:
            return stopped.finding
        except Raised as raised:
            return _judge_error(prop, trial, raised)


@contextlib.contextmanager
def _seed(device: torch.device, seed: int) -> Iterator[None]:
    """Random numbers from ``seed`` on; afterwards the generators are as they were."""
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(cuda):
        # torch.manual_seed would note each call, with its stack, for the day CUDA is used.
        (torch.manual_seed if cuda else torch.default_generator.manual_seed)(seed)
        yield


def _judge_error(prop: Property, trial: Trial, raised: Raised) -> Finding:
    error, place = raised.error, raised.place
    if isinstance(error, CannotSay):
        return Finding(Verdict.NOT_CLAIMED, CANNOT_SAY, {"what": error.what})
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if ran_out_of_memory(error):
        return trial.failure(OUT_OF_MEMORY, place=place)
    fits = trial.subject.reading.fits
    if fits is not None and not trial.fitting():
        return Finding(Verdict.NOT_CLAIMED, UNFIT, {**fits._asdict(), "error": said})
    if prop.may_refuse and trial.is_refusal(raised):
        return Finding(Verdict.NOT_CLAIMED, REFUSED, {"error": said})
    if prop.may_crash:
        return Finding(Verdict.NOT_CLAIMED, NOT_MADE, {"error": said})
    if isinstance(error, NotImplementedError) and raised.own and not prop.may_refuse:
        return Finding(Verdict.WRONG, NOT_IMPLEMENTED, {"place": place})
    return trial.failure(RAISED, error=said, place=place)


def _error(trial: Trial, case: Case) -> Finding:
    """How far from the formula an approximation is, in the norm of the whole output."""
    found: dict[str, float] = {}
    for name, n in (("few", 64), ("many", 256)):
        sizes = trial.fit(Sizes(n=n, d_k=32))
        case = trial.draw(sizes, case.seed)
        right = trial.truth(case.query, case.key, case.value).output
        output = trial.call(case.query, case.key, case.value)
        found |= {name: float((output - right).norm() / right.norm()), f"n_{name}": sizes.n}
    bound = BOUND if trial.subject.bound is None else trial.subject.bound
    values = {**found, "d_k": sizes.d_k, "bound": bound}
    if not max(found["few"], found["many"]) <= bound:
        return trial.failure(BEYOND, **values)
    return Finding(Verdict.PASS, ERRORS, values)


def _shrink(prop: Property, trial: Trial, case: Case, finding: Finding, *, shared: bool) -> Finding:
    """The same finding in a smaller case: the smallest sizes first, then simple numbers.

    A case counts only if a right function passes it, for where there is one key, say, no mask
    has an effect; and if PyTorch's own fails it in what is ``shared`` with it.
    """

    def retry(case: Case) -> Finding | None:
        found = ask(prop, trial, case)
        if found is None or _words(found) != _words(finding):
            return None
        if _right_fails(prop, trial, case):
            return None
        return found if not shared or _is_shared(prop, trial, case, finding) else None

    fitted = dict.fromkeys(map(trial.fit, prop.sizes.shrink()))
    smaller = (trial.draw(sizes, case.seed) for sizes in fitted)
    for tried in itertools.islice(smaller, _TRIES):
        if found := retry(tried):
            case, finding = tried, found
            break
    for tried in (case.round(0), case.round(1)):
        if found := retry(tried):
            return found
    return finding


def _is_shared(prop: Property, trial: Trial, case: Case, finding: Finding) -> bool:
    """Whether PyTorch's own function has the same fault."""
    theirs = ask(prop, _replace_subject(trial, match_causality(trial.subject, _PYTORCH)), case)
    if theirs is None or _words(theirs) != _words(finding):
        return False
    return theirs.values.get("name") == finding.values.get("name")  # of the same tensor


def _words(finding: Finding) -> list[object]:
    """What is said, apart from how large a number is."""
    numbers = [value for value in finding.values.values() if isinstance(value, float)]
    parts: list[object] = [math.isfinite(number) for number in numbers]
    parts += [value for value in finding.values.values() if isinstance(value, Text)]
    return [finding.verdict, finding.text, *parts]


def _replace_subject(trial: Trial, other: Subject) -> Trial:
    """The same trial of another function."""
    return Trial(other, trial.dtype, trial.device)


def _right_fails(prop: Property, trial: Trial, case: Case) -> bool:
    return _fails(prop, _replace_subject(trial, right_subject(trial.subject)), case)


def _fails(prop: Property, trial: Trial, case: Case) -> bool:
    found = ask(prop, trial, case)
    return found is not None and found.verdict in (Verdict.WRONG, Verdict.UNSAFE)
