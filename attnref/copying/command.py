"""The command ``attnref copy``."""

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from attnref.book import page_address
from attnref.copying.assembly import assemble
from attnref.copying.catalogue import catalogue, find, package
from attnref.copying.header import header
from attnref.copying.source import CopyError
from attnref.text import add_portuguese, choose_help, preferred_language


@add_portuguese(
    pt="Escreve uma função, com tudo de que precisa, em um arquivo que só pede o torch."
)
def copy(
    name: Annotated[
        str | None,
        typer.Argument(
            help=choose_help(
                en="What to copy: causal, or softmax.online.",
                pt="O que copiar: causal, ou softmax.online.",
            )
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Argument(
            help=choose_help(
                en="Where to; NAME.py without it, - prints the copy.",
                pt="Para onde; NAME.py sem ele, - imprime a cópia.",
            )
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=choose_help(
                en="Replace an existing file.", pt="Substitui um arquivo que já existe."
            ),
        ),
    ] = False,
    show: Annotated[
        bool,
        typer.Option(
            "--list",
            help=choose_help(
                en="Say what can be copied, with the page of each.",
                pt="Diz o que se pode copiar, com a página de cada um.",
            ),
        ),
    ] = False,
) -> None:
    """Write one function, with all that it needs, into a file that asks for torch alone."""
    try:
        entries = catalogue(package())
        if show:
            width = max(len(entry.name) for entry in entries)
            lines = (
                f"{e.name:{width}}  {e.summary} See {page_address(e.page, 'en')}.\n"
                for e in entries
            )
            typer.echo("".join(lines).encode(), nl=False)
            return
        if name is None:
            raise CopyError(
                en="NAME: expected the function or class to copy, got none. attnref copy --list "
                "names them all.",
                pt="NAME: o esperado era a função ou classe a copiar, e não veio nenhuma. "
                "attnref copy --list mostra todas.",
            )
        entry = find(name, entries)
        text = assemble(entry.definition, header(entry))
        if file == "-":
            typer.echo(text.encode(), nl=False)
            return
        path = Path(file or f"{entry.definition.names[0]}.py")
        if os.path.isdir(path):
            raise CopyError(
                en=f"FILE: expected a file, got the folder {path}. Name the file in it: "
                f"{path / entry.definition.names[0]}.py",
                pt=f"FILE: o esperado era um arquivo, veio a pasta {path}. Indique o arquivo nela: "
                f"{path / entry.definition.names[0]}.py",
            )
        _write(path, text, replace=force)
        typer.echo(f"{path}: {entry.path}")
    except CopyError as error:
        print(f"attnref copy: {error.say(preferred_language(os.environ))}", file=sys.stderr)
        raise typer.Exit(2) from None


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Writes the whole file or none of it, and replaces another only when told to.

    A file that is replaced stays where its link leads and keeps its permissions.
    """
    taken = False
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if not replace:
            path.open("x").close()
            taken = True
        aside.write_bytes(text.encode())
        if replace and target.exists():
            shutil.copymode(target, aside)
        aside.replace(target)
    except FileExistsError:
        raise CopyError(
            en=f"FILE: expected a name that is free, got {path}, which exists. Choose another, or "
            "replace it with --force.",
            pt=f"FILE: o esperado era um nome livre, veio {path}, que já existe. Escolha outro, ou "
            "substitua-o com --force.",
        ) from None
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        if taken:
            path.unlink()
        raise CopyError(
            en=f"FILE: expected a place to write to, got {path}: {error.strerror}. Choose another.",
            pt=f"FILE: o esperado era um lugar em que se possa escrever, veio {path}: "
            f"{error.strerror}. Escolha outro.",
        ) from None
