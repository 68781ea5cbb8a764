"""Where a number comes from: code, machine, versions and settings."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

import attnref
from attnref.bench.problems import Problem

_CPUINFO = Path("/proc/cpuinfo")


def provenance(device: torch.device, distributions: list[str]) -> dict[str, object]:
    """All that is needed to judge or repeat a measurement on this machine, ready for JSON.

    Args:
        device: of the measurement.
        distributions: packages whose versions matter beside those of this one and PyTorch.

    ``commit`` and ``dirty`` tell of the checkout that holds the package; both are None where it
    was installed without one. ``dirty`` sees changes of the package only, not of what is
    beside it.
    """
    commit, dirty = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", ".")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
        "dirty": None if dirty is None else bool(dirty),
        "processor": processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "device": device.type,
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "system": platform.system(),
        "versions": {
            "python": platform.python_version(),
            "attnref": attnref.__version__,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            **{name: metadata.version(name) for name in ("numpy", *distributions)},
        },
    }


def processor() -> str:
    """The model's name, as far as the system tells."""
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def sdpa_backend(problem: Problem) -> str:
    """Which of its kernels PyTorch's SDPA takes for these inputs without a mask tensor."""
    if problem.layer is not None:
        heads = problem.layer.num_heads
        tokens = problem.query
        query = key = value = tokens.reshape(*tokens.shape[:2], heads, -1).transpose(1, 2)
    else:
        query, key, value = problem.query, problem.key, problem.value
    choice = torch._fused_sdp_choice(
        query,
        key,
        value,
        is_causal=problem.is_causal,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return SDPBackend(choice).name


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(Path(attnref.__file__).parent), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
