"""The check itself: which properties, asked how, of what function."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from attnref.conformance.beside import Beside
from attnref.conformance.examination import examine
from attnref.conformance.isolation import HUNG, Unusable, run_isolated
from attnref.conformance.layers import instance_as_a_whole, lines, make_subject, whole_beside
from attnref.conformance.layers.construction import is_maker
from attnref.conformance.layers.whole import WholeSubject
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.property import Property, find_causes
from attnref.conformance.reading import COMPILING, Reading
from attnref.conformance.recognition import read
from attnref.conformance.report import Report
from attnref.conformance.result import Result, strip_controls
from attnref.conformance.settings import DTYPES, LIMIT, Settings
from attnref.conformance.signatures import signature_of
from attnref.conformance.step import StepSubject
from attnref.conformance.step_reading import read_step
from attnref.conformance.step_signature import step_subject
from attnref.conformance.subject import CheckError, Subject, modules, place_of
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

__all__ = ["check"]

FAILED = Text(
    "function: {name} failed in a call with query, key and value of shape {shape}: {error} (at "
    "{place}). Fix it, or wrap it in a function that takes tensors of this shape.{hint}"
)
FAILED_IN_A_STEP = Text(
    "function: {name} failed in a step with query, key and value of shape {shape}: {error} (at "
    "{place}). Fix it; if its first cache is not None, say what makes it: --cache module:factory."
)
READ = Text("read")  # carries a reading from the process that has found it
_SHAPE = "(2, 3, 7, 8)"
_STEP_SHAPE = "(2, 3, 1, 8)"
_WHOLE = 18  # times the limit, for all properties together
_READING = 6  # times the limit, for all that is tried, and for what compiles at first
Told = Callable[[str, int, int], None]


def check(
    function: Callable[..., Any],
    *,
    supports: Sequence[str] | None = None,
    only: Iterable[str] | None = None,
    dtype: str | None = None,
    device: str = "cpu",
    seed: int = 0,
    limit: float | None = LIMIT,
    names: Mapping[str, str] | None = None,
    layout: str | None = None,
    mask_means: str | None = None,
    always_causal: bool | None = None,
    approximate: bool = False,
    arguments: Mapping[str, Any] | None = None,
    scale: float | str | Callable[[int], float] | None = None,
    draw: Mapping[str, object] | None = None,
    demand: Mapping[str, str] | None = None,
    against: Callable[..., Any] | None = None,
    bound: float | None = None,
) -> Report:
    r"""Judges anybody's attention function by the rules that attnref itself keeps.

        softmax(QKᵀ/√(d_k))V, and what follows from it

    Args:
        function: called as ``f(query, key, value, **options)`` with tensors
            ``(batch, heads, n, d)``, mostly of 2 samples, 3 heads and 7 positions. A module is
            asked in evaluation mode, a session of ONNX Runtime is run. A class of layers, or a
            function ``make(width, heads)`` that returns one, is asked behind its projections,
            which are made transparent. Other names, axes and meanings are recognised where the
            formula's answer comes back with them, and the report says how it was read.
        supports: which of ``attn_mask``, ``is_causal``, ``scale``, ``enable_gqa``, ``dropout_p``,
            ``softcap`` and ``window`` it takes; None reads its signature. What it does not take
            is reported as not claimed, and so is what it only swallows in ``**kwargs``.
        only: names of properties, those of :data:`PROPERTIES`; None means all.
        dtype: ``"float32"``, ``"float64"``, ``"bfloat16"`` or ``"float16"``; None means float32,
            or the half precision that it takes instead.
        device: of the inputs.
        seed: of all random numbers.
        limit: seconds for a property; all together have 18 times as many. On Linux the function
            runs in a forked process, which is stopped after that time, may crash without harm, and
            may take half of the machine's memory; what it prints is lost. Where there is no fork,
            or this process has used CUDA before, or JAX has computed, it runs in this process,
            nothing stops it, and its memory has no limit. None asks for that, to look into it with
            a debugger. What compiles for each shape gets twelve times as long.
        names: the function's own for options, as ``{"attn_mask": "mask"}``.
        layout: the axes of its tensors, ``"bhnd"``, ``"bnhd"``, ``"bhnd>bnhd"`` where the
            output has others, ``"bnd"``, ``"nbd"``, ``"nd"``, or ``"packed"`` where the signature
            has ``cu_seqlens``; None recognises them.
        mask_means: what its mask says, ``"allowed"`` (True = may attend), ``"bools"`` (the
            same, and no numbers to add), ``"forbidden"``, ``"ones"`` (1 and 0) or ``"added"``;
            None recognises it for a parameter that is not called attn_mask, which says what
            PyTorch's says.
        always_causal: that it cannot be asked without causality; None recognises it.
        approximate: that it does not promise the formula: its error is told, and it is asked what
            holds of approximations too.
        arguments: what a layer needs beside widths and heads, as ``{"block_size": 256}``.
        scale: what it multiplies the scores by, if not 1/√(d_k): a number, or a function of d_k,
            which may be its text in Python.
        draw: how its other arguments are made, as ``{"sinks": "normal(h)", "window": 128}``.
        demand: conventions that it must follow, as ``{"alignment": "bottom-right"}``.
        against: a function beside which it is judged, whatever the two compute.
        bound: the largest relative error of what is approximate, or judged beside another.

    Returns:
        A :class:`Report` with one result per property.

    Raises:
        CheckError: when it cannot be asked: not callable, a wrong signature, an unknown name of
            an option, a property, a dtype or a device. The message says how to fix it.

    An output may err 1.5 times as much as PyTorch's own on the same input, compared with
    :mod:`attnref.oracle` in float64; :mod:`attnref.conformance.budget` derives the floor. Time:
    a second or two for a function that is right.

    Examples:
        >>> def attention(query, key, value):
        ...     return torch.softmax(query @ key.mT / query.shape[-1], dim=-1) @ value
        >>> report = check(attention, only=["row_sums", "scale"])
        >>> report.passed()
        False
        >>> print(report.failures[0].diagnosis("en"))
        With d_k = 64 it behaves as 1/d_k = 0.0156, expected 1/sqrt(d_k) = 0.125.
    """
    settings = Settings.of_call(**locals())
    return judge(find_subject(function, settings), settings)


def find_subject(
    function: Callable[..., Any], settings: Settings, name: str | None = None
) -> Subject:
    """The function, or the step or layer, as it is asked.

    Raises:
        CheckError: when it does not fit what is said of it.
    """
    if settings.against is not None and not callable(settings.against):
        kind = type(settings.against).__name__
        raise CheckError(
            "against: expected a function, got {kind}. Give the function itself.", kind=kind
        )
    said = settings.supports, name, settings.names
    about: Subject
    if settings.is_step:
        about = step_subject(function, settings.cache, *said, settings.draw)
    else:
        about = make_subject(function, *said, settings.arguments, settings.draw)
    if settings.against is None:
        return replace(about, bound=settings.bound)
    signature = signature_of(settings.against)  # of one that is written in C there is none
    taken = signature.parameters if signature is not None else ()
    draws = {each: how for each, how in settings.draw.items() if each in taken}
    if isinstance(about, WholeSubject):
        return replace(about, bound=settings.bound)  # and its weights go to the other
    arguments = settings.arguments if is_maker(settings.against) else None
    beside = make_subject(settings.against, arguments=arguments, draws=draws)
    return replace(about, bound=settings.bound, beside=beside)


def judge(
    about: Subject,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    said: Reading | None = None,
    told: Told | None = None,
) -> Report:
    """:func:`check` for a function whose options are known; ``said`` is how it is read, if known.

    What is about to be asked, the how-manieth of how many, is ``told``.

    The functions that ``settings`` may name are loaded.
    """
    names, place, seed = settings.property_names, settings.place, settings.seed
    whole = _WHOLE * (settings.limit or math.inf)
    with _evaluating(about.function):
        about, reading, limit = _read_or_whole(about, settings, said)
        rules = rules_of(about)
        dtype = settings.dtype or reading.dtype or DTYPES[0]
        asked = about if isinstance(about, WholeSubject) else reading.apply(about)
        trial = Trial(asked, getattr(torch, dtype), place)

        def ask(name: str) -> Iterator[Finding | None]:
            return examine(rules[name], trial, seed)

        asked_now = _tell(names, told)
        if limit is not None:
            findings = list(run_isolated(asked_now, ask, place, limit, whole))
        else:
            findings = [list(ask(name))[-1] for name in asked_now]
    results = [
        Result(
            rules[name],
            _demand(rules[name], _conclude(rules[name], finding), settings.demand),
            expectation=settings.expect.get(name),
        )
        for name, finding in zip(names, findings, strict=True)
    ]
    return Report(
        about.name,
        dtype,
        str(place),
        seed,
        limit,
        _sort_results(results),
        trial.subject.overlooked,
        (*lines(about.function), *reading.lines(), *trial.subject.lines()),
        tuple(trial.subject.default_parameters()),
        place_of(about.function),
    )


def _tell(names: Sequence[str], told: Told | None) -> Iterator[str]:
    """The names, each when its turn comes."""
    for number, name in enumerate(names):
        if told is not None:
            told(name, number, len(names))
        yield name


def _read_or_whole(
    about: Subject, settings: Settings, said: Reading | None
) -> tuple[Subject, Reading, float | None]:
    """A layer that answers no call with query, key and value is judged as a whole."""
    try:
        if not isinstance(about, WholeSubject):
            return about, *recognise(about, settings, said)
    except CheckError:
        whole = instance_as_a_whole(about)
        if whole is None:
            raise
        about = whole
    assert isinstance(about, WholeSubject)
    if settings.scale is not None:
        raise CheckError(
            "scale: {name} is judged as a whole layer, from its input to its output, where this "
            "cannot be asked. Leave it out, or name a function of query, key and value.",
            name=about.name,
        )
    if settings.against is not None:
        other = whole_beside(about, settings.against, settings.arguments)
        reference: Any = Beside(other)
        about = replace(about, reference=reference, beside=None)
    return about, Reading(causal=about.always_causal), settings.limit


def recognise(
    about: Subject, settings: Settings, said: Reading | None = None
) -> tuple[Reading, float | None]:
    """How it is read, and the limit, None where it can be asked in this process alone.

    Raises:
        CheckError: when it answers no call with query, key and value.
    """
    said = said or settings.reading
    dtype, place, limit = settings.dtype, settings.place, settings.limit

    def ask(name: str) -> Iterator[Finding | None]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(about, StepSubject):
                    chosen_dtype = getattr(torch, dtype or DTYPES[0])
                    reading = read_step(about, said, chosen_dtype, place)
                else:
                    reading = _read(about, said, dtype, place)
            yield Finding(Verdict.PASS, READ, {"reading": reading})
        except Raised as raised:
            if isinstance(raised.error, NotImplementedError) and raised.own:
                yield None  # it is not written yet, which the properties say
                return
            if isinstance(raised.error, CheckError):
                yield Finding(Verdict.WRONG, READ, {"refused": raised.error.text})
                return
            error = f"{type(raised.error).__name__}: {raised.error}"
            said_of = {"error": error, "place": raised.place, "hint": raised.hint}
            yield Finding(Verdict.WRONG, READ, said_of)
        except Stopped:
            yield None  # it answers, and `shape` says what

    if said.complete:
        return said, limit
    finding: Finding | None = None
    if limit is not None:
        try:
            # One that hangs is condemned by the properties: it is not waited for twice here.
            (finding,) = run_isolated(["reading"], ask, place, _READING * limit, again=False)
        except Unusable:
            limit = None
    if limit is None:
        _reach(place)
        (finding,) = ask("reading")
    values = {} if finding is None or finding.text != READ else finding.values
    if "refused" in values:
        refusal = values["refused"]
        assert isinstance(refusal, Text)
        raise CheckError(refusal)
    if "error" in values:
        error = strip_controls(str(values["error"])).replace("\n", " ")
        step = isinstance(about, StepSubject)
        said_of = {**values, "name": about.name, "error": error}
        said_of["shape"] = _STEP_SHAPE if step else _SHAPE
        raise CheckError((FAILED_IN_A_STEP if step else FAILED).fill(said_of))
    found = values.get("reading", said)
    assert isinstance(found, Reading)
    if finding is not None and finding.text != READ:  # it hung, or took its process along
        found = replace(found, cut=True, ignored=about.swallowed)
    return found, limit * COMPILING if limit and found.compiles else limit


def _read(about: Subject, said: Reading, dtype: str | None, device: torch.device) -> Reading:
    """In the dtype that is asked for; where none is, in half precision if it takes no float32."""
    try:
        return read(about, said, getattr(torch, dtype or DTYPES[0]), device)
    except Raised:
        for half in () if dtype else DTYPES[2:]:
            with contextlib.suppress(Raised):
                reading = read(about, said, getattr(torch, half), device)
                return replace(reading, dtype=half)
        raise


def _sort_results(results: list[Result]) -> tuple[Result, ...]:
    """The same with what may follow from a fault below that fault."""
    wrong = [each.property for each in results if each.verdict is Verdict.WRONG]
    unsafe = [each.property for each in results if each.verdict is Verdict.UNSAFE]
    # What is wrong does not follow from what is unsafe alone.
    causes = find_causes([*wrong, *unsafe])
    follows = {name: causes[name] for name in unsafe if name in causes} | find_causes(wrong)
    marked = [replace(each, follows=follows.get(each.property)) for each in results]
    below: dict[str, list[Result]] = {}
    for each in marked:
        if each.follows:
            below.setdefault(each.follows, []).append(each)

    def walk(result: Result) -> Iterator[Result]:
        yield result
        for each in below.get(result.property, ()):
            yield from walk(each)

    return tuple(each for top in marked if not top.follows for each in walk(top))


@contextlib.contextmanager
def _evaluating(function: Callable[..., Any]) -> Iterator[None]:
    """A module does not drop anything meanwhile; then it is as it was."""
    found = modules(function)
    training = [module.training for module in found]
    for module in found:
        module.training = False
    try:
        yield
    finally:
        for module, before in zip(found, training, strict=True):
            module.training = before


def _conclude(prop: Property, finding: Finding | None) -> Finding:
    if finding is None:
        return Finding(Verdict.PASS, prop.statement)
    if finding.text == HUNG and not prop.judged:
        return replace(finding, verdict=Verdict.NOT_CLAIMED)
    return finding


UNMET = Text("Demanded is {convention}={wanted}. {said}")


def _demand(prop: Property, finding: Finding, demands: Mapping[str, str]) -> Finding:
    """The finding, or that a convention is not the one that is demanded, or is not seen."""
    wanted = demands.get(prop.convention or "")
    told = None if finding.verdict is Verdict.PASS else finding.text
    if wanted is None or finding.verdict is Verdict.WRONG or prop.choices.get(told) == wanted:
        return finding
    values = {
        "convention": prop.convention,
        "wanted": wanted,
        "said": finding.text.fill(finding.values),
    }
    return replace(finding, verdict=Verdict.WRONG, text=UNMET, values=values)


def rules_of(about: Subject) -> Mapping[str, Property]:
    """What it is asked for, by name."""
    return STEP_PROPERTIES if isinstance(about, StepSubject) else PROPERTIES


def _reach(device: torch.device) -> None:
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckError(
            "device: PyTorch cannot compute on {device!r} here: {reason}. Leave it out for the "
            "CPU.",
            device=str(device),
            reason=reason,
        ) from None
