"""What to measure, in which order, and whether it can be: what a benchmark is asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from attnref.bench import memory
from attnref.bench.cases import cases
from attnref.bench.methods import Method, discover
from attnref.bench.peers import peers
from attnref.bench.problems import TASKS, BenchError
from attnref.bench.pytorch import pytorch
from attnref.bench.record import Skipped
from attnref.text import one_of

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_PROBE = 2048  # where memory and time are first looked at, when all lengths are longer
KEPT_FREE = 0.8  # of the memory, the part that a method may take


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure; None means all tasks, all methods, and each task's own lengths."""

    tasks: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    lengths: Sequence[int] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    heads: int = 8
    head_dim: int = 64
    seed: int = 0
    repeats: int = 20
    budget: float = 120.0
    backward: bool = False


@dataclass(frozen=True)
class Point:
    """One task at one length; a probe is measured, but not reported."""

    task: str
    n: int
    is_probe: bool
    methods: list[Method]

    def __str__(self) -> str:
        return f"{self.task} n={self.n}"


def methods() -> dict[str, Method]:
    """Every method that can be asked, by name: variants, PyTorch's, peers."""
    return discover(cases.methods) | pytorch.methods | peers.methods


def plan(settings: Settings) -> tuple[list[Point], list[Skipped]]:
    """All points in the order of measurement, and who cannot be there at all."""
    known = methods()
    chosen = list(known) if settings.methods is None else list(settings.methods)
    tasks = list(TASKS) if settings.tasks is None else list(settings.tasks)
    _check_names("method", chosen, known)
    _check_names("task", tasks, TASKS)
    points, skipped = [], []
    for task in tasks:
        able = []
        for name in chosen:
            if task not in known[name].cases:
                continue
            reason = known[name].missing()
            if reason is None:
                able.append(known[name])
            else:
                skipped.append(Skipped(task, name, None, reason))
        lengths = sorted(TASKS[task].lengths if settings.lengths is None else settings.lengths)
        if lengths[0] > 2 * _PROBE:
            points.append(Point(task, _PROBE, True, able))
        points += [Point(task, n, False, able) for n in lengths]
    points = [point for point in points if point.methods]
    if not points and not skipped:
        able_tasks = sorted({task for name in chosen for task in known[name].cases})
        raise BenchError(
            "task: {chosen} cannot do {tasks}. Choose from {known}.",
            chosen=", ".join(chosen),
            tasks=", ".join(tasks),
            known=", ".join(able_tasks),
        )
    return points, skipped


def check(settings: Settings) -> tuple[torch.dtype, torch.device]:
    """The dtype and the device that are asked for, or a BenchError that says what is wrong."""
    counts = {"heads": settings.heads, "head-dim": settings.head_dim, "repeats": settings.repeats}
    for name, count in [*counts.items(), *(("n", n) for n in settings.lengths or ())]:
        if count < 1:
            raise BenchError(
                "{name}: expected a number of at least 1, got {count}.", name=name, count=count
            )
    if not settings.budget > 0:
        raise BenchError(
            "budget: expected a positive number of seconds, got {budget}.", budget=settings.budget
        )
    _check_names("dtype", [settings.dtype], DTYPES)
    try:
        device = torch.device(settings.device)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise BenchError(
            "device: expected cpu, cuda or cuda:<number>, got {device!r}.", device=settings.device
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BenchError(
            "device: PyTorch does not see {device!r}; it sees {count} CUDA devices.",
            device=settings.device,
            count=torch.cuda.device_count(),
        )
    return DTYPES[settings.dtype], device


def check_memory(
    point: Point, settings: Settings, dtype: torch.dtype, device: torch.device
) -> None:
    """Whether inputs, output, masks and the float64 reference fit."""
    numbers = point.n * settings.heads * settings.head_dim
    needed = numbers * (4 * dtype.itemsize + 2 * 8)
    if TASKS[point.task].masked:
        needed += 4 * point.n**2
    free = memory.free_bytes(device)
    if free is not None and needed > KEPT_FREE * free:
        raise BenchError(
            "n: the inputs and the exact answer do not fit in the {free:.1f} GB that are free: "
            "with n = {n}, task {task!r} needs {needed:.1f} GB. Lower --n, --heads or --head-dim.",
            free=free / 1e9,
            n=point.n,
            task=point.task,
            needed=needed / 1e9,
        )


def _check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise BenchError(one_of(what, known, name))
