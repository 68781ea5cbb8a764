"""What one process does, here as the only rank of its group."""

import multiprocessing
import signal

import pytest
import torch
import torch.distributed as dist

from attnref.bench.ranks.cases import CASES
from attnref.bench.ranks.plan import RankSettings
from attnref.bench.ranks.worker import Prepared, Sample, serve

TINY = {"ranks": [1], "heads": 2, "head_dim": 8}


@pytest.fixture(autouse=True)
def _left_as_it_was(monkeypatch):
    ignored = []
    monkeypatch.setattr(signal, "signal", lambda *what: ignored.append(what))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    assert set(ignored) == {(signal.SIGINT, signal.SIG_IGN)}
    assert torch.is_grad_enabled()


@pytest.fixture
def answers(tmp_path):
    """What a rank answers to jobs, one after the other."""

    def answers(settings, *jobs, last=None):
        mine, theirs = multiprocessing.Pipe()
        for job in jobs:
            mine.send(job)
        if last is None:
            mine.send(None)
        else:
            last(mine)
        serve(theirs, 0, 1, tmp_path / "store", settings)
        return [mine.recv() for _ in jobs] if last is None else []

    return answers


def test_it_prepares_and_samples(answers):
    names = [name for name, case in CASES.items() if case.device != "cuda"]
    jobs = [job for name in names for job in (("prepare", name, 2), ("sample", name, 1, 3))]
    drawn, *found, used = answers(RankSettings(**TINY), ("draw", 26), *jobs, ("processor_seconds",))
    assert drawn == (True, None)
    assert used[1] > 0
    for name, (done, prepared), (sampled, sample) in zip(
        names, found[::2], found[1::2], strict=True
    ):
        assert done and sampled, (name, prepared, sample)  # noqa: PT018
        assert isinstance(prepared, Prepared)
        assert isinstance(sample, Sample)
        assert prepared.error < 1e-6, name
        assert prepared.peak_bytes >= 26 * 2 * 8 * 4  # at least its output
        assert prepared.seconds > 0
        assert sample.seconds > 0
        assert sample.messages is None  # one rank sends nothing
    assert torch.get_num_threads() == 1  # the last that was asked for


def test_it_may_time_gradients(answers):
    jobs = ("draw", 24), ("prepare", "ring_striped", 1), ("prepare", "pytorch_ring", 1)
    forward = answers(RankSettings(**TINY), *jobs)
    both = answers(RankSettings(**TINY, backward=True), *jobs, ("sample", "ring_striped", 1, 1))
    for one, other in zip(forward[1:], both[1:3], strict=True):
        assert other[1].peak_bytes > one[1].peak_bytes
        assert other[1].error == one[1].error
    assert both[3][0]


def test_what_it_cannot_do_is_its_answer(answers):
    _, refused = answers(RankSettings(**TINY), ("draw", 7), ("prepare", "pytorch_ring", 1))
    assert refused == (False, "n: expected a multiple of 2, two chunks for each rank, got 7")


def test_it_ends_when_nobody_asks_any_more(answers):
    answers(RankSettings(**TINY), last=lambda connection: connection.close())
    assert not dist.is_initialized()


def test_it_ends_when_nobody_hears_its_answer(answers):
    def leave(connection):
        connection.send(("processor_seconds",))
        connection.close()

    answers(RankSettings(**TINY), last=leave)
    assert not dist.is_initialized()


def test_a_rank_has_a_gpu_of_its_own(monkeypatch, tmp_path):
    """And NCCL between them."""
    joined, chosen = [], []
    monkeypatch.setattr(
        dist, "init_process_group", lambda *one, **more: joined.append((*one, more["rank"]))
    )
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    mine, theirs = multiprocessing.Pipe()
    mine.send(None)
    serve(theirs, 3, 4, tmp_path / "store", RankSettings(ranks=[4], device="cuda"))
    assert joined == [("nccl", 3)]
    assert chosen == [torch.device("cuda", 3)]
