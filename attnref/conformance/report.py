"""The answer: a result for each property, as an object, as text, as JSON and as JUnit XML."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from attnref.conformance.examination import ERRORS, NO_SOFTMAX, NOT_MADE, REFUSED
from attnref.conformance.isolation import LATE
from attnref.conformance.junit import Case, document
from attnref.conformance.result import WORDS, Result, is_bad
from attnref.conformance.trial import MISSING
from attnref.conformance.verdict import Verdict
from attnref.text import LANGUAGES, Text

SETTINGS = Text("{function} · {dtype} · {device} · seed {seed}")
READ = Text("read as: {as}")
UNPROTECTED = Text(
    "Tested in this very process: nothing would have stopped a call that hangs or crashes."
)
ALL_RIGHT = Text("Right in all that was tested.")
UNSAFE = Text("Right for ordinary inputs; unsafe in {names}.")
WRONG = Text("Wrong in {names}.")
FIX_FIRST = Text("Wrong in {names}. Fix that first: {count} more may follow from it.")
NO_MORE = Text("Nothing wrong except what is expected.")
UNSAFE_TOO = Text("Except for what is expected, unsafe in {names}.")
ACCEPTED = Text("As expected: {names}.")
STALE = Text("No longer as expected: {names}. Update expect.")
UNASKED = Text("Not tested: {options}, which it may take by another name.")
UNFINISHED = Text("Not everything was tested: it took too long; --limit gives it more time.")
DECLINED = Text("Not accepted: {options}; each call with it raised an error.")
FOLLOWING = Text("May follow from it: {names}.")
HELD = Text("{held} of {all} properties hold")
NOT_TESTED = Text("{count} not tested: {why}")
LACKING = Text("it takes no {options} ({count})")
UNTESTED = Text("Not tested: ")  # said once of all
DEFAULTS = Text("left at their defaults: {names}")

WIDTH = 100  # of what is wrapped; a program is not
_MANY = 8  # properties of which it suffices to say how many they are
_STYLES = {
    Verdict.PASS: "green",
    Verdict.WRONG: "red",
    Verdict.UNSAFE: "yellow",
    Verdict.CONVENTION: "cyan",
    Verdict.NOT_CLAIMED: "dim",
    Verdict.NOT_ASKED: "magenta",
}


class Line(NamedTuple):
    """A line of the report, and how a terminal shows it, in the words of rich."""

    text: str
    style: str = ""


class Fault(NamedTuple):
    """What is wrong or unsafe in the same words, and what may follow from it."""

    results: tuple[Result, ...]
    effects: tuple[Result, ...]

    def title(self, lang: str) -> str:
        """Its verdict and the names of the properties."""
        first, *others = self.results
        return ", ".join([first.title(lang), *(each.property for each in others)])

    def said(self, lang: str) -> list[str]:
        """The diagnosis, and what may follow from it."""
        names = ", ".join(each.property for each in self.effects)
        more = [FOLLOWING.say(lang, {"names": names})] if names else []
        return [self.results[0].line(lang), *more]


@dataclass(frozen=True)
class Report:
    """The results of a check, and what was checked how.

    In the order of the properties, but for what may follow from another fault: it comes below it.

    ``limit`` is None when the function was asked in the caller's own process. ``overlooked`` are
    options that it takes by another name, it seems, and that were therefore not tested;
    ``reading`` says what was recognised of it, in words and what fills their places. ``defaults``
    are parameters that kept their default values, and ``place`` is the file and the line of its
    definition.

    Examples:
        >>> from attnref import conformance, scaled_dot_product_attention
        >>> report = conformance.check(scaled_dot_product_attention, only=["row_sums"])
        >>> report.passed(), report.failures
        (True, ())
    """

    function: str
    dtype: str
    device: str
    seed: int
    limit: float | None
    results: tuple[Result, ...]
    overlooked: Mapping[str, str] = field(default_factory=dict)
    reading: tuple[tuple[Text, Mapping[str, object]], ...] = ()
    defaults: tuple[str, ...] = ()
    place: tuple[str, int] | None = None

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict is WRONG, except for those that are expected."""
        return tuple(
            each for each in self.results if each.verdict is Verdict.WRONG and not each.expected
        )

    @property
    def causes(self) -> tuple[Result, ...]:
        """What is wrong or unsafe by itself: expected neither, nor following from what is not."""
        bad = [each for each in self.results if is_bad(each.verdict, strict=True)]
        expected = {each.property for each in bad if each.expected}
        return tuple(
            each
            for each in bad
            if not each.expected and (not each.follows or each.follows in expected)
        )

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The causes, the worst first, each with what may follow from it."""
        alike: dict[tuple[bool, str], list[Result]] = {}
        for each in self.causes:
            key = (each.verdict is not Verdict.WRONG, each.line())
            alike.setdefault(key, []).append(each)
        above = {each.property: each.follows for each in self.results if each not in self.causes}

        def root(name: str) -> str:
            return root(above[name] or "") if above.get(name) else name

        found = []
        for _, same in sorted(alike.items(), key=lambda item: item[0][0]):
            names = {each.property for each in same}
            effects = (each for each in self.results if root(each.property) in names)
            found.append(Fault(tuple(same), tuple(each for each in effects if each not in same)))
        return tuple(found)

    @property
    def notes(self) -> tuple[Result, ...]:
        """What is told in a line each: conventions, expectations, the error of an approximation."""
        told = [each for fault in self.faults for each in (*fault.results, *fault.effects)]
        return tuple(
            each
            for each in self.results
            if each not in told
            and (
                each.verdict is Verdict.CONVENTION
                or each.expectation is not None
                or each.finding.text == ERRORS
            )
        )

    @property
    def declined(self) -> tuple[str, ...]:
        """The options that it takes, and of which each property got an error alone."""
        found: dict[str, list[Result]] = {}
        for each in self.results:
            if len(each.rule.needs) == 1:
                found.setdefault(each.rule.needs[0], []).append(each)
        return tuple(
            option
            for option, results in found.items()
            if all(each.verdict is Verdict.NOT_CLAIMED for each in results)
            and any(each.finding.text in (REFUSED, NOT_MADE) for each in results)
        )

    def passed(self, strict: bool = False) -> bool:
        """Whether nothing is wrong; with ``strict``, nothing unsafe either."""
        return not any(each.fails(strict) for each in self.results)

    def heading(self, lang: str = "en") -> str:
        """What was checked how, and how it was read where that is not PyTorch's way."""
        about = {name: getattr(self, name) for name in ("function", "dtype", "device", "seed")}
        read = self.read_as(lang)
        lines = [SETTINGS.say(lang, about)]
        return "\n".join([*lines, READ.say(lang, {"as": read})] if read else lines)

    def read_as(self, lang: str = "en") -> str:
        """Its names, axes and meanings, where they are not PyTorch's."""
        return "; ".join(text.say(lang, values) for text, values in self.reading)

    def verdict(self, lang: str = "en") -> str:
        """The whole in a sentence or two: what is wrong, what to fix first, what was not asked."""
        expected = [each for each in self.results if each.expected]
        outdated = [each for each in self.results if each.outdated]
        besides = any(is_bad(each.verdict, strict=True) for each in expected)
        wrong, unsafe = (
            [each.property for each in self.causes if each.verdict is verdict]
            for verdict in (Verdict.WRONG, Verdict.UNSAFE)
        )
        effects = len(self.failures) - len(wrong)
        if wrong:
            about = {"names": ", ".join(wrong), "count": effects}
            lines = [(FIX_FIRST if effects else WRONG).say(lang, about)]
        elif unsafe:
            about = {"names": ", ".join(unsafe)}
            lines = [(UNSAFE_TOO if besides else UNSAFE).say(lang, about)]
        else:
            lines = [(NO_MORE if besides else ALL_RIGHT).say(lang)]
        for text, told in ((ACCEPTED, expected), (STALE, outdated)):
            if told:
                names = ", ".join(each.property for each in told)
                lines.append(text.say(lang, {"names": names}))
        unasked = [each for each in self.results if each.verdict is Verdict.NOT_ASKED]
        if any(each.finding.text == LATE for each in unasked):
            lines.append(UNFINISHED.say(lang))
        if self.overlooked and any(each.finding.text != LATE for each in unasked):
            lines.append(UNASKED.say(lang, {"options": ", ".join(self.overlooked)}))
        other = [each for each in unasked if each.finding.text == NO_SOFTMAX]
        lines += [each.diagnosis(lang) for each in other[:1]]
        if self.declined:
            lines.append(DECLINED.say(lang, {"options": ", ".join(self.declined)}))
        return " ".join(lines)

    def summary(self, lang: str = "en") -> str:
        """How often each verdict was given."""
        counts = {
            verdict: sum(each.verdict is verdict for each in self.results) for verdict in Verdict
        }
        return ", ".join(
            f"{count} {WORDS[verdict].say(lang)}" for verdict, count in counts.items() if count
        )

    def held(self, lang: str = "en") -> str:
        """How many properties hold, and what was not tested, by the reason."""
        silent = (Verdict.NOT_CLAIMED, Verdict.NOT_ASKED)
        untested = [each for each in self.results if each.verdict in silent]
        lacking = [each.finding for each in untested if each.finding.text == MISSING]
        options = dict.fromkeys(
            x for each in lacking for x in str(each.values["missing"]).split(", ")
        )
        about: dict[str, object] = {"options": ", ".join(options), "count": len(lacking)}
        why = [LACKING.say(lang, about)] if lacking else []
        alike: dict[str, list[str]] = {}
        for each in untested:
            if each.finding.text != MISSING:
                reason = each.diagnosis(lang).removeprefix(UNTESTED.say(lang))
                reason = textwrap.shorten(reason, WIDTH, placeholder=" …")
                alike.setdefault(reason.rstrip("."), []).append(each.property)
        why += [
            f"{', '.join(names)}: {reason}" if len(names) < _MANY else f"{reason} ({len(names)})"
            for reason, names in alike.items()
        ]
        held = sum(each.verdict is Verdict.PASS for each in self.results)
        said = [HELD.say(lang, {"held": held, "all": len(self.results)})]
        about = {"count": len(untested), "why": "; ".join(why)}
        said += [NOT_TESTED.say(lang, about)] if untested else []
        perhaps = {each.finding.values.get("parameter") for each in untested}
        names = ", ".join(each for each in self.defaults if each not in perhaps)
        said += [DEFAULTS.say(lang, {"names": names})] if names else []
        return f"{'; '.join(said)}.".replace("….", "…")

    def lines(
        self, lang: str = "en", *, verbose: bool = False, width: int = WIDTH
    ) -> Iterator[Line]:
        """The report for people: the verdict, what was found, the worst first, and what holds."""

        def wrapped(text: str, style: str = "") -> Iterator[Line]:
            for line in text.splitlines():
                yield from (Line(each, style) for each in textwrap.wrap(line, width) or [""])

        yield from wrapped(self.verdict(lang), "bold")
        yield from wrapped(self.heading(lang), "dim")
        for fault in self.faults:
            first = fault.results[0]
            diagnosis, *more = fault.said(lang)
            yield Line("")
            yield from wrapped(f"{fault.title(lang)}: {diagnosis}", _STYLES[first.verdict])
            yield from wrapped("".join(more))
            yield from map(Line, first.details(lang, self.function))
        yield from [Line("")] * bool(self.notes)
        for each in self.notes:
            style = "dim" if each.expected else _STYLES[each.verdict]
            style = "red" if each.outdated else style
            yield from wrapped(f"{each.title(lang)}: {each.line(lang)}", style)
        yield Line("")
        yield from wrapped(self.held(lang))
        if self.limit is None:
            yield from wrapped(UNPROTECTED.say(lang), "yellow")
        yield from [Line("")] * verbose
        for each in self.results if verbose else ():
            yield from wrapped(f"{each.title(lang)}: {each.line(lang)}", _STYLES[each.verdict])

    def text(self, lang: str = "en", *, verbose: bool = False) -> str:
        """The same in plain text; ``verbose`` lists all properties."""
        return "\n".join(line.text for line in self.lines(lang, verbose=verbose))

    def to_json(self) -> str:
        """The report for machines; diagnoses in all languages, NaN and inf as strings."""
        return dump_json(self.record())

    def record(self) -> dict[str, object]:
        """What :meth:`to_json` writes."""
        return {
            "function": self.function,
            "dtype": self.dtype,
            "device": self.device,
            "seed": self.seed,
            "limit": self.limit,
            "overlooked": dict(self.overlooked),
            "declined": list(self.declined),
            "read_as": {lang: self.read_as(lang) for lang in LANGUAGES},
            "verdict": {lang: self.verdict(lang) for lang in LANGUAGES},
            "passed": self.passed(),
            "passed_strictly": self.passed(strict=True),
            "results": [result.record() for result in self.results],
        }

    def to_junit(self, lang: str = "en", strict: bool = False) -> str:
        """The report as JUnit XML: one test case per property; what is not offered is skipped."""
        return document([self.cases(lang, strict)])

    def cases(self, lang: str = "en", strict: bool = False) -> list[Case]:
        """What :meth:`to_junit` writes."""
        return [result.case(self.function, lang, strict) for result in self.results]


def dump_json(record: object) -> str:
    """In the form of :meth:`Report.to_json`."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
