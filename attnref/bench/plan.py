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
            en=f"task: {', '.join(chosen)} cannot do {', '.join(tasks)}. Choose from "
            f"{', '.join(able_tasks)}.",
            pt=f"task: {', '.join(tasks)} não está entre as tarefas de {', '.join(chosen)}. "
            f"Escolha entre {', '.join(able_tasks)}.",
        )
    return points, skipped


def check(settings: Settings) -> tuple[torch.dtype, torch.device]:
    """The dtype and the device that are asked for, or a BenchError that says what is wrong."""
    counts = {"heads": settings.heads, "head-dim": settings.head_dim, "repeats": settings.repeats}
    for name, count in [*counts.items(), *(("n", n) for n in settings.lengths or ())]:
        if count < 1:
            raise BenchError(
                en=f"{name}: expected a number of at least 1, got {count}.",
                pt=f"{name} deve ser um número a partir de 1, mas é {count}.",
            )
    if not settings.budget > 0:
        raise BenchError(
            en=f"budget: expected a positive number of seconds, got {settings.budget}.",
            pt=f"budget deve ser um número de segundos maior que 0, mas é {settings.budget}.",
        )
    _check_names("dtype", [settings.dtype], DTYPES)
    try:
        device = torch.device(settings.device)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise BenchError(
            en=f"device: expected cpu, cuda or cuda:<number>, got {settings.device!r}.",
            pt=f"device deve ser cpu, cuda ou cuda:<número>, mas é {settings.device!r}.",
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BenchError(
            en=f"device: PyTorch does not see {settings.device!r}; it sees "
            f"{torch.cuda.device_count()} CUDA devices.",
            pt=f"device: o PyTorch não vê {settings.device!r}; ele vê {torch.cuda.device_count()} "
            "dispositivos CUDA.",
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
            en=f"n: the inputs and the exact answer do not fit in the {free / 1e9:.1f} GB that "
            f"are free: with n = {point.n}, task {point.task!r} needs {needed / 1e9:.1f} GB. "
            "Lower --n, --heads or --head-dim.",
            pt=f"n: as entradas e a resposta exata não cabem nos {free / 1e9:.1f} GB livres: com "
            f"n = {point.n}, a tarefa {point.task!r} precisa de {needed / 1e9:.1f} GB. Diminua "
            "--n, --heads ou --head-dim.",
        )


def _check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise BenchError(one_of(what, known, name))
