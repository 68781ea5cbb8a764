"""A record of ranks as tables for a terminal, one per task."""

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Table

from attnref.bench.digits import milliseconds, three_digits
from attnref.bench.record import Record


def rank_tables(record: Record) -> Iterator[Table]:
    """For each task: times, speeds against one rank, messages, cores kept busy, errors, memory.

    The speed is in pairs of query and key a second, against the same method on one rank with as
    many threads: p on p ranks is the most to hope for.
    """
    for task in record.tasks():
        results = [result for result in record.rank_results() if result.task == task]
        title = f"{task}, speed in pairs a second, against one rank"
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
        names = ("ranks", "threads", "n", "method", "ms", "speed", "messages ms", "cores", "error")
        for name in (*names, "peak MB"):
            table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for place in sorted({(x.n, x.ranks, x.threads) for x in results}):
            table.add_section()
            for x in (x for x in results if (x.n, x.ranks, x.threads) == place):
                one = record.single_rank_result(x)
                table.add_row(
                    f"{x.ranks}",
                    f"{x.threads}",
                    f"{x.n}",
                    x.method,
                    milliseconds(x.median),
                    "" if one is None else f"{x.speed_against(one):.2f}",
                    "" if x.messages is None else milliseconds(x.messages),
                    "" if x.cores is None else f"{x.cores:.2f}",
                    f"{x.error:.1e}",
                    three_digits(x.peak_bytes / 1e6),
                )
        yield table
