"""The table of a record of ranks whose numbers are known."""

import pytest
from rich.console import Console

from attnref.bench.ranks.table import rank_tables
from attnref.bench.record import RankResult, RankSkipped, Record, Skipped
from attnref.bench.table import left_out


@pytest.fixture
def record(result):
    def ranked(ranks, median, task="strong", n=64, messages=None, cores=None):
        told = {"ranks": ranks, "threads": 1, "messages": messages, "cores": cores}
        return result("ring_zigzag", n, median, task, kind=RankResult, **told)

    strong = [ranked(1, 0.4, cores=1.0), ranked(2, 0.25, messages=0.001, cores=1.9)]
    weak = [ranked(1, 0.1, "weak", 32), ranked(4, 0.8, "weak", 128), ranked(2, 0.3, "weak", 80)]
    skipped = [RankSkipped("strong", "gather", 64, "no", 2), Skipped("strong", "far", None, "why")]
    return Record({}, {}, {}, strong + weak, skipped)


def test_speed_is_in_pairs_against_one_rank(record):
    strong, weak = rank_tables(record)
    assert strong.title == "strong, speed in pairs a second, against one rank"
    with (console := Console(width=100)).capture() as said:
        console.print(strong, weak)
    lines = [line.split() for line in said.get().splitlines()]
    assert ["1", "1", "64", "ring_zigzag", "400", "1.00", "1.00", "3.0e-07", "1.5"] in lines
    assert ["2", "1", "64", "ring_zigzag", "250", "1.60", "1", "1.90", "3.0e-07", "1.5"] in lines
    speed = f"{128 * 129 / (32 * 33) * 0.1 / 0.8:.2f}"
    assert ["4", "1", "128", "ring_zigzag", "800", speed, "3.0e-07", "1.5"] in lines
    # Of 40 positions for each of two ranks, no one rank was asked.
    assert ["2", "1", "80", "ring_zigzag", "300", "3.0e-07", "1.5"] in lines


def test_what_was_left_out_says_on_how_many_ranks(record):
    assert left_out(record) == ["gather, strong n=64 ranks=2: no", "far, strong: why"]


def test_ranks_come_back_as_they_were(record, tmp_path):
    path = tmp_path / "record.json"
    record.save(path)
    assert Record.load(path) == record
    assert record.rank_results() == record.results
