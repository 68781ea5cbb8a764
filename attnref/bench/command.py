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
from attnref.text import choose_help, preferred_language, translate_help

_DEFAULTS = Settings()


@translate_help
def bench(
    method: Annotated[
        list[str] | None,
        typer.Argument(help=choose_help("Methods to measure (default: all).")),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            "-t",
            help=choose_help(
                "{tasks}; with --ranks {scalings}. Can be repeated.",
                tasks=", ".join(TASKS),
                scalings=", ".join(SCALINGS),
            ),
        ),
    ] = None,
    n: Annotated[
        list[int] | None,
        typer.Option(
            "--n",
            "-n",
            help=choose_help("Number of keys; in weak, keys per rank. Can be repeated."),
        ),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(help=choose_help("One of {dtypes}.", dtypes=", ".join(DTYPES))),
    ] = _DEFAULTS.dtype,
    device: Annotated[
        str,
        typer.Option(help=choose_help("cpu, cuda or cuda:<number>.")),
    ] = _DEFAULTS.device,
    heads: Annotated[int, typer.Option(help=choose_help("Number of heads."))] = _DEFAULTS.heads,
    head_dim: Annotated[
        int, typer.Option(help=choose_help("Width of each head."))
    ] = _DEFAULTS.head_dim,
    seed: Annotated[
        int,
        typer.Option(help=choose_help("Random seed.")),
    ] = _DEFAULTS.seed,
    repeats: Annotated[
        int,
        typer.Option(help=choose_help("Maximum number of samples.")),
    ] = _DEFAULTS.repeats,
    budget: Annotated[
        float,
        typer.Option(help=choose_help("Total time budget, in seconds.")),
    ] = _DEFAULTS.budget,
    backward: Annotated[
        bool,
        typer.Option(
            "--backward",
            help=choose_help("Also time the gradients of the inputs."),
        ),
    ] = _DEFAULTS.backward,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--ranks",
            help=choose_help("Number of processes that share a sequence. Can be repeated."),
        ),
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(
            "--threads",
            help=choose_help("Threads per rank (default: 1). Can be repeated."),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=choose_help("Destination file of the record, as JSON."),
        ),
    ] = None,
    charts: Annotated[
        Path | None,
        typer.Option(
            "--charts",
            help=choose_help("Folder for the charts, one SVG per task."),
        ),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--list",
            help=choose_help("List all methods and their tasks; measure nothing."),
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
            "threads: {threads} was given without --ranks. Add --ranks, or set OMP_NUM_THREADS "
            "for a measurement in this process.",
            threads=", ".join(map(str, threads)),
        )
    if charts and ranks:
        raise BenchError(
            "charts: cannot be combined with ranks, because a chart shows time against length. "
            "Leave --charts out; --output keeps all numbers."
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
                "{name}: the folder {folder} does not exist. Create it first.",
                name=name,
                folder=folder,
            )
        try:
            if place is output and place.exists():
                place.open("ab").close()
            else:
                tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise BenchError(
                "{name}: cannot write to {place}: {reason}. Choose another place.",
                name=name,
                place=place,
                reason=error.strerror,
            ) from None
