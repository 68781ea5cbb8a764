"""A whole measurement, on tiny inputs; how long anything takes is not tested."""

import dataclasses
import logging
import re
import warnings

import pytest
import torch

from attnref.bench import clock, memory, plan, runner
from attnref.bench.methods import Method
from attnref.bench.plan import Settings
from attnref.bench.problems import BenchError
from attnref.bench.runner import measure

TINY = Settings(
    methods=["sdpa", "linear"], tasks=["causal"], lengths=[37, 23], heads=2, head_dim=8, repeats=2
)


@pytest.fixture
def tiny(device):
    return dataclasses.replace(TINY, device=str(device))


def test_the_record_holds_all_that_was_measured(tiny):
    told = []
    record = measure(tiny, lambda fraction, text: told.append((fraction, text)))
    assert [(result.method, result.n) for result in record.results] == [
        ("sdpa", 23),
        ("linear", 23),
        ("sdpa", 37),
        ("linear", 37),
    ]
    assert record.skipped == []
    for result in record.results:
        assert 0 < result.lower <= result.median <= result.upper
        assert result.query == result.key == [1, 2, result.n, 8]
        assert result.samples == 2
        assert result.peak_bytes >= 2 * result.n * 8 * 4  # at least its output
        assert (result.error < 1e-6) == (result.method == "sdpa")
    assert list(record.code) == ["linear"]
    assert record.settings == {
        "dtype": "float32",
        "heads": 2,
        "head_dim": 8,
        "batch": 1,
        "seed": 0,
        "repeats": 2,
        "budget": 120.0,
        "backward": False,
    }
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == pytest.approx(1.0)
    assert (told[0][1], told[-1][1]) == ("causal n=23, sdpa", "causal n=37")


@pytest.mark.claim("bench-warms-up")
@pytest.mark.parametrize("backward", [False, True])
def test_each_method_is_called_three_times_before_its_first_sample(tiny, backward, monkeypatch):
    """For its answer, for its memory and for how often a sample repeats it; with gradients more."""
    calls, samples = [], []

    def counting(problem):
        def run():
            calls.append(problem.query.shape[-2])
            return problem.query * 1.0

        return run

    measured = clock.seconds_of

    def sampled(run, device, times=1):
        samples.append(len(calls))
        return measured(run, device, times)

    monkeypatch.setattr(clock, "seconds_of", sampled)
    monkeypatch.setattr(clock, "_SHORTEST_SAMPLE", 0.0)
    known = plan.methods() | {"counting": Method("counting", {"causal": counting})}
    monkeypatch.setattr(plan, "methods", lambda: known)
    settings = dataclasses.replace(tiny, methods=["counting"], lengths=[23], backward=backward)
    (result,) = measure(settings).results
    before = samples[-result.samples]  # calls when the first of its samples begins
    assert before == 5 if backward else before == 3
    assert len(calls) == before + result.samples


def test_errors_are_those_of_the_seed(tiny):
    def errors(seed):
        return [r.error for r in measure(dataclasses.replace(tiny, seed=seed)).results]

    assert errors(1) == errors(1)
    assert errors(1) != errors(2)


def test_gradients_cost_more_memory(tiny):
    methods = dataclasses.replace(tiny, methods=["sdpa", "linear"])
    forward = measure(methods)
    both = measure(dataclasses.replace(methods, backward=True))
    assert both.settings["backward"] is True
    for one, other in zip(forward.results, both.results, strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-3)
        assert other.peak_bytes > one.peak_bytes


def test_a_layer_has_gradients_too(tiny):
    settings = dataclasses.replace(tiny, methods=["multihead"], tasks=["layer"], backward=True)
    assert [result.query for result in measure(settings).results] == [[1, 23, 16], [1, 37, 16]]


def test_half_precision_is_compared_with_the_inputs_as_they_are(tiny):
    settings = dataclasses.replace(tiny, methods=["sdpa"], dtype="bfloat16")
    for result in measure(settings).results:
        assert 1e-4 < result.error < 2**-7


def test_what_a_method_cannot_do_ends_nobody_elses_run(tiny, monkeypatch):
    def failing(problem):
        warnings.warn("about itself", UserWarning, stacklevel=1)
        logging.getLogger("peer").warning("about itself")
        raise RuntimeError("cannot\nbecause of this")

    known = plan.methods() | {"failing": Method("failing", {"causal": failing})}
    monkeypatch.setattr(plan, "methods", lambda: known)
    settings = dataclasses.replace(tiny, methods=["failing", "sdpa"], lengths=[23])
    before = logging.root.manager.disable
    record = measure(settings)
    assert logging.root.manager.disable == before
    assert [result.method for result in record.results] == ["sdpa"]
    assert [(skip.method, skip.n, skip.reason) for skip in record.skipped] == [
        ("failing", 23, "RuntimeError: cannot")
    ]
    message = "method: none of the methods can be measured here. failing: RuntimeError: cannot."
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        measure(dataclasses.replace(settings, methods=["failing"]))


def test_probes_are_not_reported(tiny, monkeypatch):
    def short_only(problem):
        assert problem.query.shape[-2] < 20
        return lambda: problem.query

    known = plan.methods() | {"short": Method("short", {"causal": short_only})}
    monkeypatch.setattr(plan, "methods", lambda: known)
    monkeypatch.setattr(plan, "_PROBE", 11)
    record = measure(dataclasses.replace(tiny, methods=["short", "sdpa"], lengths=[23]))
    assert [result.n for result in record.results] == [23]
    assert [skip.n for skip in record.skipped] == [23]
    monkeypatch.setattr(plan, "_PROBE", 21)  # nothing can be said of it, neither there nor later
    record = measure(dataclasses.replace(tiny, methods=["short", "sdpa"], lengths=[43]))
    assert [skip.n for skip in record.skipped] == [43]


def test_memory_that_would_not_fit_is_not_tried(tiny, monkeypatch):
    monkeypatch.setattr(plan, "check_memory", None)
    monkeypatch.setattr(runner, "check_memory", lambda *arguments: None)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 2 * 37 * 8 * 4)
    record = measure(dataclasses.replace(tiny, methods=["sdpa"]))
    assert [result.n for result in record.results] == [23]
    assert re.fullmatch(r"might need 0\.0 GB, 0\.0 GB are free", record.skipped[0].reason)


def test_time_that_would_not_fit_is_not_tried(tiny, monkeypatch):
    settings = dataclasses.replace(tiny, methods=["sdpa"], budget=1e-9)
    monkeypatch.setattr(runner, "_SOON", 60.0)  # also where others keep the machine busy
    record = measure(settings)  # a call that is over soon is never too long
    assert [(result.n, result.samples) for result in record.results] == [(23, 2), (37, 2)]

    def seen(seconds, *arguments):
        return {name: clock.Timing(seconds, seconds, seconds, 1) for name in arguments[0]}

    monkeypatch.setattr(runner.clock, "alternate", lambda *runs, **options: seen(9.0, *runs))
    record = measure(settings)
    assert [result.n for result in record.results] == [23]
    reasons = [(skip.n, skip.reason) for skip in record.skipped]
    assert reasons == [(37, "might take 23 s a call; raise the budget")]  # 9 · (37/23)²


def test_a_call_that_takes_too_long_is_not_repeated(tiny, monkeypatch):
    """Nor tried at a longer length, where it might take all memory."""
    tried = []

    def slow(problem):
        tried.append(problem.query.shape[-2])
        return lambda: problem.query

    known = plan.methods() | {"slow": Method("slow", {"causal": slow})}
    monkeypatch.setattr(plan, "methods", lambda: known)
    monkeypatch.setattr(runner, "_SOON", 0.0)
    settings = dataclasses.replace(tiny, methods=["slow"], budget=1e-9)
    message = (
        r"measured here\. slow: takes \S+ s a call; raise the budget; slow: might take \S+ s a call"
    )
    with pytest.raises(BenchError, match=message):
        measure(settings)
    assert tried == [23]


def test_the_random_state_is_left_alone(tiny):
    state = torch.get_rng_state()
    measure(tiny)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
