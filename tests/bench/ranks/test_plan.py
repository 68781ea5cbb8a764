"""How many ranks, and how long a sequence; what cannot be started is refused in one line."""

import os
import re

import pytest
import torch

from attnref.bench import memory
from attnref.bench.problems import BenchError
from attnref.bench.ranks.cases import CASES
from attnref.bench.ranks.plan import (
    RankPoint,
    RankSettings,
    check_memory_of_ranks,
    check_ranks,
    cores,
    plan_ranks,
)
from attnref.bench.record import RankSkipped

CPU = torch.device("cpu")


def settings(**options):
    return RankSettings(**{"ranks": [1, 2], **options})


def test_strong_keeps_the_whole_and_weak_the_part():
    points, methods, skipped = plan_ranks(settings(lengths=[60, 30]))
    assert ", ".join(map(str, points)) == "strong n=30, strong n=60, weak n=30, weak n=60"
    assert [point.length(4) for point in points] == [30, 60, 120, 240]
    assert methods == [name for name in CASES if name != "context_parallel"]
    reason = "it runs on cuda devices, this measurement on cpu"
    assert skipped == [
        RankSkipped(task, "context_parallel", None, reason, None) for task in ("strong", "weak")
    ]


def test_lengths_are_those_of_the_tasks_where_none_is_given():
    points, *_ = plan_ranks(settings(tasks=["weak", "strong"]))
    assert points == [RankPoint("weak", 1024), RankPoint("strong", 4096)]


def test_what_takes_fewer_ranks_than_all_is_not_asked():
    """One process alone is the yardstick, and is not missing beside more of them."""
    assert "sdpa" in plan_ranks(settings())[1]
    _, methods, skipped = plan_ranks(settings(ranks=[2, 4]))
    assert "sdpa" not in methods
    assert {skip.method for skip in skipped} == {"context_parallel"}


NO_CPU = {"methods": ["sdpa", "context_parallel"], "ranks": [2, 4]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["ring"]}, "method: expected one of sdpa, ring_zigzag, ring_striped, "),
        ({"tasks": ["dense"]}, "task: expected one of strong, weak, got 'dense'."),
        (
            NO_CPU,
            "method: not available on cpu with 2, 4 ranks: sdpa, "
            "context_parallel. Leave the methods out to measure all that are.",
        ),
    ],
)
def test_unknown_names_are_refused(options, message):
    with pytest.raises(BenchError, match=f"^{re.escape(message)}"):
        plan_ranks(settings(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": [2, 0]}, "ranks: expected a number of at least 1, got 0."),
        ({"threads": [-1]}, "threads: expected a number of at least 1, got -1."),
        ({"dtype": "int8"}, "dtype: expected one of float64, float32, bfloat16, float16, got"),
        ({"lengths": [0]}, "n: expected a number of at least 1, got 0."),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises(BenchError, match=f"^{re.escape(message)}"):
        check_ranks(settings(**options))


def test_each_rank_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_ranks(settings(device="cuda"))[1] == torch.device("cuda")
    with pytest.raises(
        BenchError, match=r"^ranks: expected at most 2, one for each .*, got 4\. Low"
    ):
        check_ranks(settings(device="cuda", ranks=[1, 4]))
    with pytest.raises(BenchError, match=r"^device: with ranks it must be cpu .*, got 'cuda:1'\."):
        check_ranks(settings(device="cuda:1"))


def test_all_ranks_have_to_fit(monkeypatch):
    """On a processor they share its memory; a GPU holds one of them."""
    point, options = RankPoint("weak", 1000), settings(ranks=[1, 4], heads=2, head_dim=8)
    each = 4 * 1000 * 2 * 8 * (6 * 4 + 16)  # bytes of a process that draws 4000 positions
    monkeypatch.setattr(memory, "free_bytes", lambda device: 3 * each)
    message = r"^n: with 4 ranks the inputs do not fit in .*: with n = 4000, task 'weak' needs "
    with pytest.raises(BenchError, match=message):
        check_memory_of_ranks(point, options, torch.float32, CPU)
    check_memory_of_ranks(point, options, torch.float32, torch.device("cuda"))
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    check_memory_of_ranks(point, options, torch.float32, CPU)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert cores() == 5
