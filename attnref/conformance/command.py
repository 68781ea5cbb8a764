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
from attnref.conformance.project import NAME, Project, function_project, project
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.report import Report, dump_json
from attnref.conformance.reports import Answer, Refused
from attnref.conformance.request import Request
from attnref.conformance.signatures import OPTIONS
from attnref.conformance.step import SIZES
from attnref.conformance.subject import CheckError, parse_pairs, split_list
from attnref.conformance.table import tables
from attnref.text import LANGUAGES, Text, add_portuguese, choose_help, one_of, preferred_language

BROKEN = Text(
    en="{error}\nThis is not a verdict: the checker could not go on. A function that changes "
    "PyTorch globally, its default device or its tensors, can cause that.",
    pt="{error}\nIsto não é um veredito: o verificador não pôde continuar. Uma função que altera "
    "o PyTorch globalmente, o dispositivo padrão ou os tensores, pode causar isso.",
)
_OF_STEPS = [name for name in STEP_PROPERTIES if name not in PROPERTIES]
# What is said for all functions of a project at once.
_OF_ALL = ("strict", "device", "seed", "limit")
FORMATS = ("text", "json", "junit")


@add_portuguese(
    pt="""Verifica uma função de atenção pelas regras do próprio attnref, ou um passo com cache.

    As listas são separadas por vírgulas. O que o pyproject.toml diz de uma função vale, se
    nenhuma opção disser outra coisa. O código de saída é 0 quando não há erro, 1 quando há, ou
    quando o resultado não é o que o projeto espera, 2 quando a verificação não pôde ser feita.
    """
)
def check(
    function: Annotated[
        str | None,
        typer.Argument(
            help=choose_help(
                en="module:function or path/to/file.py:function, or a class of layers (default: "
                "those of [tool.attnref.check] in pyproject.toml).",
                pt="módulo:função ou caminho/do/arquivo.py:função, ou uma classe de camadas "
                "(padrão: as de [tool.attnref.check] no pyproject.toml).",
            ),
            show_default=False,
        ),
    ] = None,
    supports: Annotated[
        list[str] | None,
        typer.Option(
            help=choose_help(
                en="Options that it accepts (default: those of its signature): "
                f"{', '.join(OPTIONS)}.",
                pt=f"Opções que ela aceita (padrão: as da assinatura): {', '.join(OPTIONS)}.",
            )
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help=choose_help(
                en="attn_mask=mask: the function's own name for an option. Can be repeated.",
                pt="attn_mask=mask: o nome que a função dá a uma opção. Pode ser repetida.",
            ),
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en=f"Axes of its tensors: {', '.join(LAYOUTS)} (default: recognised).",
                pt=f"Eixos dos tensores: {', '.join(LAYOUTS)} (padrão: reconhecidos).",
            )
        ),
    ] = None,
    mask_means: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en=f"Meaning of its mask: {', '.join(MEANINGS)} (default: recognised).",
                pt=f"Significado da máscara: {', '.join(MEANINGS)} (padrão: reconhecido).",
            )
        ),
    ] = None,
    always_causal: Annotated[
        bool | None,
        typer.Option(
            "--always-causal/--not-always-causal",
            help=choose_help(
                en="The function is always causal, or not (default: recognised).",
                pt="A função é sempre causal, ou não (padrão: reconhecido).",
            ),
        ),
    ] = None,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate",
            help=choose_help(
                en="The function is approximate: report its error instead of failing.",
                pt="A função é aproximada: informa o erro, em vez de reprovar.",
            ),
        ),
    ] = False,
    step: Annotated[
        bool,
        typer.Option(
            "--step",
            help=choose_help(
                en="The function is a decoding step, step(query, key, value, cache): output, "
                "cache.",
                pt="A função é um passo de decodificação, step(query, key, value, cache): output, "
                "cache.",
            ),
        ),
    ] = False,
    cache: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en="module:function that makes a step's first cache, if that is not None; it "
                f"receives what it asks for among {', '.join(SIZES)}. Implies --step.",
                pt="módulo:função que cria o primeiro cache de um passo, se não for None; recebe o "
                f"que pede entre {', '.join(SIZES)}. Implica --step.",
            )
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help=choose_help(
                en="block_size=256: an argument that a layer needs besides width and heads. Can "
                "be repeated.",
                pt="block_size=256: um argumento de que a camada precisa além da largura e das "
                "cabeças. Pode ser repetida.",
            ),
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=choose_help(
                en=f"Properties to test: {', '.join(PROPERTIES)}; for a step also "
                f"{', '.join(_OF_STEPS)}.",
                pt=f"Propriedades a testar: {', '.join(PROPERTIES)}; num passo, também "
                f"{', '.join(_OF_STEPS)}.",
            )
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help=choose_help(en="Properties not to test.", pt="Propriedades a não testar.")
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help=choose_help(en="Treat unsafe as a failure.", pt="Considera inseguro como falha."),
        ),
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en=f"One of {', '.join(DTYPES)} (default: {DTYPES[0]}, or the half precision that "
                "the function accepts).",
                pt=f"Um entre {', '.join(DTYPES)} (padrão: {DTYPES[0]}, ou a meia precisão que a "
                "função aceita).",
            )
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en="cpu, cuda or cuda:<number> (default: cpu).",
                pt="cpu, cuda ou cuda:<número> (padrão: cpu).",
            )
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help=choose_help(
                en="Random seed (default: 0).",
                pt="Semente dos números aleatórios (padrão: 0).",
            )
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            help=choose_help(
                en=f"Seconds per property (default: {LIMIT:g}).",
                pt=f"Segundos por propriedade (padrão: {LIMIT:g}).",
            )
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            help=choose_help(
                en=f"One of {', '.join(LANGUAGES)} (default: the system language).",
                pt=f"Um entre {', '.join(LANGUAGES)} (padrão: o idioma do sistema).",
            )
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help=choose_help(
                en=f"Format of the report: {', '.join(FORMATS)}.",
                pt=f"Formato do relatório: {', '.join(FORMATS)}.",
            )
        ),
    ] = FORMATS[0],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=choose_help(
                en="Destination file of the report ('-' prints it).",
                pt="Arquivo de destino do relatório ('-' o imprime).",
            ),
        ),
    ] = None,
) -> None:
    """Check an attention function by the rules that attnref itself keeps, or a step with a cache.

    Lists are separated by commas. What pyproject.toml says of a function counts where no option
    says otherwise. The exit status is 0 when nothing is wrong, 1 when something is, or is not what
    the project expects, 2 when the check could not be run.
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
                en=f"output: {str(output)!r} is not a file in an existing folder. Create the "
                "folder first, and name a file in it.",
                pt=f"output: {str(output)!r} não é um arquivo numa pasta que exista. Crie a pasta "
                "antes, e indique um arquivo nela.",
            )
        options: dict[str, Any] = {
            "supports": _split(supports),
            "names": names and parse_pairs(names),
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
        found = _project(function, said)
        answers = []
        for request in found.requests:
            answers.append(answer := _answer(replace(request, **said), found.folder))
            if isinstance(answer.report, Refused):
                about = f"{request.function}: " if function is None else ""
                error = answer.report.error.say(lang)
                print(f"attnref check: {about}{error}", file=sys.stderr)
            elif format == "text" and output is None:
                _show(answer.report, lang, last=len(found.requests) == 1)
        if function is not None and isinstance(answers[0].report, Refused):
            raise typer.Exit(2)
        if format == "junit":
            _write(reports.to_junit(answers, lang), output)
        elif format == "json":
            one = dump_json(answers[0].report.record())
            _write(reports.to_json(answers) if function is None else one, output)
        elif output is not None:
            _write(reports.text(answers, lang), output)
        elif len(answers) > 1:
            typer.echo(reports.summary(answers, lang))
    except CheckError as error:
        print(f"attnref check: {error.say(lang)}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(reports.status(answers))


def _project(function: str | None, said: Mapping[str, object]) -> Project:
    """What to ask of the function, or of all; ``said`` are the options beside it."""
    if function is not None:
        return function_project(function)
    for name in said:
        if name not in _OF_ALL:
            option = {"names": "map", "given": "with"}.get(name, name).replace("_", "-")
            raise CheckError(
                en=f"{option}: applies to one function only. Name the function, or write {option} "
                f'in [tool.attnref.check."module:function"] of {NAME}.',
                pt=f"{option}: vale para uma só função. Indique a função, ou escreva {option} em "
                f'[tool.attnref.check."módulo:função"] de {NAME}.',
            )
    return project()


def _answer(request: Request, folder: Path) -> Answer:
    try:
        with contextlib.chdir(folder):
            return Answer(request.report(), request.strict)
    except CheckError as error:
        return Answer(Refused(request.function, error.text))
    except RuntimeError as error:
        return Answer(Refused(request.function, BROKEN.fill({"error": error})))


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
            en=f"output: cannot write to {str(output)!r}: {error.strerror}. Choose another file.",
            pt=f"output: não foi possível escrever em {str(output)!r}: {error.strerror}. Escolha "
            "outro arquivo.",
        ) from None


def _split(names: list[str] | None) -> list[str] | None:
    """One list of what was given by several options, or by one with commas."""
    if names is None:
        return None
    return [name for each in names for name in split_list(each)]


def _check_choice(name: str, got: str, choices: Sequence[str]) -> None:
    if got not in choices:
        raise CheckError(one_of(name, choices, got))
