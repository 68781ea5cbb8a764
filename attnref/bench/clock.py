"""Time: warm-up, alternating order, median and quartiles."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import quantiles

import torch

Run = Callable[[], object]

FEWEST = 5  # samples: a median of fewer says little

# A sample repeats a short call until it has taken this long, or the clock itself would count.
_SHORTEST_SAMPLE = 0.002


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of ``samples`` samples, and the quartiles around it."""

    median: float
    lower: float
    upper: float
    samples: int


def summarise(seconds: list[float]) -> Timing:
    """Median and quartiles of samples, one or more.

    Examples:
        >>> summarise([3.0, 1.0, 2.0, 5.0, 4.0])
        Timing(median=3.0, lower=2.0, upper=4.0, samples=5)
    """
    if len(seconds) == 1:
        return Timing(seconds[0], seconds[0], seconds[0], 1)
    lower, median, upper = quantiles(seconds, n=4, method="inclusive")
    return Timing(median, lower, upper, len(seconds))


def finish(device: torch.device) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(run: Run, device: torch.device, calls: int = 1) -> float:
    """The mean of so many calls in a row."""
    finish(device)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    finish(device)
    return (time.perf_counter() - start) / calls


def calls_for(seconds: float) -> int:
    """How many calls of so many seconds a sample takes.

    Examples:
        >>> calls_for(0.5), calls_for(0.0001)
        (1, 20)
    """
    return max(1, round(_SHORTEST_SAMPLE / max(seconds, 1e-7)))


def alternate(
    runs: Mapping[str, Run],
    device: torch.device,
    *,
    repeats: int,
    until: float,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Times all ``runs`` in turn, forwards and backwards, so that none has a better place.

    Args:
        runs: what to call, already warmed up.
        repeats: number of rounds.
        until: no round begins after this ``time.perf_counter()``, but the first five.
        tick: called after each sample.
    """
    order = list(runs)
    calls = {name: calls_for(seconds_of(runs[name], device)) for name in order}
    seconds: dict[str, list[float]] = {name: [] for name in order}
    for done in range(1, repeats + 1):
        for name in order:
            seconds[name].append(seconds_of(runs[name], device, calls[name]))
            tick()
        if done >= FEWEST and time.perf_counter() > until:
            break
        order.reverse()
    return {name: summarise(seconds[name]) for name in runs}
