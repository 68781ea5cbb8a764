"""How times are taken; how long anything takes is not tested."""

import time

import pytest
import torch

from attnref.bench import clock
from attnref.bench.clock import Timing, alternate, summarise

CPU = torch.device("cpu")


@pytest.fixture
def world(monkeypatch):
    """A clock that calls alone move, and what was called."""
    now, called = [0.0], []

    def call(name, seconds):
        def run():
            now[0] += seconds
            called.append(name)

        return run

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return call, called


def test_quartiles_of_known_samples():
    samples = [float(number) for number in (9, 1, 8, 2, 7, 3, 6, 4, 5)]
    assert summarise(samples) == Timing(median=5.0, lower=3.0, upper=7.0, samples=9)


def test_one_sample_is_its_own_quartiles():
    assert summarise([2.0]) == Timing(2.0, 2.0, 2.0, 1)


@pytest.mark.claim("bench-order-alternates")
def test_order_alternates(world):
    call, called = world
    runs = {"a": call("a", 1.0), "b": call("b", 2.0)}
    timings = alternate(runs, CPU, repeats=3, until=1e9)
    assert "".join(called) == "ab" + "abbaab"  # once to see how long each takes
    assert timings == {"a": Timing(1.0, 1.0, 1.0, 3), "b": Timing(2.0, 2.0, 2.0, 3)}


def test_short_calls_are_repeated_within_a_sample(world):
    call, called = world
    timings = alternate({"a": call("a", 0.0005)}, CPU, repeats=2, until=1e9)
    assert len(called) == 1 + 2 * 4  # a sample takes at least 2 ms
    assert timings["a"].median == pytest.approx(0.0005)


def test_no_round_begins_after_the_end_but_the_first_five(world):
    call, _ = world
    samples = []
    timings = alternate(
        {"a": call("a", 10.0)}, CPU, repeats=9, until=5.0, tick=lambda: samples.append(1)
    )
    assert timings["a"].samples == len(samples) == 5
    now = call("a", 10.0)
    assert alternate({"a": now}, CPU, repeats=2, until=5.0)["a"].samples == 2
    until = time.perf_counter() + 75.0  # one call to see how long it takes, and seven samples
    assert alternate({"a": now}, CPU, repeats=9, until=until)["a"].samples == 7


def test_a_cuda_device_is_waited_for(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    clock.seconds_of(lambda: waited.append("run"), torch.device("cuda"))
    assert waited == [torch.device("cuda"), "run", torch.device("cuda")]
