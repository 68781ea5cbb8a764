"""A report as a table for a terminal."""

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Line

from attnref.conformance.report import Report
from attnref.conformance.result import WORDS
from attnref.conformance.verdict import Verdict

_STYLES = {
    Verdict.PASS: "green",
    Verdict.WRONG: "bold red",
    Verdict.UNSAFE: "yellow",
    Verdict.CONVENTION: "cyan",
    Verdict.NOT_CLAIMED: "dim",
    Verdict.NOT_ASKED: "magenta",
}


def tables(report: Report, lang: str) -> Iterator[RenderableType]:
    """A line for each property; a counterexample for the first of each failure; the summary."""
    yield Line(report.verdict(lang), "bold")
    table = Table(title=report.heading(lang), title_justify="left", box=SIMPLE, show_header=False)
    for result, name, line in report.rows(lang):
        style = "dim" if result.expected else _STYLES[result.verdict]
        style = "bold red" if result.outdated else style
        table.add_row(
            Line(WORDS[result.verdict].say(lang), style),
            Line(name, no_wrap=True),
            Line(line),
        )
    yield table
    for result in report.explained:
        yield Line(result.property, _STYLES[result.verdict])
        yield Padding(Line("\n".join(result.details(lang))), (0, 0, 1, 2))
    yield Line(report.summary(lang))
