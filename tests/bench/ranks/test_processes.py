"""Ranks that are asked: what they answer together, and what is said when one of them is lost."""

import multiprocessing
import os
import re
import tempfile
from types import SimpleNamespace

import pytest

from attnref.bench.problems import BenchError
from attnref.bench.ranks.processes import CannotBeDone, Pool, busy_seconds


class Process(SimpleNamespace):
    """One that has ended with a status, or goes on until it is killed."""

    def join(self, timeout=None):
        self.joined = True

    def is_alive(self):
        return self.exitcode is None

    def kill(self):
        self.exitcode = -9


@pytest.fixture
def pool():
    """Of two ranks whose answers are there already; None for one that has ended."""

    def made(*answers, statuses=(0, 0)):
        found = Pool.__new__(Pool)
        found.size, found.folder = len(answers), tempfile.TemporaryDirectory()
        found.processes = [Process(exitcode=status) for status in statuses]
        found.connections, found.ends = [], []
        for answer in answers:
            mine, theirs = multiprocessing.Pipe()
            if answer is None:
                theirs.close()
            else:
                theirs.send(answer)
            found.connections.append(mine)
            found.ends.append(theirs)
        return found

    return made


def test_all_answer_by_rank(pool):
    ranks = pool((True, 3), (True, 5))
    assert ranks.ask("sample", "sdpa", 2) == [3, 5]
    assert [end.recv() for end in ranks.ends] == [("sample", "sdpa", 2)] * 2
    ranks.close()


def test_what_all_refuse_can_be_left_out(pool):
    ranks = pool((False, "ValueError: odd"), (False, "ValueError: even"))
    with pytest.raises(CannotBeDone, match=r"^ValueError: odd$"):
        ranks.ask("prepare")
    ranks.close()


@pytest.mark.parametrize("other", [(True, 5), (False, "DistError: late")])
def test_what_some_refuse_ends_the_measurement(other, pool):
    ranks = pool((False, "MemoryError: full"), other)
    said = "" if other[0] else "; rank 1: DistError: late"
    message = f"ranks: not all of the 2 ranks went on together. rank 0: MemoryError: full{said}."
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        ranks.ask("prepare")
    ranks.close()


def test_a_rank_that_has_ended_is_named(pool):
    ranks = pool((True, 3), None, statuses=(0, -9))
    message = (
        "ranks: rank 1 of 2 ended with status -9 while it was measured. If memory ran out, lower "
        "--n or --ranks; what it printed is above."
    )
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        ranks.ask("sample")
    ranks.close()


def test_ranks_that_do_not_end_are_ended(pool):
    ranks = pool((True, 3), None, statuses=(None, 0))
    ranks.close()
    assert [process.exitcode for process in ranks.processes] == [-9, 0]
    assert ranks.ends[0].recv() is None
    assert not os.path.exists(ranks.folder.name)


def test_busy_seconds_are_all_but_those_of_waiting(tmp_path):
    stat, ticks = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    assert busy_seconds(stat) is None
    stat.write_text("cpu  1 2 3 900 800 4 5 6 7 8\ncpu0 0\n", encoding="ascii")
    assert busy_seconds(stat) == pytest.approx((1 + 2 + 3 + 4 + 5 + 6) / ticks)
