"""The command ``attnref bench``."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from attnref.bench.chart import chart
from attnref.bench.plan import DTYPES, Settings, methods
from attnref.bench.problems import TASKS, BenchError
from attnref.bench.ranks.cases import CASES
from attnref.bench.ranks.plan import SCALINGS, RankSettings
from attnref.bench.ranks.runner import measure_ranks
from attnref.bench.ranks.table import rank_tables
from attnref.bench.record import Record
from attnref.bench.runner import INTERRUPTED, Progress, measure
from attnref.bench.table import left_out, tables
from attnref.text import add_portuguese, choose_help, preferred_language

_DEFAULTS = Settings()


@add_portuguese(pt="Mede métodos de atenção lado a lado, com erro e memória junto de cada tempo.")
def bench(
    method: Annotated[
        list[str] | None,
        typer.Argument(
            help=choose_help(
                en="What to measure; all, when none is named.",
                pt="O que medir; todos, se nenhum for indicado.",
            )
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            "-t",
            help=choose_help(
                en=f"{', '.join(TASKS)}; with --ranks {', '.join(SCALINGS)}; may be repeated.",
                pt=f"{', '.join(TASKS)}; com --ranks {', '.join(SCALINGS)}; pode ser repetida.",
            ),
        ),
    ] = None,
    n: Annotated[
        list[int] | None,
        typer.Option(
            "--n",
            "-n",
            help=choose_help(
                en="Number of keys, in weak of a rank; may be repeated.",
                pt="Número de chaves, em weak de um rank; pode ser repetida.",
            ),
        ),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(
            help=choose_help(en=f"One of {', '.join(DTYPES)}.", pt=f"Um entre {', '.join(DTYPES)}.")
        ),
    ] = _DEFAULTS.dtype,
    device: Annotated[
        str,
        typer.Option(
            help=choose_help(en="cpu, cuda or cuda:<number>.", pt="cpu, cuda ou cuda:<número>.")
        ),
    ] = _DEFAULTS.device,
    heads: Annotated[
        int, typer.Option(help=choose_help(en="Number of heads.", pt="Número de cabeças."))
    ] = _DEFAULTS.heads,
    head_dim: Annotated[
        int, typer.Option(help=choose_help(en="Width of a head.", pt="Largura de uma cabeça."))
    ] = _DEFAULTS.head_dim,
    seed: Annotated[
        int,
        typer.Option(
            help=choose_help(en="Of all random numbers.", pt="De todos os números aleatórios.")
        ),
    ] = _DEFAULTS.seed,
    repeats: Annotated[
        int, typer.Option(help=choose_help(en="Samples at most.", pt="Amostras, no máximo."))
    ] = _DEFAULTS.repeats,
    budget: Annotated[
        float, typer.Option(help=choose_help(en="Seconds for all of it.", pt="Segundos para tudo."))
    ] = _DEFAULTS.budget,
    backward: Annotated[
        bool,
        typer.Option(
            "--backward",
            help=choose_help(
                en="Time the gradients of the inputs too.",
                pt="Mede também os gradientes das entradas.",
            ),
        ),
    ] = _DEFAULTS.backward,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--ranks",
            help=choose_help(
                en="Start so many processes that share a sequence; may be repeated.",
                pt="Inicia tantos processos, que dividem uma sequência; pode ser repetida.",
            ),
        ),
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(
            "--threads",
            help=choose_help(
                en="Threads of a rank, 1 when not given; may be repeated.",
                pt="Threads de um rank, 1 se não indicado; pode ser repetida.",
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=choose_help(
                en="Where to write the record, as JSON.", pt="Onde escrever o registro, em JSON."
            ),
        ),
    ] = None,
    charts: Annotated[
        Path | None,
        typer.Option(
            "--charts",
            help=choose_help(
                en="Folder for a chart of each task, as SVG.",
                pt="Pasta para um gráfico de cada tarefa, em SVG.",
            ),
        ),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--list",
            help=choose_help(
                en="Name all methods and their tasks, measure nothing.",
                pt="Mostra todos os métodos e suas tarefas, sem medir.",
            ),
        ),
    ] = False,
) -> None:
    """Time attention methods side by side, with error and memory beside each time."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    if show:
        for name, entry in methods().items():
            missing = entry.missing()
            note = "" if missing is None else f"  ({missing})"
            console.print(f"{name}: {', '.join(entry.cases)}{note}", highlight=False, markup=False)
        for name in CASES:
            text = f"{name}, with --ranks: {', '.join(SCALINGS)}"
            console.print(text, highlight=False, markup=False)
        return
    options = {
        "tasks": task or None,
        "methods": method or None,
        "lengths": n or None,
        "dtype": dtype,
        "device": device,
        "heads": heads,
        "head_dim": head_dim,
        "seed": seed,
        "repeats": repeats,
        "budget": budget,
        "backward": backward,
    }
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        _check_ranks(ranks, threads, charts)
        _check_places(output, charts)
        with Bar(*columns, console=console, transient=True) as bar:
            shown = bar.add_task("", total=1.0)

            def tell(fraction: float, text: str) -> None:
                bar.update(shown, completed=fraction, description=text)

            record = _measure(options, ranks, threads, tell)
    except BenchError as error:
        print(f"attnref bench: {error.say(preferred_language(os.environ))}", file=sys.stderr)
        raise typer.Exit(2) from None
    for table in rank_tables(record) if ranks else tables(record):
        console.print(table)
    for line in left_out(record):
        console.print(f"left out: {line}", highlight=False, markup=False)
    if output is not None:
        record.save(output)
    if charts is not None:
        for name in record.tasks():
            path = charts / f"{name}.svg"
            path.write_text(chart(record, name), encoding="utf-8")
    if any(skip.reason == INTERRUPTED for skip in record.skipped):
        raise typer.Exit(130)


def _measure(
    options: dict[str, Any], ranks: list[int] | None, threads: list[int] | None, tell: Progress
) -> Record:
    if not ranks:
        return measure(Settings(**options), tell)
    return measure_ranks(RankSettings(**options, ranks=ranks, threads=threads or [1]), tell)


def _check_ranks(ranks: list[int] | None, threads: list[int] | None, charts: Path | None) -> None:
    """Options that say nothing without ranks, or with them."""
    if threads and not ranks:
        raise BenchError(
            en=f"threads: expected them with --ranks, got {', '.join(map(str, threads))} alone. "
            "Add --ranks, or set OMP_NUM_THREADS for a measurement in this process.",
            pt=f"threads: o esperado era vir com --ranks, veio só {', '.join(map(str, threads))}. "
            "Acrescente --ranks ou, para medir neste processo, defina OMP_NUM_THREADS.",
        )
    if charts and ranks:
        raise BenchError(
            en="charts: expected no ranks, for a chart shows time against length, got both. Leave "
            "--charts out; --output keeps all numbers.",
            pt="charts: o esperado era que não houvesse ranks, porque um gráfico mostra o tempo em "
            "função do comprimento, vieram os dois. Tire --charts; --output guarda tudo.",
        )


def _check_places(output: Path | None, charts: Path | None) -> None:
    """Before the measurement, not after it: whether something can be written there."""
    for name, place, folder in (
        ("output", output, output and output.parent),
        ("charts", charts, charts),
    ):
        if place is None or folder is None:
            continue
        if not folder.is_dir():
            raise BenchError(
                en=f"{name}: expected an existing folder, got {folder}. Make it first.",
                pt=f"{name}: o esperado era uma pasta que exista, veio {folder}. Crie-a antes.",
            )
        try:
            if place is output and place.exists():
                place.open("ab").close()
            else:
                tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise BenchError(
                en=f"{name}: expected a place to write to, got {place}: {error.strerror}. Choose "
                "another.",
                pt=f"{name}: o esperado era um lugar em que se possa escrever, veio {place}: "
                f"{error.strerror}. Escolha outro.",
            ) from None
