"""What one property found of a function, as an object, as text, for JSON and for JUnit XML."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from attnref.book import page_address
from attnref.conformance.junit import Case
from attnref.conformance.property import Property
from attnref.conformance.verdict import Counterexample, Expectation, Finding, Verdict
from attnref.text import LANGUAGES, Text

WORDS = {
    Verdict.PASS: Text("pass"),
    Verdict.WRONG: Text("wrong"),
    Verdict.UNSAFE: Text("unsafe"),
    Verdict.CONVENTION: Text("convention"),
    Verdict.NOT_CLAIMED: Text("not claimed"),
    Verdict.NOT_ASKED: Text("not tested"),
}
FOLLOWS = Text("may follow from {cause}")
AS_EXPECTED = Text("expected: {reason}")
NOT_EXPECTED = Text("expected: {verdict}, {reason}")
CALL = Text("smallest call found:")
GOT = Text("returned")
EXPECTED = Text("expected")
PAGE = Text("see")

# What a terminal would obey, such as the colours of an error message.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def strip_controls(said: str) -> str:
    """The same without what a terminal would obey."""
    return _CONTROL.sub("?", said)


def is_bad(verdict: Verdict, strict: bool) -> bool:
    """Whether it fails a check, one that is ``strict`` or not."""
    return verdict is Verdict.WRONG or (strict and verdict is Verdict.UNSAFE)


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
    def counterexample(self) -> Counterexample | None:
        """The smallest call found in which the property does not hold."""
        return self.finding.counterexample

    @property
    def expected(self) -> bool:
        """Whether it found what the project says that it finds."""
        return self.expectation is not None and self.expectation.verdict is self.verdict

    @property
    def outdated(self) -> bool:
        """Whether something else was expected."""
        return self.expectation is not None and not self.expected

    def fails(self, strict: bool = False) -> bool:
        """Whether it is wrong, or unsafe if ``strict``, without being expected; or outdated."""
        return self.outdated or (not self.expected and is_bad(self.verdict, strict))

    def title(self, lang: str = "en") -> str:
        """The verdict and the name of the property."""
        return f"{WORDS[self.verdict].say(lang)} · {self.property}"

    def diagnosis(self, lang: str = "en") -> str:
        """One or two sentences for people; the property's statement when it holds."""
        return strip_controls(self.finding.say(lang))

    def line(self, lang: str = "en") -> str:
        """The diagnosis, what it may follow from, and what was expected."""
        said = [self.diagnosis(lang)]
        if self.follows:
            said.append(f"({FOLLOWS.say(lang, {'cause': self.follows})})")
        if self.expectation is not None:
            text = AS_EXPECTED if self.expected else NOT_EXPECTED
            about = {**vars(self.expectation), "verdict": WORDS[self.expectation.verdict]}
            said.append(f"({strip_controls(text.say(lang, about))})")
        return " ".join(said)

    def details(self, lang: str = "en", function: str | None = None) -> list[str]:
        """Lines that name the page of the property, and show the counterexample.

        As a program, where that can be given, if a ``function`` is named.
        """
        example, page = self.counterexample, self.page(lang)
        if example is None:
            return [page]
        shown = [
            CALL.say(lang),
            *(f"  {name} = {_show(value)}" for name, value in example.arguments.items()),
            *(f"  {each}" for each in _answers(example.got, example.expected, lang)),
        ]
        if function is None:
            return [*shown, page]
        if program := example.program(function):
            readable = isinstance(example.printed, list)
            said = ", ".join(_answers(example.printed, example.wanted, lang) * readable)
            shown = [*program.splitlines(), *[f"# {said}"] * bool(said)]
        return [page, "", *shown]

    def page(self, lang: str = "en") -> str:
        """Where the property is explained."""
        return f"{PAGE.say(lang)} {page_address(self.rule.page, lang)}"

    def record(self) -> dict[str, object]:
        """What JSON has of it; diagnoses in all languages, NaN and inf as strings."""
        example, expectation = self.counterexample, self.expectation
        return {
            "property": self.property,
            "verdict": self.verdict.value,
            "follows": self.follows,
            "expected": expectation
            and {"verdict": expectation.verdict.value, "reason": expectation.reason},
            "statement": {lang: self.rule.statement.say(lang) for lang in LANGUAGES},
            "formula": self.rule.formula,
            "page": {lang: page_address(self.rule.page, lang) for lang in LANGUAGES},
            "diagnosis": {lang: self.diagnosis(lang) for lang in LANGUAGES},
            "counterexample": None if example is None else _replace_nonfinite(example.record()),
        }

    def case(self, function: str, lang: str, strict: bool) -> Case:
        """What JUnit XML has of it; what is not offered, or is as expected, is skipped."""
        said = self.line(lang)
        if self.fails(strict):
            kind = WORDS[self.verdict].say(lang)
            details = "\n".join(self.details(lang))
            return Case(function, self.property, "failure", said, kind, details)
        if self.expected or self.verdict in (Verdict.NOT_CLAIMED, Verdict.NOT_ASKED):
            return Case(function, self.property, "skipped", said)
        passed = self.verdict is Verdict.PASS
        return Case(function, self.property, "passed" if passed else "noted", said)

    @property  # the last one: from here on the name means the property of attention
    def property(self) -> str:
        """The property's name."""
        return self.rule.name


def _replace_nonfinite(value: object) -> object:
    """The same with strings for what JSON has no number, and no name, for."""
    if isinstance(value, Mapping):
        return {name: _replace_nonfinite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace_nonfinite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _answers(got: object, expected: object, lang: str) -> list[str]:
    """What was returned and what was expected, in as many digits as tell them apart."""
    digits = next((n for n in range(4, 17) if _show(got, n) != _show(expected, n)), 4)
    both = ((GOT, got), (EXPECTED, expected))
    return [f"{text.say(lang)} {_show(each, digits)}" for text, each in both if each is not None]


def _show(value: object, digits: int = 4) -> str:
    """Nested lists of numbers."""
    if isinstance(value, list):
        return f"[{', '.join(_show(item, digits) for item in value)}]"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
