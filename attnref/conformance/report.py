"""The answer: a result for each property, as an object, as text, as JSON and as JUnit XML."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from attnref.book import where
from attnref.conformance.examination import NOT_MADE, REFUSED
from attnref.conformance.property import Property
from attnref.conformance.text import LANGUAGES, Text
from attnref.conformance.verdict import Counterexample, Expectation, Finding, Verdict

WORDS = {
    Verdict.PASS: Text(en="pass", pt="passa"),
    Verdict.WRONG: Text(en="wrong", pt="errado"),
    Verdict.UNSAFE: Text(en="unsafe", pt="inseguro"),
    Verdict.CONVENTION: Text(en="convention", pt="convenção"),
    Verdict.NOT_CLAIMED: Text(en="not claimed", pt="não promete"),
    Verdict.NOT_ASKED: Text(en="not asked", pt="não perguntado"),
}
SETTINGS = Text(
    en="{function} · {dtype} · {device} · seed {seed}",
    pt="{function} · {dtype} · {device} · semente {seed}",
)
READ = Text(en="read as: {as}", pt="lida assim: {as}")
UNPROTECTED = Text(
    en="Asked in this very process: nothing would have stopped a call that hangs or crashes.",
    pt="Perguntado neste mesmo processo: nada teria parado uma chamada que trava ou o derruba.",
)
OVERLOOKED = Text(
    en="No {option} was tested: it takes {parameter}. If they mean the same: --map "
    "{option}={parameter}",
    pt="Nenhum {option} foi testado: ela recebe {parameter}. Se querem dizer o mesmo: --map "
    "{option}={parameter}",
)
FOLLOWS = Text(en="may follow from {cause}", pt="pode vir de {cause}")
ALL_RIGHT = Text(en="Right in all that was asked.", pt="Certa em tudo o que se perguntou.")
UNSAFE = Text(
    en="Right where inputs are tame; unsafe in {names}.",
    pt="Certa onde as entradas são mansas; insegura em {names}.",
)
WRONG = Text(en="Wrong in {names}.", pt="Errada em {names}.")
FIX_FIRST = Text(
    en="Wrong in {names}. Fix that first: {count} more may follow from it.",
    pt="Errada em {names}. Conserte isso primeiro: {count} a mais podem vir daí.",
)
UNASKED = Text(
    en="Not asked: {options}, which it may take by another name.",
    pt="Não perguntado: {options}, que ela talvez receba com outro nome.",
)
DECLINED = Text(
    en="Not taken: {options}; each call with it raised an error.",
    pt="Não aceito: {options}; cada chamada com ele lançou um erro.",
)
AS_EXPECTED = Text(en="expected: {reason}", pt="esperado: {reason}")
NOT_EXPECTED = Text(
    en="expected: {level}, {reason}",
    pt="esperado: {level}, {reason}",
)
ACCEPTED = Text(en="As expected: {names}.", pt="Como esperado: {names}.")
STALE = Text(
    en="No longer as expected: {names}. Bring expect up to date.",
    pt="Já não como esperado: {names}. Atualize expect.",
)
CALL = Text(en="smallest call found:", pt="menor chamada encontrada:")
GOT = Text(en="returned", pt="devolveu")
EXPECTED = Text(en="expected", pt="esperado")
PAGE = Text(en="see", pt="veja")

# What a terminal would obey, such as the colours of an error message.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What XML 1.0 cannot hold, such as half of a pair of surrogates.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(said: str) -> str:
    """The same without what a terminal would obey."""
    return _CONTROL.sub("?", said)


@dataclass(frozen=True)
class Result:
    """What one property found.

    Examples:
        >>> from attnref import conformance, scaled_dot_product_attention
        >>> (result,) = conformance.check(scaled_dot_product_attention, only=["row_sums"]).results
        >>> result.verdict.name
        'PASS'
    """

    rule: Property
    finding: Finding
    follows: str | None = None  # the property whose failure this one may follow from
    expectation: Expectation | None = None  # what the project says that it finds

    @property
    def verdict(self) -> Verdict:
        """One of the six answers."""
        return self.finding.verdict

    @property
    def expected(self) -> bool:
        """Whether it found what the project says that it finds."""
        return self.expectation is not None and self.expectation.verdict is self.verdict

    def fails(self, strict: bool = False) -> bool:
        """Whether it is wrong, or unsafe if ``strict``; or not what was expected."""
        if self.expectation is not None:
            return not self.expected
        return self.verdict is Verdict.WRONG or (strict and self.verdict is Verdict.UNSAFE)

    @property
    def counterexample(self) -> Counterexample | None:
        """The smallest call found in which the property does not hold."""
        return self.finding.counterexample

    def diagnosis(self, lang: str = "en") -> str:
        """One or two sentences for people; the property's statement when it holds."""
        return printable(self.finding.text.say(lang, self.finding.values))

    def line(self, lang: str = "en") -> str:
        """The diagnosis, what it may follow from, and what was expected."""
        notes = [FOLLOWS.say(lang, {"cause": self.follows})] if self.follows else []
        if self.expectation is not None:
            values = {"level": WORDS[self.expectation.verdict], "reason": self.expectation.reason}
            notes.append((AS_EXPECTED if self.expected else NOT_EXPECTED).say(lang, values))
        return " ".join([self.diagnosis(lang), *(f"({printable(note)})" for note in notes)])

    def details(self, lang: str = "en") -> list[str]:
        """Lines that show the counterexample and name the page that explains the property."""
        lines = []
        if self.counterexample is not None:
            lines.append(CALL.say(lang))
            lines += [
                f"  {name} = {_show(value)}"
                for name, value in self.counterexample.arguments.items()
            ]
            for text, shown in (
                (GOT, self.counterexample.got),
                (EXPECTED, self.counterexample.expected),
            ):
                if shown is not None:
                    lines.append(f"  {text.say(lang)} {_show(shown)}")
        return [*lines, f"{PAGE.say(lang)} {where(self.rule.page, lang)}"]

    @property  # the last one: from here on the name means the property of attention
    def property(self) -> str:
        """The property's name."""
        return self.rule.name


@dataclass(frozen=True)
class Report:
    """The results of a check, and what was checked how.

    In the order of the properties, but for what may follow from another fault: it comes below it.

    ``limit`` is None when the function was asked in the caller's own process. ``overlooked`` are
    options that it takes by another name, it seems, and that were therefore not tested;
    ``reading`` says what was recognised of it, in words and what fills their places.

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

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict is WRONG."""
        return tuple(each for each in self.results if each.verdict is Verdict.WRONG)

    @property
    def explained(self) -> tuple[Result, ...]:
        """What is wrong or unsafe by itself, of whose kind it is the first: its call is shown."""
        bad = [
            each
            for each in self.results
            if each.verdict in (Verdict.WRONG, Verdict.UNSAFE)
            and not (each.follows or each.expected)
        ]
        first = {each.diagnosis(): each for each in reversed(bad)}
        return tuple(each for each in bad if first[each.diagnosis()] is each)

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
        named = {
            verdict: [
                each for each in self.results if each.verdict is verdict and not each.expected
            ]
            for verdict in Verdict
        }
        causes = named[Verdict.WRONG]
        own = ", ".join(each.property for each in causes if not each.follows)
        effects = sum(each.follows is not None for each in causes)
        unsafe = ", ".join(each.property for each in named[Verdict.UNSAFE] if not each.follows)
        if own:
            lines = [(FIX_FIRST if effects else WRONG).say(lang, {"names": own, "count": effects})]
        else:
            lines = [(UNSAFE if unsafe else ALL_RIGHT).say(lang, {"names": unsafe})]
        if named[Verdict.NOT_ASKED]:
            lines.append(UNASKED.say(lang, {"options": ", ".join(self.overlooked)}))
        if self.declined:
            lines.append(DECLINED.say(lang, {"options": ", ".join(self.declined)}))
        said = [each for each in self.results if each.expectation is not None]
        for text, told in ((ACCEPTED, True), (STALE, False)):
            names = ", ".join(each.property for each in said if each.expected is told)
            lines += [text.say(lang, {"names": names})] if names else []
        return " ".join(lines)

    def summary(self, lang: str = "en") -> str:
        """How often each verdict was given, what was overlooked, and whether it ran unprotected."""
        counts = {
            verdict: sum(each.verdict is verdict for each in self.results) for verdict in Verdict
        }
        line = ", ".join(
            f"{count} {WORDS[verdict].say(lang)}" for verdict, count in counts.items() if count
        )
        lines = [
            line,
            *(
                OVERLOOKED.say(lang, {"option": option, "parameter": parameter})
                for option, parameter in self.overlooked.items()
            ),
        ]
        return "\n".join(lines if self.limit is not None else [*lines, UNPROTECTED.say(lang)])

    def text(self, lang: str = "en") -> str:
        """The report for people, in plain text."""
        lines = [self.heading(lang), self.verdict(lang), ""]
        for result in self.results:
            word = WORDS[result.verdict].say(lang)
            lines.append(f"{word:<12} {result.property}: {result.line(lang)}")
            if result in self.explained:
                lines += [f"{'':<12} {line}" for line in result.details(lang)]
        return "\n".join([*lines, "", self.summary(lang)])

    def to_json(self) -> str:
        """The report for machines; diagnoses in all languages, NaN and inf as strings."""
        record = {
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
            "results": [_record(result) for result in self.results],
        }
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)

    def to_junit(self, lang: str = "en", strict: bool = False) -> str:
        """The report as JUnit XML: one test case per property; what is not offered is skipped."""
        return to_junit([self], lang, [strict])


def to_junit(reports: Sequence[Report], lang: str, strict: Sequence[bool]) -> str:
    """Reports as JUnit XML: a test suite for each, in the order of the functions."""
    suites = ElementTree.Element("testsuites")
    total: Counter[str] = Counter()
    for report, strictly in zip(reports, strict, strict=True):
        counts = _add_suite(suites, report, lang, strictly)
        total.update(counts)
    for name, count in total.items():
        suites.set(name, str(count))
    # What is declared is UTF-8, whatever the encoding of the machine.
    xml: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return xml.decode()


def _add_suite(
    suites: ElementTree.Element, report: Report, lang: str, strict: bool
) -> dict[str, int]:
    unasked = (Verdict.NOT_CLAIMED, Verdict.NOT_ASKED)
    bad = [result.fails(strict) for result in report.results]
    skipped = [
        not fails and (result.verdict in unasked or result.expected)
        for result, fails in zip(report.results, bad, strict=True)
    ]
    counts = {"tests": len(bad), "failures": sum(bad), "skipped": sum(skipped)}
    named = {"name": "attnref check", **{name: str(count) for name, count in counts.items()}}
    suite = ElementTree.SubElement(suites, "testsuite", named)
    for result, is_bad, is_skipped in zip(report.results, bad, skipped, strict=True):
        about = {"classname": _xml(report.function), "name": result.property}
        case = ElementTree.SubElement(suite, "testcase", about)
        diagnosis = _xml(result.line(lang))
        if is_bad:
            kind = WORDS[result.verdict].say(lang)
            failure = ElementTree.SubElement(case, "failure", message=diagnosis, type=kind)
            failure.text = _xml("\n".join(result.details(lang)))
        elif is_skipped:
            ElementTree.SubElement(case, "skipped", message=diagnosis)
        elif result.verdict is not Verdict.PASS:
            ElementTree.SubElement(case, "system-out").text = diagnosis
    return counts


def _record(result: Result) -> dict[str, object]:
    example, expectation = result.counterexample, result.expectation
    return {
        "property": result.property,
        "verdict": result.verdict.value,
        "follows": result.follows,
        "expected": expectation
        and {
            "verdict": expectation.verdict.value,
            "reason": expectation.reason,
        },
        "statement": {lang: result.rule.statement.say(lang) for lang in LANGUAGES},
        "formula": result.rule.formula,
        "page": {lang: where(result.rule.page, lang) for lang in LANGUAGES},
        "diagnosis": {lang: result.diagnosis(lang) for lang in LANGUAGES},
        "counterexample": None if example is None else _finite(vars(example)),
    }


def _finite(value: object) -> object:
    """The same with strings for what JSON has no number, and no name, for."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _show(value: object) -> str:
    """Nested lists of numbers with four digits each."""
    if isinstance(value, list):
        return f"[{', '.join(_show(item) for item in value)}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
