"""Ranks as processes of their own, which stay alive and take one job after another."""

import contextlib
import datetime
import multiprocessing
import tempfile
import traceback
from pathlib import Path

import coverage

PATIENCE = 120  # seconds until a rank that says nothing is taken for hung
JOINING = 20  # seconds until all have found each other; a port may be taken, and they try again

# Loaded once, in the process of which all ranks are copies. The first message of a rank loads
# torch._dynamo, which takes it longer than all that it computes in many tests.
LOADED_ONCE = ["attnref.distributed", "attnref.bench.memory", "attnref.cost", "torch._dynamo"]


def _rank(connection, rank, size, place, timeout, traced):
    """What a process does: it joins the others, and answers until it is told None."""
    tracer = None
    if traced is not None:
        tracer = coverage.Coverage(data_suffix=True, **traced)
        tracer.start()
    import torch
    import torch.distributed as dist

    from tests.distributed import rank_jobs  # noqa: F401, which takes longer than some groups wait

    connection.send((True, "ready"))
    connection.recv()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(place, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    connection.send((True, "joined"))
    while (job := connection.recv()) is not None:
        function, arguments, options = job
        try:
            answer = True, function(*arguments, **options)
        except Exception as error:
            answer = False, (type(error).__name__, str(error), traceback.format_exc())
        connection.send(answer)
    if tracer is not None:
        tracer.stop()
        tracer.save()


class Failure(Exception):
    """What a rank raised: the name of its class, its message, its traceback."""

    kind, message, trace = (
        property(lambda self: self.args[0]),
        *(property(lambda self, index=index: self.args[index]) for index in (1, 2)),
    )


class Pool:
    """``size`` ranks of one gloo group."""

    def __init__(self, size, timeout=60.0):
        for _ in range(3):
            self._start(size, timeout)
            if self._have_joined():
                return
            for process in self.processes:
                process.kill()
            self.folder.cleanup()
        raise AssertionError(f"{size} ranks do not find each other")

    def _start(self, size, timeout):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LOADED_ONCE)
        self.folder = tempfile.TemporaryDirectory()
        place = str(Path(self.folder.name) / "store")
        running = coverage.Coverage.current()
        traced = running and {
            "data_file": running.config.data_file,
            "config_file": running.config.config_file or False,
            "source": running.config.source,
            "include": running.config.run_include,
            "omit": running.config.run_omit,
        }
        self.connections, self.processes = [], []
        for rank in range(size):
            mine, theirs = context.Pipe()
            arguments = (theirs, rank, size, place, timeout, traced)
            process = context.Process(target=_rank, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.connections.append(mine)
            self.processes.append(process)
        assert self.outcomes() == ["ready"] * size
        self.begin(["join"] * size)

    def _have_joined(self):
        with contextlib.suppress(EOFError, OSError):
            return all(
                each.poll(JOINING) and each.recv() == (True, "joined") for each in self.connections
            )
        return False

    def begin(self, jobs):
        """Gives each rank a job of its own, ``(function, arguments, options)``."""
        for connection, job in zip(self.connections, jobs, strict=True):
            connection.send(job)

    def outcomes(self):
        """What each rank returned, or its Failure; None of one that died."""
        found = []
        for rank, connection in enumerate(self.connections):
            try:
                assert connection.poll(PATIENCE), f"rank {rank} hangs"
                good, answer = connection.recv()
                found.append(answer if good else Failure(*answer))
            except (EOFError, ConnectionResetError):
                found.append(None)
        return found

    def __call__(self, function, *arguments, **options):
        """Runs the same on all ranks, and gives what they returned."""
        self.begin([(function, arguments, options)] * len(self.connections))
        found = self.outcomes()
        for rank, answer in enumerate(found):
            assert not isinstance(answer, Failure), f"rank {rank}: {answer.trace}"
        return found

    def close(self):
        for connection in self.connections:
            with contextlib.suppress(BrokenPipeError):  # of one that died
                connection.send(None)
        for process in self.processes:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
        self.folder.cleanup()
