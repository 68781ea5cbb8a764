"""What runs the package on a GPU runs here on a CPU, so that it works on the day it is needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import attnref
from book.make import gpu

ROOT = Path(__file__).parent.parent.parent
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "part", [gpu.check_definition, gpu.check_ranks], ids=lambda part: part.__name__
)
def test_nothing_falls_here(part):
    tried = list(part(CPU))
    assert len(tried) >= 3
    assert not [(about, wrong) for about, wrong in tried if wrong]


def test_what_is_wrong_falls_and_the_rest_is_tried(monkeypatch, tmp_path, capsys):
    def wrong(query, key, value, *rest, **options):
        if query.dtype == torch.float16:
            raise RuntimeError("no kernel\nfor this")
        return value.mean(-2, keepdim=True).expand(*query.shape[:-1], -1)

    monkeypatch.setattr(attnref, "blockwise_attention", wrong)
    assert gpu.part("definition", CPU, tmp_path) == 1
    report = json.loads((tmp_path / "cpu-definition-report.json").read_text("utf-8"))
    assert {about.partition(",")[0] for about in report["fallen"]} == {"blockwise"}
    assert report["fallen"]["blockwise, float16"].startswith("RuntimeError: no kernel")
    assert report["provenance"]["versions"]["torch"] == torch.__version__
    assert "blockwise, float32: error" in capsys.readouterr().out


def test_an_unknown_part_or_device_is_refused(monkeypatch, capsys):
    for arguments, said in (
        (["--only", "methods,warp"], "--only: expected some of methods, definition, "),
        (["--device", "cuda:99"], "--device: expected one that PyTorch sees, got cuda:99"),
    ):
        monkeypatch.setattr(sys, "argv", ["gpu.py", *arguments])
        with pytest.raises(SystemExit) as stopped:
            gpu.main()
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.audit
def test_all_of_it_runs_here_without_a_fall(tmp_path):
    command = [sys.executable, ROOT / "book/make/gpu.py", "--device", "cpu", "--output", tmp_path]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {
        *(f"cpu-{part}-report.json" for part in gpu.PARTS),
        *("cpu-float32.json", "cpu-bfloat16.json"),
    }
