"""Where a number comes from is written down with it."""

import json
import subprocess
from pathlib import Path

import pytest
import torch

import attnref
from attnref.bench import provenance as module
from attnref.bench.problems import TASKS, Shape
from attnref.bench.provenance import processor, provenance, sdpa_backend

CPU = torch.device("cpu")


def test_all_that_is_asked_for_is_there(device):
    made = provenance(device, ["pytest"])
    assert json.loads(json.dumps(made)) == made
    assert made["threads"] == torch.get_num_threads()
    assert made["device"] == device.type
    assert made["processor"]
    assert made["capability"] == torch.backends.cpu.get_cpu_capability()
    assert made["float32_matmul_precision"] == "highest"
    versions = made["versions"]
    assert versions["torch"] == torch.__version__
    assert versions["attnref"] == attnref.__version__
    assert versions["pytest"] == pytest.__version__
    assert set(versions) >= {"python", "numpy", "cuda"}


def test_the_commit_is_that_of_the_checkout_and_dirty_says_changed(tmp_path, monkeypatch):
    package = tmp_path / "attnref"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(attnref, "__file__", str(package / "__init__.py"))
    without = provenance(CPU, [])
    assert (without["commit"], without["dirty"]) == (None, None)

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    clean = provenance(CPU, [])
    assert (clean["commit"], clean["dirty"]) == (git("rev-parse", "HEAD"), False)
    (tmp_path / "page.md").write_text("", encoding="utf-8")  # beside the package
    assert provenance(CPU, [])["dirty"] is False
    (package / "fresh.py").write_text("", encoding="utf-8")
    assert provenance(CPU, [])["dirty"] is True


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance(CPU, [])["commit"] is None


def test_the_processor_is_named_as_far_as_the_system_tells(tmp_path, monkeypatch):
    table = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "_CPUINFO", table)
    monkeypatch.setattr(module.platform, "processor", lambda: "")
    monkeypatch.setattr(module.platform, "machine", lambda: "arm64")
    assert processor() == "arm64"
    table.write_text("processor\t: 0\nmodel name\t: Fast One\n", encoding="utf-8")
    assert processor() == "Fast One"
    table.write_text("processor\t: 0\n", encoding="utf-8")
    assert processor() == "arm64"


def test_a_cuda_device_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Big One")
    assert provenance(torch.device("cuda"), [])["accelerator"] == "Big One"
    assert Path(attnref.__file__).parent.name == "attnref"


def test_the_kernel_is_the_one_that_sdpa_takes(device):
    shape = Shape(64, 4, 16, torch.float32, device, 0)
    for task in ("dense", "causal", "decode", "layer"):
        names = torch.nn.attention.SDPBackend.__members__
        assert sdpa_backend(TASKS[task].make(shape)) in names
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert sdpa_backend(TASKS["dense"].make(shape)) == "MATH"
