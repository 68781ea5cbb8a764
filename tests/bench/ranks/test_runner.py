"""A whole measurement across ranks, with answers that are known, and one of real processes."""

import dataclasses
import re

import pytest

from attnref.bench import clock
from attnref.bench.problems import BenchError
from attnref.bench.ranks import runner
from attnref.bench.ranks.plan import RankSettings
from attnref.bench.ranks.processes import CannotBeDone
from attnref.bench.ranks.runner import measure_ranks
from attnref.bench.ranks.worker import Prepared, Sample
from attnref.bench.record import RankSkipped, Record, stale_methods

SETTINGS = RankSettings(
    ranks=[1, 2],
    tasks=["strong"],
    methods=["sdpa", "ring_zigzag", "gather"],
    lengths=[16],
    heads=2,
    head_dim=8,
    repeats=3,
)


@pytest.fixture
def asked(monkeypatch):
    """What was asked of ranks that answer at once: rank r takes r + 1 seconds."""
    asked = []

    class Ranks:
        def __init__(self, size, settings):
            self.size = size

        def ask(self, job, *arguments):
            asked.append((self.size, job, *arguments))
            ranked = range(self.size)
            if job == "prepare":
                if arguments[0] == "gather":
                    raise CannotBeDone("cannot")
                return [Prepared(1e-7 if r == 0 else 0.0, 100 + r, 1e-3, "MATH") for r in ranked]
            if job == "sample":
                messages = None if self.size == 1 else 0.25
                return [Sample(r + 1.0, 0.5, messages) for r in ranked]
            return [0.0 for _ in ranked]

        def close(self):
            asked.append((self.size, "close"))

    monkeypatch.setattr(runner, "Pool", Ranks)
    return asked


def test_the_slowest_rank_counts_and_the_record_says_all(asked, monkeypatch):
    stamps = iter([10.0, 16.0])
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(stamps))
    told = []
    record = measure_ranks(SETTINGS, lambda fraction, text: told.append((fraction, text)))
    rows = [
        (x.method, x.ranks, x.median, x.samples, x.messages, x.cores, x.error, x.peak_bytes)
        for x in record.results
    ]
    assert rows == [
        ("sdpa", 1, 1.0, 3, None, 0.5, 1e-7, 100),
        ("ring_zigzag", 1, 1.0, 3, None, 0.5, 1e-7, 100),
        ("ring_zigzag", 2, 2.0, 3, 0.25, 0.5, 1e-7, 101),
    ]
    assert {(x.n, tuple(x.query), x.threads) for x in record.results} == {(16, (1, 2, 16, 8), 1)}
    assert record.skipped == [RankSkipped("strong", "gather", 16, "cannot", p) for p in (1, 2)]
    assert record.settings["ranks"] == [1, 2]
    assert record.provenance["threads"] == [1]
    assert record.provenance["cores"] >= 1
    assert record.provenance["busy_elsewhere"] > 0
    assert set(record.code) == {"ring_zigzag", "gather"}
    assert record.code["gather"]["cases"] == "attnref.bench.ranks.cases"
    assert stale_methods(record) == []
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert told[-1] == (pytest.approx(1.0), "strong n=16, 2 ranks, ring_zigzag")
    assert asked[-2:] == [(1, "close"), (2, "close")]


@pytest.mark.claim("rounds-visit-all-ranks")
def test_each_round_visits_all_ranks_in_the_opposite_order(asked):
    measure_ranks(dataclasses.replace(SETTINGS, threads=[1, 2, 2]))
    samples = [(one[0], *one[2:]) for one in asked if one[1] == "sample"]
    assert len(samples) == 3 * 6
    first, second, third = samples[:6], samples[6:12], samples[12:]
    assert first == third == second[::-1]
    assert len(set(first)) == 6  # on one rank and on two, with one thread and with two
    assert {one[3] for one in first} == {clock.calls_for(1e-3)}


def test_a_measurement_ends_with_its_budget(asked):
    """After five rounds, however little time there is."""
    record = measure_ranks(dataclasses.replace(SETTINGS, budget=1e-9, repeats=50))
    assert {x.samples for x in record.results} == {clock.FEWEST}


def test_what_takes_too_long_is_left_out(asked, monkeypatch):
    monkeypatch.setattr(runner, "_check_time", lambda seconds, share, verb: refuse())

    def refuse():
        raise BenchError("takes 9 s a call; raise the budget")

    message = (
        "method: none of the methods can be measured here. sdpa: takes 9 s a call; raise "
        "the budget; ring_zigzag: takes 9 s a call; raise the budget; gather: cannot."
    )
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        measure_ranks(SETTINGS)
    assert asked[-1] == (2, "close")


def test_without_news_from_the_system_the_load_is_unknown(asked, monkeypatch):
    monkeypatch.setattr(runner, "busy_seconds", lambda: None)
    assert measure_ranks(SETTINGS).provenance["busy_elsewhere"] is None


def test_an_interruption_keeps_the_tasks_that_are_done(asked, monkeypatch):
    real = runner._take_turns

    def interrupted(point, *others):
        if point.task == stop:
            raise KeyboardInterrupt
        return real(point, *others)

    monkeypatch.setattr(runner, "_take_turns", interrupted)
    both = dataclasses.replace(SETTINGS, tasks=["strong", "weak"])
    stop = "weak"
    record = measure_ranks(both)
    assert {x.task for x in record.results} == {"strong"}
    assert [x for x in record.skipped if x.reason == "interrupted"] == [
        RankSkipped("weak", name, 16, "interrupted", None) for name in SETTINGS.methods
    ]
    stop = "strong"
    with pytest.raises(KeyboardInterrupt):
        measure_ranks(both)
    assert asked[-1] == (2, "close")


def test_two_processes_are_started_and_timed(attnref, tmp_path):
    """From the command to the record, with all that runs on a processor."""
    output = tmp_path / "record.json"
    options = ["--heads", "2", "--head-dim", "8", "--repeats", "1", "--output", str(output)]
    status, out, err = attnref("bench", "--ranks", "2", "-n", "52", *options)
    assert (status, err) == (0, "")
    assert "strong, speed in pairs a second, against one rank" in out
    assert "left out: context_parallel, strong: it runs on cuda devices" in out
    record = Record.load(output)
    ours = ["ring_zigzag", "ring_striped", "ring_contiguous", "gather", "ulysses"]
    assert [(x.task, x.method, x.n) for x in record.rank_results()] == [
        (task, method, n)
        for task, n in (("strong", 52), ("weak", 104))
        for method in (*ours, "pytorch_ring")
    ]
    for result in record.rank_results():
        assert result.error < 1e-6
        assert 0 < result.lower <= result.median <= result.upper
        assert (result.messages is None) == (result.method == "pytorch_ring")
        assert result.cores > 0
    assert stale_methods(record) == []
