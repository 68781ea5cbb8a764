"""What one process does in a measurement across ranks: it joins the others, and answers."""

import datetime
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attnref.bench import clock, memory
from attnref.bench.plan import DTYPES
from attnref.bench.problems import TASKS, Problem, Shape, exact_output, relative_error
from attnref.bench.provenance import sdpa_backend
from attnref.bench.ranks.cases import CASES, Part
from attnref.bench.ranks.plan import RankSettings
from attnref.bench.runner import _reason, _silence_warnings
from attnref.distributed import gather, shard

PATIENCE = datetime.timedelta(minutes=5)  # of a rank that awaits another


class Prepared(NamedTuple):
    """What a rank knows of a method before it is timed; the error is told by rank 0 alone."""

    error: float
    peak_bytes: int
    seconds: float
    sdpa_backend: str


class Sample(NamedTuple):
    """Seconds of one call: by the clock, of processors, and of its messages alone."""

    seconds: float
    processors: float
    messages: float | None


class Worker:
    """One rank: the sequence that it has drawn, and what is called on its part of it."""

    def __init__(self, settings: RankSettings, rank: int) -> None:
        self.settings = settings
        self.device = torch.device(settings.device)
        if self.device.type == "cuda":
            self.device = torch.device("cuda", rank)
        self.problem: Problem | None = None
        self.expected: Tensor | None = None
        self.parts: dict[str, Part] = {}
        self.runs: dict[str, Callable[[], object]] = {}
        self.messages: dict[str, Callable[[], None]] = {}

    def draw(self, n: int) -> None:
        """The whole sequence, the same on all ranks; what was kept of another one is dropped."""
        settings = self.settings
        sizes = settings.heads, settings.head_dim, DTYPES[settings.dtype]
        self.problem = TASKS["causal"].make(Shape(n, *sizes, self.device, settings.seed))
        self.expected = exact_output(self.problem) if dist.get_rank() == 0 else None
        for kept in (self.parts, self.runs, self.messages):
            kept.clear()

    def prepare(self, name: str, threads: int) -> Prepared:
        """The first three calls of a method: its error, its memory, and about its time."""
        assert self.problem is not None
        torch.set_num_threads(threads)
        case, part = CASES[name], self._part(CASES[name].layout)
        forward = case.prepare(part)
        with case.within():
            output = forward()
            whole = gather(output.detach(), layout=case.layout)
            error = 0.0 if self.expected is None else relative_error(whole, self.expected)
            run: Callable[[], object] = forward
            if self.settings.backward:
                leaves, grad = (part.query, part.key, part.value), torch.ones_like(output)

                def run() -> object:
                    return torch.autograd.grad(forward(), leaves, grad)

            del output, whole
            dist.barrier()
            peak = memory.peak_bytes(run, self.device)
            dist.barrier()
            seconds = clock.seconds_of(run, self.device)
        self.runs[name] = run
        if case.messages is not None and dist.get_world_size() > 1 and not self.settings.backward:
            self.messages[name] = case.messages(part)
            self.messages[name]()
        return Prepared(error, peak, seconds, sdpa_backend(self.problem))

    def sample(self, name: str, threads: int, calls: int) -> Sample:
        """So many calls of a method, which all ranks begin together; then its messages."""
        torch.set_num_threads(threads)
        with CASES[name].within():
            dist.barrier()
            busy = time.process_time()
            seconds = clock.seconds_of(self.runs[name], self.device, calls)
            busy = (time.process_time() - busy) / calls
        messages = None
        if name in self.messages:
            dist.barrier()
            messages = clock.seconds_of(self.messages[name], self.device, calls)
        return Sample(seconds, busy, messages)

    def processor_seconds(self) -> float:
        """Seconds of processors since this process began."""
        return time.process_time()

    def _part(self, layout: str) -> Part:
        assert self.problem is not None
        if layout not in self.parts:
            whole = self.problem.query, self.problem.key, self.problem.value
            query, key, value = (
                shard(x, layout=layout).requires_grad_(self.settings.backward) for x in whole
            )
            self.parts[layout] = Part(query, key, value, whole[0].shape[-2], layout)
        return self.parts[layout]


def serve(
    connection: Connection, rank: int, size: int, place: Path, settings: RankSettings
) -> None:
    """Joins the others at ``place``, and answers ``(method of Worker, arguments)`` until None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    worker = Worker(settings, rank)
    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)
    with memory._silence_stderr():  # gloo says how many it has found
        dist.init_process_group(
            "nccl" if worker.device.type == "cuda" else "gloo",
            store=dist.FileStore(str(place), size),  # type: ignore[attr-defined]
            rank=rank,
            world_size=size,
            timeout=PATIENCE,
        )
    # Whoever asks may be gone, between two jobs or in one.
    with (
        suppress(EOFError, OSError),
        torch.set_grad_enabled(settings.backward),
        _silence_warnings(),
    ):
        while (job := connection.recv()) is not None:
            name, *arguments = job
            answer: tuple[bool, Any]
            try:
                answer = True, getattr(worker, name)(*arguments)
            except Exception as met:  # told, for the others would wait for this rank
                answer = False, _reason(met)
            connection.send(answer)
    dist.destroy_process_group()
