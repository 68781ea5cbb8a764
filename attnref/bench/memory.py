"""Memory: the most bytes that a call holds at one time, beyond those held before it."""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

# That of torch.profiler loads PyTorch's compiler first, which takes seconds.
from torch.autograd.profiler import profile

_MEMINFO = Path("/proc/meminfo")


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Peak of what one call allocates, its output included and its arguments not.

    Args:
        run: called once.
        device: on a CPU every allocation of PyTorch is recorded by its profiler, those inside
            its kernels too, but not the scratch that libraries below it take for themselves; on
            CUDA the allocator keeps the peak.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with (
        _silence_stderr(),
        profile(profile_memory=True) as recorded,
    ):
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with _silence_stderr():
            recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    changes.sort(key=lambda event: float(event["ts"]))
    live = peak = 0
    for change in changes:
        live += change["args"]["Bytes"]
        peak = max(peak, live)
    return peak


def free_bytes(device: torch.device) -> int | None:
    """How much memory the device can still give; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not _MEMINFO.exists():
        return None
    fields = dict(line.split(":") for line in _MEMINFO.read_text(encoding="ascii").splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


@contextlib.contextmanager
def _silence_stderr() -> Iterator[None]:
    """Keeps the profiler's own log, written by C++ to the standard error, off the screen."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
