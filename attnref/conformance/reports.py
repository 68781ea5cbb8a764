"""The answers of one run about several functions, together as text, as JSON and as JUnit XML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnref.conformance.junit import Case, document
from attnref.conformance.report import Report, dump_json
from attnref.text import Text

NONE_FAIL = Text("{count} functions, none fails.")
SOME_FAIL = Text("{count} functions; failing: {names}.")
SOME_NOT = Text("Could not be checked: {names}.")
_MESSAGE = "%\r\n"  # what ends a message of a command,
_PROPERTY = f"{_MESSAGE}:,"  # and a property of it


@dataclass(frozen=True)
class Refused:
    """A function that could not be checked, and why."""

    function: str
    error: Text

    def text(self, lang: str, *, verbose: bool = False) -> str:
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


def text(answers: Sequence[Answer], lang: str, *, verbose: bool = False) -> str:
    """The reports for people, in plain text; the summary of several."""
    parts = [each.report.text(lang, verbose=verbose) for each in answers]
    return "\n\n".join([*parts, summary(answers, lang)] if len(parts) > 1 else parts)


def to_json(answers: Sequence[Answer]) -> str:
    """A list of what is written of each, which for one that could not be checked is why."""
    return dump_json([each.report.record() for each in answers])


def to_github(answers: Sequence[Answer], lang: str) -> list[str]:
    """Lines that annotate a pull request on GitHub, at the definition of each function."""
    return [line for answer in answers for line in _annotations(answer, lang)]


def _annotations(answer: Answer, lang: str) -> Iterator[str]:
    """An error for what fails, a warning for what is unsafe, and a notice for a convention."""
    report, place = answer.report, {}
    if isinstance(report, Refused):
        yield _annotate("error", {"title": report.function}, report.error.say(lang))
        return
    if report.place is not None and Path(report.place[0]).is_relative_to(Path.cwd()):
        file, line = report.place
        place = {"file": str(Path(file).relative_to(Path.cwd())), "line": str(line)}
    for fault in report.faults:
        first = fault.results[0]
        said = "\n".join([*fault.said(lang), first.page(lang)])
        kind = "error" if first.fails(answer.strict) else "warning"
        yield _annotate(kind, {**place, "title": fault.title(lang)}, said)
    for each in report.notes:
        if not each.expected:
            kind = "error" if each.outdated else "notice"
            yield _annotate(kind, {**place, "title": each.title(lang)}, each.line(lang))


def _annotate(kind: str, about: Mapping[str, str], message: str) -> str:
    """A command of a GitHub workflow."""
    properties = ",".join(f"{name}={_escape(each, _PROPERTY)}" for name, each in about.items())
    return f"::{kind} {properties}::{_escape(message, _MESSAGE)}"


def _escape(text: str, signs: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in signs else each for each in text)


def to_junit(answers: Sequence[Answer], lang: str) -> str:
    """A suite for each function; one that could not be checked is an error of its loading."""
    return document([_cases(each, lang) for each in answers])


def _cases(answer: Answer, lang: str) -> list[Case]:
    report = answer.report
    if isinstance(report, Refused):
        error = report.error.say(lang)
        return [Case(report.function, "attnref", "error", error, "CheckError")]
    return report.cases(lang, answer.strict)
