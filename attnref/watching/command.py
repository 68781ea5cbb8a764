"""The command ``attnref watch``."""

import os
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text as Shown

from attnref.text import (
    LANGUAGES,
    Refusal,
    choose_help,
    one_of,
    preferred_language,
    translate_help,
)
from attnref.watching.seen import Seen
from attnref.watching.table import WIDTH, lines


@translate_help
def watch(
    script: Annotated[
        Path,
        typer.Argument(
            help=choose_help("Python script to run."),
            show_default=False,
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help=choose_help("What the script itself gets."), show_default=False),
    ] = None,
    *,
    judge: Annotated[
        bool, typer.Option(help=choose_help("Judge the calls, in sampled rows."))
    ] = True,
    rows: Annotated[
        int, typer.Option(min=1, help=choose_help("Queries of a call to look at, at most."))
    ] = 32,
    live: Annotated[
        bool, typer.Option("--live", help=choose_help("Show the table while the script runs."))
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help=choose_help("Exit with 1 for what is unsafe, too."))
    ] = False,
    lang: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                "One of {languages} (default: the system language).", languages=", ".join(LANGUAGES)
            )
        ),
    ] = None,
) -> None:
    """Run a script and show what the attention of the models in it does.

    The script runs as it would by itself. What was seen goes to standard error, so that the
    script's own output stays as it is. Options of this command come before the script. The exit
    status is the script's own if that is not 0, 1 when something is wrong, 2 when the script could
    not be run.
    """
    asked = preferred_language(os.environ) if lang is None else lang
    language = asked if asked in LANGUAGES else preferred_language(os.environ)
    try:
        if asked not in LANGUAGES:
            raise Refusal(one_of("lang", LANGUAGES, asked))
        if not script.is_file():
            raise Refusal(
                "script: {script!r} is no file. Name a Python script, and its arguments after it.",
                script=str(script),
            )
    except Refusal as error:
        print(f"attnref watch: {error.say(language)}", file=sys.stderr)
        raise typer.Exit(2) from None
    seen = Seen(judged=judge, rows=rows, live=live)
    status = _run(script, arguments or [], seen)
    console = Console(stderr=True)
    width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    for line in lines(seen, language, width, times=True):
        console.print(Shown(line.text, line.style), soft_wrap=True)
    raise typer.Exit(status or (0 if seen.passed(strict) else 1))


def _run(script: Path, arguments: list[str], seen: Seen) -> int:
    """Its exit status; what it raises is shown as Python does, and what was seen is kept."""
    before = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with seen:
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # what was seen until then is shown
        return 130
    except Exception:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


# What follows the script is its own, options too.
watch.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]
