"""A record as tables for a terminal, one per task."""

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Table

from attnref.bench.digits import milliseconds, three_digits
from attnref.bench.problems import TASKS
from attnref.bench.record import RankSkipped, Record, Skipped


def tables(record: Record) -> Iterator[Table]:
    """For each task: times, times compared with the baseline's, errors and memory.

    The speed is the baseline's median over the method's: above 1 is faster. It is left out where
    there is nothing to compare.
    """
    for task in record.tasks():
        baseline = TASKS[task].baseline
        results = [result for result in record.results if result.task == task]
        medians = {result.n: result.median for result in results if result.method == baseline}
        compared = len({result.method for result in results}) > 1 and bool(medians)
        title = f"{task}, speed against {baseline}" if compared else task
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
        columns = ["n", "method", "ms", "quartiles", "error", "peak MB"]
        columns[4:4] = ["speed"] if compared else []
        for name in columns:
            table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for n in sorted({result.n for result in results}):
            table.add_section()
            for result in (result for result in results if result.n == n):
                speed = [f"{medians[n] / result.median:.2f}" if n in medians else ""]
                table.add_row(
                    f"{n}",
                    result.method,
                    milliseconds(result.median),
                    f"{milliseconds(result.lower)}–{milliseconds(result.upper)}",
                    *(speed if compared else []),
                    f"{result.error:.1e}",
                    three_digits(result.peak_bytes / 1e6),
                )
        yield table


def left_out(record: Record) -> list[str]:
    """One line for each method that was not measured, and why."""
    return [f"{skip.method}, {skip.task}{_place(skip)}: {skip.reason}" for skip in record.skipped]


def _place(skip: Skipped) -> str:
    ranks = skip.ranks if isinstance(skip, RankSkipped) else None
    return "".join(
        f" {name}={number}"
        for name, number in (("n", skip.n), ("ranks", ranks))
        if number is not None
    )
