"""The command ``attnref check``."""

import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attnref.conformance.checker import DTYPES, LIMIT, check_settings, chosen, judge, rules_of
from attnref.conformance.layers import judged, literals
from attnref.conformance.naming import judge_named
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.property import Property
from attnref.conformance.reading import LAYOUTS, MEANINGS, Reading, check_reading
from attnref.conformance.step import SIZES, load_step, step_subject
from attnref.conformance.subject import (
    OPTIONS,
    CheckError,
    Subject,
    listed,
    load,
    paired,
)
from attnref.conformance.table import tables
from attnref.conformance.text import LANGUAGES, preferred

BROKEN = (
    "This is no verdict: the checker could not go on. Functions that change PyTorch for all, its "
    "default device or its tensors, can cause that."
)
_SETTINGS = ("only", "dtype", "device", "seed", "limit")
FORMATS = ("text", "json", "junit")


def check(
    function: Annotated[
        str,
        typer.Argument(
            help="module:function or path/to/file.py:function; or a class of layers.",
            show_default=False,
        ),
    ],
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
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:<number>.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 0,
    limit: Annotated[float, typer.Option(help="Seconds for a property.")] = LIMIT,
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

    Lists are separated by commas. The exit status is 0 when nothing is wrong, 1 when something
    is, 2 when the check could not be run.
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
        renamed, arguments = paired(names or []), literals(given or [])
        step = step or cache is not None
        options = {option: own for option, own in renamed.items() if not step or option != "cache"}
        said = Reading(options, layout, mask_means, causal=always_causal, approximate=approximate)
        check_reading(said)
        rules = rules_of(step)
        ask = functools.partial(
            judge,
            said=said,
            only=_asked(_split(only), _split(skip), rules),
            dtype=dtype,
            device=device,
            seed=seed,
            limit=limit,
        )
        check_settings(**{name: ask.keywords[name] for name in _SETTINGS}, rules=rules)

        def find() -> Subject:
            if step:
                found, makes = load_step(function, cache)
                return step_subject(found, makes, _split(supports), function, renamed)
            return judged(load(function), _split(supports), function, renamed, arguments)

        report = judge_named(function, find, ask, limit)
        if format == "json":
            _write(report.to_json(), output)
        elif format == "junit":
            _write(report.to_junit(lang, strict), output)
        elif output is not None:
            _write(report.text(lang), output)
        else:
            console = Console(width=None if sys.stdout.isatty() else 100)
            for part in tables(report, lang):
                console.print(part)
    except CheckError as error:
        print(f"attnref check: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except RuntimeError as error:
        print(f"attnref check: {error}\n{BROKEN}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(0 if report.passed(strict) else 1)


def _asked(
    only: list[str] | None, skip: list[str] | None, rules: Mapping[str, Property]
) -> list[str] | None:
    """What is left of ``only``, or of all, without ``skip``."""
    if not skip:
        return only
    skipped = chosen(skip, rules)
    return [name for name in chosen(only, rules) if name not in skipped]


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
