"""The command ``attnref check``."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from attnref.conformance import reports
from attnref.conformance.checker import DTYPES, LIMIT
from attnref.conformance.layers import literals
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.meanings import MEANINGS
from attnref.conformance.project import NAME, Project, alone, project
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.report import Report, as_json
from attnref.conformance.reports import Answer, Refused
from attnref.conformance.request import Request
from attnref.conformance.signatures import OPTIONS
from attnref.conformance.step import SIZES
from attnref.conformance.subject import CheckError, listed, paired
from attnref.conformance.table import tables
from attnref.conformance.text import LANGUAGES, preferred

BROKEN = (
    "This is no verdict: the checker could not go on. Functions that change PyTorch for all, its "
    "default device or its tensors, can cause that."
)
# What is said for all functions of a project at once.
_OF_ALL = ("strict", "device", "seed", "limit")
FORMATS = ("text", "json", "junit")


def check(
    function: Annotated[
        str | None,
        typer.Argument(
            help="module:function or path/to/file.py:function; or a class of layers. Without it: "
            "those of [tool.attnref.check] in pyproject.toml.",
            show_default=False,
        ),
    ] = None,
    supports: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Options that it takes, if not those of its signature: {', '.join(OPTIONS)}."
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="attn_mask=mask: the function's own name of an option; may be repeated."
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(help=f"Axes of its tensors: {', '.join(LAYOUTS)}. Without it: recognised."),
    ] = None,
    mask_means: Annotated[
        str | None,
        typer.Option(help=f"What its mask says: {', '.join(MEANINGS)}. Without it: recognised."),
    ] = None,
    always_causal: Annotated[
        bool | None,
        typer.Option(
            "--always-causal/--not-always-causal",
            help="That it cannot be asked without causality. Without it: recognised.",
        ),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="It promises no formula: its error is told.")
    ] = False,
    step: Annotated[
        bool,
        typer.Option(
            "--step", help="It is a decoding step, step(query, key, value, cache): output, cache."
        ),
    ] = False,
    cache: Annotated[
        str | None,
        typer.Option(
            help="module:function that makes a step's first cache, if that is not None; it is "
            f"given what it takes among {', '.join(SIZES)}. Implies --step.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="block_size=256: what a layer needs beside widths and heads; may be repeated.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Properties: {', '.join(PROPERTIES)}; of a step also "
            f"{', '.join(name for name in STEP_PROPERTIES if name not in PROPERTIES)}."
        ),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Properties that are not asked.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="What is unsafe fails, too.")] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(DTYPES)}; without it: {DTYPES[0]}, or the half that it takes."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:<number>; without it: cpu.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random numbers; without it: 0.")] = None,
    limit: Annotated[
        float | None, typer.Option(help=f"Seconds for a property; without it: {LIMIT:g}.")
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(help=f"{' or '.join(LANGUAGES)}; without it, the language of the locale."),
    ] = None,
    format: Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")] = FORMATS[0],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the report; - prints it.")
    ] = None,
) -> None:
    """Judge an attention function by the rules that attnref itself keeps, or a step with a cache.

    Lists are separated by commas. What pyproject.toml says of a function counts where no option
    says otherwise. The exit status is 0 when nothing is wrong, 1 when something is, or is not what
    the project expects, 2 when the check could not be run.
    """
    lang = preferred(os.environ) if lang is None else lang
    try:
        _check_choice("lang", lang, LANGUAGES)
        _check_choice("format", format, FORMATS)
        if output == Path("-"):
            output = None
        if output is not None and (output.is_dir() or not output.parent.is_dir()):
            raise CheckError(
                f"output: expected a file in an existing folder, got {str(output)!r}. Make the "
                "folder first, and name a file in it."
            )
        options: dict[str, Any] = {
            "supports": _split(supports),
            "names": names and paired(names),
            "layout": layout,
            "mask_means": mask_means,
            "always_causal": always_causal,
            "approximate": approximate or None,
            "step": step or None,
            "cache": cache,
            "given": given and literals(given),
            "only": _split(only),
            "skip": _split(skip),
            "strict": strict or None,
            "dtype": dtype,
            "device": device,
            "seed": seed,
            "limit": limit,
        }
        said = {name: value for name, value in options.items() if value is not None}
        ours = _project(function, said, lang)
        answers = []
        for request in ours.requests:
            answers.append(answer := _answer(replace(request, **said), ours.folder))
            if isinstance(answer.report, Refused):
                about = f"{request.function}: " if function is None else ""
                print(f"attnref check: {about}{answer.report.error}", file=sys.stderr)
            elif format == "text" and output is None:
                _show(answer.report, lang, last=len(ours.requests) == 1)
        if function is not None and isinstance(answers[0].report, Refused):
            raise typer.Exit(2)
        if format == "junit":
            _write(reports.to_junit(answers, lang), output)
        elif format == "json":
            one = as_json(answers[0].report.record())
            _write(reports.to_json(answers) if function is None else one, output)
        elif output is not None:
            _write(reports.text(answers, lang), output)
        elif len(answers) > 1:
            typer.echo(reports.summary(answers, lang))
    except CheckError as error:
        print(f"attnref check: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(reports.status(answers))


def _project(function: str | None, said: Mapping[str, object], lang: str) -> Project:
    """What to ask of the function, or of all; ``said`` are the options beside it."""
    if function is not None:
        return alone(function, lang)
    for name in said:
        if name not in _OF_ALL:
            option = {"names": "map", "given": "with"}.get(name, name).replace("_", "-")
            raise CheckError(
                f"{option}: expected a function beside it, for it is about one. Name it, or write "
                f'{option} in [tool.attnref.check."module:function"] of {NAME}.'
            )
    return project(lang)


def _answer(request: Request, folder: Path) -> Answer:
    try:
        with contextlib.chdir(folder):
            return Answer(request.report(), request.strict)
    except CheckError as error:
        return Answer(Refused(request.function, str(error)))
    except RuntimeError as error:
        return Answer(Refused(request.function, f"{error}\n{BROKEN}"))


def _show(report: Report, lang: str, *, last: bool) -> None:
    """As a table, and a blank line below it where there is more."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    for part in tables(report, lang):
        console.print(part)
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
            f"output: expected a file to write to, got {str(output)!r}: {error.strerror}. Choose "
            "another."
        ) from None


def _split(names: list[str] | None) -> list[str] | None:
    """One list of what was given by several options, or by one with commas."""
    if names is None:
        return None
    return [name for each in names for name in listed(each)]


def _check_choice(name: str, got: str, choices: Sequence[str]) -> None:
    if got not in choices:
        raise CheckError(f"{name}: expected one of {', '.join(choices)}, got {got!r}.")
