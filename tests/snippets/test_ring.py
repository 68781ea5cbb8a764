"""The program of the page on ring attention, as the page says that it is started."""

import subprocess
import sys
from pathlib import Path

SNIPPET = Path(__file__).parents[2] / "snippets" / "variants" / "ring" / "ring.py"


def test_torchrun_starts_it():
    program = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    said = subprocess.run(
        [sys.executable, *program, str(SNIPPET)], capture_output=True, text=True, timeout=300
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout == SNIPPET.with_suffix(".out").read_text(encoding="utf-8")
