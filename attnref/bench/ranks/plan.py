"""How many ranks attend to how long a sequence, and whether they can be started."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attnref.bench import memory
from attnref.bench.plan import KEPT_FREE, Settings, check
from attnref.bench.problems import BenchError
from attnref.bench.ranks.cases import CASES
from attnref.bench.record import RankSkipped, Skipped
from attnref.text import one_of


@dataclass(frozen=True, kw_only=True)
class RankSettings(Settings):
    """What to measure: each number of ranks, with each number of threads for every rank."""

    ranks: Sequence[int]
    threads: Sequence[int] = (1,)


@dataclass(frozen=True)
class Scaling:
    """A task: how long the whole sequence is for a number of ranks, and n where none is given."""

    length: Callable[[int, int], int]
    n: int


SCALINGS = {
    "strong": Scaling(lambda n, ranks: n, 4096),
    "weak": Scaling(lambda n, ranks: n * ranks, 1024),
}


@dataclass(frozen=True)
class RankPoint:
    """One task with one n: the length of the whole, or of the part of a rank."""

    task: str
    n: int

    def length(self, ranks: int) -> int:
        """Of the whole sequence."""
        return SCALINGS[self.task].length(self.n, ranks)

    def __str__(self) -> str:
        return f"{self.task} n={self.n}"


def plan_ranks(settings: RankSettings) -> tuple[list[RankPoint], list[str], list[Skipped]]:
    """All points in the order of measurement, the methods, and who cannot be there at all."""
    chosen = list(CASES) if settings.methods is None else list(settings.methods)
    tasks = list(SCALINGS) if settings.tasks is None else list(settings.tasks)
    for what, names, known in (("method", chosen, CASES), ("task", tasks, SCALINGS)):
        for name in names:
            if name not in known:
                raise BenchError(one_of(what, known, name))
    device = torch.device(settings.device).type
    methods, skipped = [], list[Skipped]()
    for name in dict.fromkeys(chosen):
        case = CASES[name]
        if case.device not in (None, device):
            reason = f"it runs on {case.device} devices, this measurement on {device}"
            skipped += [RankSkipped(task, name, None, reason, None) for task in tasks]
        elif case.most is None or min(settings.ranks) <= case.most:
            methods.append(name)
    if not methods:
        raise BenchError(
            "method: not available on {device} with {ranks} ranks: {chosen}. Leave the methods "
            "out to measure all that are.",
            device=device,
            ranks=_list(settings.ranks),
            chosen=", ".join(chosen),
        )
    points = [
        RankPoint(task, n) for task in tasks for n in sorted(settings.lengths or [SCALINGS[task].n])
    ]
    return points, methods, skipped


def check_ranks(settings: RankSettings) -> tuple[torch.dtype, torch.device]:
    """As :func:`attnref.bench.plan.check`; also whether there are devices for all ranks."""
    dtype, device = check(settings)
    for name, counts in (("ranks", settings.ranks), ("threads", settings.threads)):
        for count in counts:
            if count < 1:
                raise BenchError(
                    "{name}: expected a number of at least 1, got {count}.", name=name, count=count
                )
    most = max(settings.ranks)
    if device.index is not None:
        raise BenchError(
            "device: with ranks it must be cpu or cuda, because rank r uses GPU r, got "
            "{device!r}. Leave the number out.",
            device=settings.device,
        )
    if device.type == "cuda" and most > torch.cuda.device_count():
        raise BenchError(
            "ranks: expected at most {count}, one for each GPU that PyTorch sees, got {most}. "
            "Lower --ranks, or measure with --device cpu.",
            count=torch.cuda.device_count(),
            most=most,
        )
    return dtype, device


def check_memory_of_ranks(
    point: RankPoint, settings: RankSettings, dtype: torch.dtype, device: torch.device
) -> None:
    """Whether each process can hold the whole sequence once, as it does to draw its part."""
    free = memory.free_bytes(device)
    for ranks in settings.ranks:
        numbers = point.length(ranks) * settings.heads * settings.head_dim
        # Beside query, key and value: parts in three layouts, an output, and gathered keys.
        each = numbers * (6 * dtype.itemsize + 16)
        needed = each * (1 if device.type == "cuda" else ranks)
        if free is not None and needed > KEPT_FREE * free:
            raise BenchError(
                "n: with {ranks} ranks the inputs do not fit in the {free:.1f} GB that are free: "
                "with n = {n}, task {task!r} needs {needed:.1f} GB. Lower --n, --ranks, --heads "
                "or --head-dim.",
                ranks=ranks,
                free=free / 1e9,
                n=point.length(ranks),
                task=point.task,
                needed=needed / 1e9,
            )


def cores() -> int:
    """How many of this machine's this process may use."""
    known = getattr(os, "sched_getaffinity", lambda process: range(os.cpu_count() or 1))
    return len(known(0))


def _list(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))
