"""The command ``attnref copy``."""

import contextlib
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated

import typer

import attnref
from attnref.copying.catalogue import Entry, entries, find, header
from attnref.text import Refusal, Text, choose_help, preferred_language, translate_help

NO_FOLDER = Text(
    "DIR: the folder for the modules of {name} is missing. For example: attnref copy --whole "
    "{name} vendor"
)
NOT_A_FOLDER = Text("DIR: {place} is not a folder. For example: attnref copy --whole {name} vendor")


@translate_help
def copy(
    name: Annotated[
        str | None,
        typer.Argument(help=choose_help("What to copy: blockwise, or with --whole masks.causal.")),
    ] = None,
    place: Annotated[
        str | None,
        typer.Argument(
            help=choose_help(
                "Destination file (default: NAME.py; '-' prints it); with --whole, a folder."
            )
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help=choose_help(
                "The function with every option, with the modules that it needs, as they are."
            ),
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=choose_help("Replace existing files."),
        ),
    ] = False,
    show: Annotated[
        bool,
        typer.Option(
            "--list",
            help=choose_help("List what can be copied: its lines, what it is, what it leaves out."),
        ),
    ] = False,
) -> None:
    """Write a method that fits on one screen into a file that needs torch alone."""
    try:
        if show:
            typer.echo("".join(map(_describe, entries())).encode(), nl=False)
        elif name is None:
            raise Refusal(
                "NAME: the method to copy is missing. attnref copy --list names them all."
            )
        elif whole:
            _copy_whole(name, place, replace=force)
        else:
            _copy_minimal(find(name), place, replace=force)
    except Refusal as error:
        print(f"attnref copy: {error.say(preferred_language(os.environ))}", file=sys.stderr)
        raise typer.Exit(2) from None


def _describe(entry: Entry) -> str:
    text = f"{entry.summary} Left out: {entry.left_out}."
    lines = textwrap.wrap(text, 72)
    first = f"{entry.name:20}{entry.lines:4}  {lines[0]}\n"
    return first + "".join(f"{'':26}{line}\n" for line in lines[1:])


def _copy_minimal(entry: Entry, place: str | None, *, replace: bool) -> None:
    text = header(entry) + entry.text
    if place == "-":
        typer.echo(text.encode(), nl=False)
        return
    path = Path(place or f"{entry.name}.py")
    if os.path.isdir(path):
        raise Refusal(
            "FILE: {path} is a folder. Name the file in it: {file}.py",
            path=path,
            file=path / entry.name,
        )
    _write({path: text}, replace=replace)
    typer.echo(f"{path}: attnref.minimal.{entry.name}")


def _copy_whole(name: str, place: str | None, *, replace: bool) -> None:
    from attnref.copying.whole import needed_files, path_of, read_licence  # loads torch

    module, inside = path_of(name)
    if place is None or os.path.isfile(place) or place == "-":
        raise Refusal(NO_FOLDER if place is None else NOT_A_FOLDER, name=name, place=place)
    files = needed_files(module)
    # Without it, an installed attnref would be found first.
    own = {"attnref/__init__.py": f'"""Modules of attnref {attnref.__version__}, as they are."""\n'}
    texts = {Path(place, one): text for one, text in (own | files).items()}
    texts[Path(place, "attnref", "LICENSE")] = read_licence()
    _write(texts, replace=replace)
    wanted = f"from {module} import {inside}" if inside else f"import {module}"
    lines = sum(text.count("\n") for text in files.values())
    typer.echo(f"{place}: {len(files)} modules, {lines} lines. PYTHONPATH={place}, then {wanted}")


def _write(texts: dict[Path, str], *, replace: bool) -> None:
    """Writes each file whole or not at all, and replaces others only when told to.

    A file that is replaced stays where its link leads and keeps its permissions.
    """
    if not replace:
        for path in texts:
            if os.path.lexists(path):
                raise _taken(path)
    for path, text in texts.items():
        target = Path(os.path.realpath(path))
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            if len(texts) > 1:
                target.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(text.encode())
            if target.exists():
                shutil.copymode(target, aside)
            if replace:
                aside.replace(target)
            else:
                os.link(aside, target)  # unless somebody was faster
                aside.unlink()
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            if isinstance(error, FileExistsError) and not replace:
                raise _taken(path) from None
            raise Refusal(
                "FILE: cannot write to {path}: {reason}. Choose another place.",
                path=path,
                reason=error.strerror,
            ) from None


def _taken(path: Path) -> Refusal:
    return Refusal(
        "FILE: {path} already exists. Choose another name, or replace it with --force.", path=path
    )
