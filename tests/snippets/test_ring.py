"""The program of the page on ring attention, as the page says that it is started."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SNIPPET = Path(__file__).parents[2] / "snippets" / "variants" / "ring" / "ring.py"


@pytest.mark.audit
def test_torchrun_starts_it():
    program = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    said = subprocess.run(
        [sys.executable, *program, str(SNIPPET)], capture_output=True, text=True, timeout=300
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout == SNIPPET.with_suffix(".out").read_text(encoding="utf-8")


def test_a_ring_of_one_rank(monkeypatch, capsys):
    """As torchrun starts it, but in this process."""
    launched = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    for name, value in {**launched, "TORCHELASTIC_RUN_ID": "test"}.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(SNIPPET), run_name="__main__")
    *minimal, first, held, _, _, _, _ = lines = capsys.readouterr().out.splitlines()
    same = lines[-4:]
    assert minimal == ["ring_attention: True", "ulysses_attention: True"]
    assert (first, held) == ("ranks: 1", "queries of rank 0: 1001 of 1001")
    assert len(same) == 4
    assert all(line.endswith("the same: True") for line in same)
