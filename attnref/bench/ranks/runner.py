"""A whole measurement across ranks: every method on every number of them, in turn."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median

import torch

from attnref.bench import clock
from attnref.bench.problems import BenchError
from attnref.bench.provenance import provenance
from attnref.bench.ranks.cases import CASES
from attnref.bench.ranks.plan import (
    RankPoint,
    RankSettings,
    check_memory_of_ranks,
    check_ranks,
    cores,
    plan_ranks,
)
from attnref.bench.ranks.processes import CannotBeDone, Pool, busy_seconds, close_all
from attnref.bench.ranks.worker import Prepared, Sample
from attnref.bench.record import RankResult, RankSkipped, Record, entry
from attnref.bench.runner import INTERRUPTED, TAKES, Progress, _check_time, _report_part

_MOST = 0.2  # of the budget, the part that one method may take


@dataclass
class _Turn:
    """One method on so many ranks with so many threads, and its samples so far."""

    ranks: int
    threads: int
    method: str
    found: list[Prepared]
    calls: int
    samples: list[list[Sample]] = field(default_factory=list)  # by round, then by rank


def measure_ranks(
    settings: RankSettings, progress: Progress = lambda fraction, text: None
) -> Record:
    """Starts the ranks and runs the benchmark.

    Args:
        settings: what to measure.
        progress: told the fraction done and what is being done.

    Returns:
        The record, with every method that could not be measured and why.

    Raises:
        BenchError: for a request that cannot be fulfilled, or a rank that is lost, in one line.

    Each round visits every number of ranks, of threads and every method, and the next one in the
    opposite order, so that what else the machine does disturbs all of them alike. A call is as
    long as its slowest rank's. Ctrl-C ends the measurement and keeps the tasks that are done.
    """
    dtype, device = check_ranks(settings)
    points, methods, skipped = plan_ranks(settings)
    for point in points:
        check_memory_of_ranks(point, settings, dtype, device)
    ranks, threads = ([*dict.fromkeys(x)] for x in (settings.ranks, settings.threads))
    record = Record(
        provenance(device, []) | {"threads": threads, "cores": cores(), "busy_elsewhere": None},
        {
            "dtype": settings.dtype,
            "heads": settings.heads,
            "head_dim": settings.head_dim,
            "batch": 1,
            "seed": settings.seed,
            "repeats": settings.repeats,
            "budget": settings.budget,
            "backward": settings.backward,
            "ranks": ranks,
            "threads": threads,
        },
        {
            name: entry(*case.defined, [case.prepare.__name__], case.prepare.__module__)
            for name, case in CASES.items()
            if name in methods and case.defined
        },
        skipped=skipped,
    )
    deadline = time.perf_counter() + settings.budget
    elsewhere = []
    with _pools(ranks, settings) as pools:
        for number, point in enumerate(points):
            left = len(points) - number
            until = time.perf_counter() + (deadline - time.perf_counter()) / left
            start, share = number / len(points), 1 / len(points)

            def tell(
                fraction: float, text: str, start: float = start, share: float = share
            ) -> None:
                _report_part(progress, start, share, fraction, text)

            try:
                turns = _prepare(point, settings, methods, pools, record, tell)
                elsewhere.append(_take_turns(point, settings, turns, pools, until, tell))
            except KeyboardInterrupt:
                if not record.results:
                    raise
                record.skipped.extend(
                    RankSkipped(rest.task, name, rest.n, INTERRUPTED, None)
                    for rest in points[number:]
                    for name in methods
                )
                break
            record.results.extend(_result(point, settings, turn) for turn in turns)
    if not record.results:
        reasons = "; ".join(dict.fromkeys(f"{skip.method}: {skip.reason}" for skip in skipped))
        raise BenchError(
            "method: none of the methods can be measured here. {reasons}.", reasons=reasons
        )
    known = [load for load in elsewhere if load is not None]
    record.provenance["busy_elsewhere"] = max(known) if known else None
    return record


@contextmanager
def _pools(ranks: list[int], settings: RankSettings) -> Iterator[Mapping[int, Pool]]:
    pools: dict[int, Pool] = {}
    try:
        for size in ranks:
            pools[size] = Pool(size, settings)
        yield pools
    finally:
        close_all([*pools.values()])


def _prepare(
    point: RankPoint,
    settings: RankSettings,
    methods: list[str],
    pools: Mapping[int, Pool],
    record: Record,
    progress: Progress,
) -> list[_Turn]:
    """The first calls of each method; what cannot be done, or takes too long, is left out."""
    share = _MOST * settings.budget
    turns, failed = [], set[tuple[int, str]]()
    for size, pool in pools.items():
        pool.ask("draw", point.length(size))
        for threads in dict.fromkeys(settings.threads):
            for name in methods:
                most = CASES[name].most
                if (size, name) in failed or (most is not None and size > most):
                    continue
                progress(0.0, f"{point}, {size} ranks, {name}")
                try:
                    turns.append(_first_calls(pool, name, threads, share))
                except CannotBeDone as met:
                    failed.add((size, name))
                    n = point.length(size)
                    record.skipped.append(RankSkipped(point.task, name, n, str(met), size))
    return turns


def _first_calls(pool: Pool, name: str, threads: int, share: float) -> _Turn:
    found = [Prepared(*answer) for answer in pool.ask("prepare", name, threads)]
    seconds = max(one.seconds for one in found)
    try:
        _check_time(seconds, share, TAKES)
    except BenchError as slow:
        raise CannotBeDone(str(slow)) from None
    return _Turn(pool.size, threads, name, found, clock.calls_for(seconds))


def _take_turns(
    point: RankPoint,
    settings: RankSettings,
    turns: list[_Turn],
    pools: Mapping[int, Pool],
    until: float,
    progress: Progress,
) -> float | None:
    """Samples of all of them; how many cores others kept busy meanwhile, where that is known."""
    start, busy, own = time.perf_counter(), busy_seconds(), _processor_seconds(pools)
    order = [*turns]
    for done in range(1, settings.repeats + 1):
        for number, turn in enumerate(order):
            answers = pools[turn.ranks].ask("sample", turn.method, turn.threads, turn.calls)
            turn.samples.append([Sample(*answer) for answer in answers])
            part = ((done - 1) * len(order) + number + 1) / (settings.repeats * len(order))
            progress(part, f"{point}, {turn.ranks} ranks, {turn.method}")
        if done >= clock.FEWEST and time.perf_counter() > until:
            break
        order.reverse()
    seconds, after = time.perf_counter() - start, busy_seconds()
    if busy is None or after is None:
        return None
    return max(0.0, (after - busy - (_processor_seconds(pools) - own)) / seconds)


def _processor_seconds(pools: Mapping[int, Pool]) -> float:
    """Seconds of processors, of this process and of all ranks."""
    return time.process_time() + sum(sum(pool.ask("processor_seconds")) for pool in pools.values())


def _result(point: RankPoint, settings: RankSettings, turn: _Turn) -> RankResult:
    n = point.length(turn.ranks)
    shape = [1, settings.heads, n, settings.head_dim]
    slowest = [max(one.seconds for one in ranks) for ranks in turn.samples]
    messages = [
        max(one.messages for one in ranks if one.messages is not None)
        for ranks in turn.samples
        if ranks[0].messages is not None
    ]
    processors = [
        sum(one.processors for one in ranks) / seconds
        for ranks, seconds in zip(turn.samples, slowest, strict=True)
    ]
    return RankResult(
        task=point.task,
        method=turn.method,
        n=n,
        query=shape,
        key=shape,
        **asdict(clock.summarise(slowest)),
        error=max(one.error for one in turn.found),
        peak_bytes=max(one.peak_bytes for one in turn.found),
        sdpa_backend=turn.found[0].sdpa_backend,
        ranks=turn.ranks,
        threads=turn.threads,
        messages=median(messages) if messages else None,
        cores=median(processors) if torch.device(settings.device).type == "cpu" else None,
    )
