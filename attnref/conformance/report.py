"""The answer: a result for each property, as an object, as text, as JSON and as JUnit XML."""

import json
from dataclasses import dataclass
from xml.etree import ElementTree

from attnref.conformance.property import Property
from attnref.conformance.text import LANGUAGES, Text
from attnref.conformance.verdict import Counterexample, Finding, Verdict

WORDS = {
    Verdict.PASS: Text(en="pass", pt="passa"),
    Verdict.FAIL: Text(en="fail", pt="falha"),
    Verdict.CAUTION: Text(en="caution", pt="cautela"),
    Verdict.CONVENTION: Text(en="convention", pt="convenção"),
    Verdict.NOT_OFFERED: Text(en="not offered", pt="não oferece"),
}


@dataclass(frozen=True)
class Result:
    """What one property found."""

    rule: Property
    finding: Finding

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict

    @property
    def counterexample(self) -> Counterexample | None:
        """The smallest call found in which the property does not hold."""
        return self.finding.counterexample

    def diagnosis(self, lang: str = "en") -> str:
        """One or two sentences for people; the property's statement when it holds."""
        return self.finding.text.say(lang, self.finding.values)

    @property  # the last one: from here on the name means the property of attention
    def property(self) -> str:
        """The property's name."""
        return self.rule.name


@dataclass(frozen=True)
class Report:
    """The results of a check, in the order of the properties, and what was checked how."""

    function: str
    dtype: str
    device: str
    seed: int
    results: tuple[Result, ...]

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(each for each in self.results if each.verdict is Verdict.FAIL)

    def passed(self, strict: bool = False) -> bool:
        """Whether nothing failed; ``strict`` counts cautions as failures."""
        bad = {Verdict.FAIL, Verdict.CAUTION} if strict else {Verdict.FAIL}
        return not any(each.verdict in bad for each in self.results)

    def counts(self) -> dict[Verdict, int]:
        """How many results have each verdict."""
        return {
            verdict: sum(each.verdict is verdict for each in self.results) for verdict in Verdict
        }
