"""The answers of one run about several functions, together as text, as JSON and as JUnit XML."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnref.conformance.junit import Case, document
from attnref.conformance.report import Report, dump_json
from attnref.text import Text

NONE_FAIL = Text(en="{count} functions, none fails.", pt="{count} funções, nenhuma falha.")
SOME_FAIL = Text(en="{count} functions; failing: {names}.", pt="{count} funções; falham: {names}.")
SOME_NOT = Text(en="Could not be checked: {names}.", pt="Sem verificação: {names}.")


@dataclass(frozen=True)
class Refused:
    """A function that could not be checked, and why."""

    function: str
    error: Text

    def text(self, lang: str) -> str:
        """As a report of it would begin."""
        return f"{self.function}\n{SOME_NOT.say(lang, {'names': self.error})}"

    def record(self) -> dict[str, object]:
        """What there is to say for JSON."""
        return {"function": self.function, "error": str(self.error), "passed": False}


@dataclass(frozen=True)
class Answer:
    """What was found of a function, and whether it is judged strictly."""

    report: Report | Refused
    strict: bool = False

    @property
    def status(self) -> int:
        """0 when nothing fails, 1 when something does, 2 when it could not be checked."""
        if isinstance(self.report, Refused):
            return 2
        return 0 if self.report.passed(self.strict) else 1


def status(answers: Sequence[Answer]) -> int:
    """The exit status of the run, the worst of them."""
    return max(each.status for each in answers)


def summary(answers: Sequence[Answer], lang: str) -> str:
    """Which functions fail, in a line."""
    failing, refused = (
        ", ".join(each.report.function for each in answers if each.status == status)
        for status in (1, 2)
    )
    said = []
    if failing:
        said.append(SOME_FAIL.say(lang, {"count": len(answers), "names": failing}))
    if refused:
        said.append(SOME_NOT.say(lang, {"names": refused}))
    return " ".join(said) or NONE_FAIL.say(lang, {"count": len(answers)})


def text(answers: Sequence[Answer], lang: str) -> str:
    """The reports for people, in plain text; the summary of several."""
    parts = [each.report.text(lang) for each in answers]
    return "\n\n".join([*parts, summary(answers, lang)] if len(parts) > 1 else parts)


def to_json(answers: Sequence[Answer]) -> str:
    """A list of what is written of each, which for one that could not be checked is why."""
    return dump_json([each.report.record() for each in answers])


def to_junit(answers: Sequence[Answer], lang: str) -> str:
    """A suite for each function; one that could not be checked is an error of its loading."""
    return document([_cases(each, lang) for each in answers])


def _cases(answer: Answer, lang: str) -> list[Case]:
    report = answer.report
    if isinstance(report, Refused):
        error = report.error.say(lang)
        return [Case(report.function, "attnref", "error", error, "CheckError")]
    return report.cases(lang, answer.strict)
