"""The processes of a measurement across ranks, as whoever starts them sees them."""

import multiprocessing
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attnref.bench.problems import BenchError
from attnref.bench.ranks.plan import RankSettings
from attnref.bench.ranks.worker import serve

_STAT = Path("/proc/stat")
_LEAVING = 10  # seconds that a process has to end when it is told to


class CannotBeDone(Exception):
    """What all ranks refuse alike, and can go on after."""


class Pool:
    """``size`` ranks of one group, which take one job after another."""

    def __init__(self, size: int, settings: RankSettings) -> None:
        methods = multiprocessing.get_all_start_methods()
        copied = "forkserver" in methods
        # Copies of one process that has loaded all that ranks need, and the compiler that the
        # first message of a process asks for.
        context: Any = multiprocessing.get_context("forkserver" if copied else "spawn")
        if copied:
            context.set_forkserver_preload([serve.__module__, "torch._dynamo"])
        self.size = size
        self.folder = tempfile.TemporaryDirectory()
        self.connections: list[Connection] = []
        self.processes: list[multiprocessing.Process] = []
        for rank in range(size):
            mine, theirs = context.Pipe()
            place = Path(self.folder.name) / "store"
            arguments = (theirs, rank, size, place, settings)
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.connections.append(mine)
            self.processes.append(process)

    def ask(self, job: str, *arguments: object) -> list[Any]:
        """What all ranks answer to the same, by rank.

        Raises:
            CannotBeDone: when all of them refuse.
            BenchError: when some of them do, or a rank has ended: the others cannot go on.
        """
        for connection in self.connections:
            with suppress(BrokenPipeError):  # its end is told below
                connection.send((job, *arguments))
        answers: list[Any] = []
        refused: dict[int, str] = {}
        for rank, connection in enumerate(self.connections):
            try:
                good, answer = connection.recv()
            except (EOFError, ConnectionResetError):
                raise self._end_error(rank) from None
            answers.append(answer)
            if not good:
                refused[rank] = answer
        if len(refused) == self.size and not any("DistError" in said for said in refused.values()):
            raise CannotBeDone(refused[0])
        if refused:
            raise self._refusal_error(refused)
        return answers

    def close(self) -> None:
        """Tells all ranks to end, and ends those that do not."""
        for connection in self.connections:
            with suppress(BrokenPipeError):
                connection.send(None)
            connection.close()
        for process in self.processes:
            process.join(_LEAVING)
            if process.is_alive():
                process.kill()
                process.join()
        self.folder.cleanup()

    def _end_error(self, rank: int) -> BenchError:
        self.processes[rank].join(_LEAVING)
        status = self.processes[rank].exitcode
        return BenchError(
            "ranks: rank {rank} of {size} ended with status {status} while it was measured. If "
            "memory ran out, lower --n or --ranks; what it printed is above.",
            rank=rank,
            size=self.size,
            status=status,
        )

    def _refusal_error(self, refused: dict[int, str]) -> BenchError:
        said = "; ".join(f"rank {rank}: {reason}" for rank, reason in refused.items())
        return BenchError(
            "ranks: not all of the {size} ranks went on together. {said}.",
            size=self.size,
            said=said,
        )


def busy_seconds(stat: Path = _STAT) -> float | None:
    """Of all processors of this machine since it started; None where the system does not tell."""
    if not stat.exists():
        return None
    _, *ticks = stat.read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system, _, _, interrupts, soft, stolen = map(int, ticks[:8])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def close_all(pools: Sequence[Pool]) -> None:
    for pool in pools:
        pool.close()
