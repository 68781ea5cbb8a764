"""The command ``attnref check``."""

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text as Line

from attnref.conformance import reports
from attnref.conformance.checker import Told
from attnref.conformance.project import NAME, Project, project
from attnref.conformance.report import WIDTH, Report, dump_json
from attnref.conformance.reports import Answer, Refused
from attnref.conformance.request import Request
from attnref.conformance.settings import SETTINGS, parse
from attnref.conformance.subject import CheckError
from attnref.text import (
    LANGUAGES,
    Text,
    choose_help,
    choose_language,
    one_of,
    preferred_language,
    translate_help,
)

BROKEN = Text(
    "{error}\nThis is not a verdict: the checker could not go on. A function that changes "
    "PyTorch globally, its default device or its tensors, can cause that."
)
FORMATS = ("text", "json", "junit", "github")


def _add_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each setting, in the place of its ``**options``."""
    signature = inspect.signature(command)
    function, *own, _ = signature.parameters.values()
    settings = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                each.typed | None,
                typer.Option(
                    "/".join(each.flags()),
                    help=each.help.say(choose_language(sys.argv, os.environ)),
                ),
            ],
        )
        for each in SETTINGS
    ]
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[function, *settings, *own]
    )
    return command


@_add_settings
@translate_help
def check(
    function: Annotated[
        str | None,
        typer.Argument(
            help=choose_help(
                "module:function or path/to/file.py:function, or a class of layers (default: "
                "those of [tool.attnref.check] in pyproject.toml)."
            ),
            show_default=False,
        ),
    ] = None,
    *,
    lang: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                "One of {languages} (default: the system language).", languages=", ".join(LANGUAGES)
            )
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help=choose_help("Format of the report: {formats}.", formats=", ".join(FORMATS))
        ),
    ] = FORMATS[0],
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help=choose_help("List all properties, those that hold too."),
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=choose_help("Destination file of the report ('-' prints it)."),
        ),
    ] = None,
    **options: Any,
) -> None:
    """Check an attention function by the rules that attnref itself keeps, or a step with a cache.

    Lists are separated by commas, or their option is repeated. What pyproject.toml says of a
    function counts where no option says otherwise. The exit status is 0 when nothing is wrong, 1
    when something is, or is not what the project expects, 2 when the check could not be run.
    """
    asked = preferred_language(os.environ) if lang is None else lang
    lang = asked if asked in LANGUAGES else preferred_language(os.environ)
    try:
        _check_choice("lang", asked, LANGUAGES)
        _check_choice("format", format, FORMATS)
        if output == Path("-"):
            output = None
        if output is not None and (output.is_dir() or not output.parent.is_dir()):
            raise CheckError(
                "output: {output!r} is not a file in an existing folder. Create the folder first, "
                "and name a file in it.",
                output=str(output),
            )
        said = parse(options)
        found = _project(function, said)
        answers = []
        printed = format == "text" and output is None
        for request in found.requests:
            with _progress(request.function, shown=printed and sys.stderr.isatty()) as told:
                ready = request.with_options(said)
                answers.append(answer := _answer(ready, found.folder, told))
            if isinstance(answer.report, Refused):
                about = f"{request.function}: " if function is None else ""
                error = answer.report.error.say(lang)
                print(f"attnref check: {about}{error}", file=sys.stderr)
            elif printed:
                _show(answer.report, lang, verbose=verbose, last=len(found.requests) == 1)
        if function is not None and isinstance(answers[0].report, Refused):
            raise typer.Exit(2)
        if format == "junit":
            _write(reports.to_junit(answers, lang), output)
        elif format == "json":
            one = dump_json(answers[0].report.record())
            _write(reports.to_json(answers) if function is None else one, output)
        elif format == "github" or output is not None:
            notes = reports.to_github(answers, lang) if format == "github" else ()
            _write("\n".join([*notes, reports.text(answers, lang, verbose=verbose)]), output)
        elif len(answers) > 1:
            typer.echo(reports.summary(answers, lang))
    except CheckError as error:
        print(f"attnref check: {error.say(lang)}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(reports.status(answers))


def _project(function: str | None, said: Mapping[str, object]) -> Project:
    """What to ask of the function, or of all; ``said`` are the options beside it."""
    for each in SETTINGS if function is None else ():
        if each.name in said and not each.of_run:
            option = each.spelled
            raise CheckError(
                "{option}: applies to one function only. Name the function, or write {option} in "
                '[tool.attnref.check."module:function"] of {file}.',
                option=option,
                file=NAME,
            )
    return project(function)


def _answer(request: Request, folder: Path, told: Told | None) -> Answer:
    try:
        with contextlib.chdir(folder):
            return Answer(request.report(told), request.settings.strict)
    except CheckError as error:
        return Answer(Refused(request.function, error.text))
    except RuntimeError as error:
        return Answer(Refused(request.function, BROKEN.fill({"error": error})))


@contextlib.contextmanager
def _progress(function: str, *, shown: bool) -> Iterator[Told | None]:
    """A line that says what is being asked; without a thread, which a fork would lose."""
    if not shown:
        yield None
        return
    bar = Progress(
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task(function, total=None)
        bar.refresh()
        yield lambda name, number, count: bar.update(
            task, description=name, completed=number, total=count, refresh=True
        )


def _show(report: Report, lang: str, *, verbose: bool, last: bool) -> None:
    """In colours on a terminal, and a blank line below it where there is more."""
    console = Console()
    width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    for line in report.lines(lang, verbose=verbose, width=width):
        console.print(Line(line.text, line.style), soft_wrap=True)
    if not last:
        console.print()


def _write(text: str, output: Path | None) -> None:
    """In UTF-8, as JSON and XML want it, whatever the terminal's encoding."""
    if output is None:
        typer.echo(text.encode())
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise CheckError(
            "output: cannot write to {output!r}: {reason}. Choose another file.",
            output=str(output),
            reason=error.strerror,
        ) from None


def _check_choice(name: str, got: str, choices: Sequence[str]) -> None:
    if got not in choices:
        raise CheckError(one_of(name, choices, got))
