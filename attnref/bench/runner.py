"""A whole measurement: every method at every length of every task, within a budget of time."""

import contextlib
import functools
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from attnref.bench import clock, memory
from attnref.bench.plan import KEPT_FREE, Point, Settings, check, check_memory, plan
from attnref.bench.problems import TASKS, BenchError, Problem, Shape, exact_output, relative_error
from attnref.bench.provenance import provenance, sdpa_backend
from attnref.bench.record import Record, Result, Skipped, entry
from attnref.text import Text

INTERRUPTED = "interrupted"
# Of a method at a length: its answer, its memory, how often to repeat, the fewest samples.
_CALLS = 3 + clock.FEWEST
_SOON = 1.0  # seconds that a method may always take at a length
TAKES = Text("takes {seconds:.2g} s a call; raise the budget")
MIGHT_TAKE = Text("might take {seconds:.2g} s a call; raise the budget")
_PREPARING = 0.3  # of the progress at one length


Progress = Callable[[float, str], None]


def measure(settings: Settings, progress: Progress = lambda fraction, text: None) -> Record:
    """Runs the benchmark.

    Args:
        settings: what to measure.
        progress: told the fraction done and what is being done.

    Returns:
        The record, with every method that could not be measured and why.

    Raises:
        BenchError: for a request that cannot be fulfilled, in one line.

    The random state of PyTorch is left as it was. A method is left out at a length where its
    memory or time, extrapolated from shorter ones, would not fit. Ctrl-C ends the measurement and
    keeps the lengths that are done: the others are left out as interrupted.
    """
    dtype, device = check(settings)
    points, skipped = plan(settings)
    used = {method.name: method for point in points for method in point.methods}
    record = Record(
        provenance(device, sorted({m.needs for m in used.values() if m.needs is not None})),
        {
            "dtype": settings.dtype,
            "heads": settings.heads,
            "head_dim": settings.head_dim,
            "batch": 1,
            "seed": settings.seed,
            "repeats": settings.repeats,
            "budget": settings.budget,
            "backward": settings.backward,
        },
        {
            name: entry(*method.defined, method.called, method.caller)
            for name, method in sorted(used.items())
            if method.defined
        },
        skipped=skipped,
    )
    for point in points:
        check_memory(point, settings, dtype, device)

    deadline = time.perf_counter() + settings.budget
    history: dict[tuple[str, str], _Seen] = {}
    total = sum(point.n for point in points)  # longer ones get more of the time
    done = 0
    devices = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices),
        torch.set_grad_enabled(settings.backward),
        _silence_warnings(),
    ):
        for number, point in enumerate(points):
            torch.manual_seed(settings.seed)
            shape = Shape(point.n, settings.heads, settings.head_dim, dtype, device, settings.seed)
            share = (deadline - time.perf_counter()) * point.n / (total - done)
            part = functools.partial(_report_part, progress, done / total, point.n / total)
            try:
                _measure_point(point, shape, settings, share, history, record, part)
            except KeyboardInterrupt:
                if not record.results:
                    raise
                record.skipped.extend(
                    Skipped(left.task, method.name, left.n, INTERRUPTED)
                    for left in points[number:]
                    for method in left.methods
                    if not left.is_probe
                )
                break
            done += point.n
    if not record.results:
        reasons = "; ".join(dict.fromkeys(f"{skip.method}: {skip.reason}" for skip in skipped))
        raise BenchError(
            "method: none of the methods can be measured here. {reasons}.", reasons=reasons
        )
    return record


def _measure_point(
    point: Point,
    shape: Shape,
    settings: Settings,
    share: float,
    history: dict[tuple[str, str], "_Seen"],
    record: Record,
    progress: Progress,
) -> None:
    until = time.perf_counter() + share
    problem = TASKS[point.task].make(shape)
    expected = exact_output(problem)
    backend = sdpa_backend(problem)
    if settings.backward:
        problem = problem.with_gradients()
    runs: dict[str, clock.Run] = {}
    found: dict[str, tuple[float, int]] = {}
    for number, method in enumerate(point.methods):
        progress(_PREPARING * number / len(point.methods), f"{point}, {method.name}")
        try:
            seen = history.get((point.task, method.name))
            if seen is not None:
                _check_growth(seen, point.n, share, shape.device)
            forward = method.cases[point.task](problem)
            error = relative_error(forward(), expected)
            run: clock.Run = forward
            if settings.backward:
                run = _add_backward(forward, problem)
                run()  # the first of a process starts what it wants
            peak, seconds = _second_call(run, shape.device)  # some compile in the first
            # Remembered even if it is too slow, or a longer call might take all memory.
            history[point.task, method.name] = _Seen(point.n, seconds, peak)
            _check_time(seconds, share, TAKES)
        except Exception as met:  # what one method cannot do must not end the others' run
            if not point.is_probe:
                record.skipped.append(Skipped(point.task, method.name, point.n, _reason(met)))
            continue
        runs[method.name], found[method.name] = run, (error, peak)

    until = max(until, time.perf_counter() + share / 2)  # compilers may have taken it all
    repeats = 1 if point.is_probe else settings.repeats
    samples = 0

    def tick() -> None:
        nonlocal samples
        samples += 1
        timed = samples / (len(runs) * repeats)
        progress(_PREPARING + (1 - _PREPARING) * timed, str(point))

    timings = clock.alternate(runs, shape.device, repeats=repeats, until=until, tick=tick)
    for name, timing in timings.items():
        error, peak = found[name]
        history[point.task, name] = _Seen(point.n, timing.median, peak)
        if not point.is_probe:
            record.results.append(
                Result(
                    task=point.task,
                    method=name,
                    n=point.n,
                    query=list(problem.query.shape),
                    key=list(problem.key.shape),
                    **asdict(timing),
                    error=error,
                    peak_bytes=peak,
                    sdpa_backend=backend,
                )
            )


def _second_call(run: clock.Run, device: torch.device) -> tuple[int, float]:
    """Its memory, and about its time: the profiler is running."""
    seconds: list[float] = []
    peak = memory.peak_bytes(lambda: seconds.append(clock.seconds_of(run, device)), device)
    return peak, seconds[0]


def _add_backward(forward: Callable[[], Tensor], problem: Problem) -> Callable[[], None]:
    """The forward pass and all gradients: of the inputs, and of weights where there are any."""
    gradient = torch.ones_like(forward())  # (..., n, d)

    def run() -> None:
        for leaf in (problem.query, problem.key, problem.value, *problem.given.values()):
            if isinstance(leaf, Tensor):
                leaf.grad = None
        forward().backward(gradient)  # type: ignore[no-untyped-call]

    return run


@dataclass(frozen=True)
class _Seen:
    """What a method took at a length."""

    n: int
    seconds: float
    peak_bytes: int


def _check_growth(seen: _Seen, n: int, share: float, device: torch.device) -> None:
    """Whether memory and time would fit if both grew with the square of the length."""
    growth = (n / seen.n) ** 2
    free, needed = memory.free_bytes(device), seen.peak_bytes * growth
    if free is not None and needed > KEPT_FREE * free:
        raise BenchError(
            "might need {needed:.1f} GB, {free:.1f} GB are free",
            needed=needed / 1e9,
            free=free / 1e9,
        )
    _check_time(seen.seconds * growth, share, MIGHT_TAKE)


def _check_time(seconds: float, share: float, said: Text) -> None:
    if _CALLS * seconds > max(share / 2, _SOON):
        raise BenchError(said, seconds=seconds)


@contextlib.contextmanager
def _silence_warnings() -> Iterator[None]:
    """Keeps what peers and compilers say about themselves off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _reason(error: Exception) -> str:
    first = str(error).strip().split("\n")[0]
    return first if isinstance(error, BenchError) else f"{type(error).__name__}: {first}"


def _report_part(progress: Progress, start: float, part: float, fraction: float, text: str) -> None:
    progress(start + part * fraction, text)
