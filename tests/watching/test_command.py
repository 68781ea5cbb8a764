"""The command ``attnref watch``: the script runs as by itself, and what was seen follows."""

import sys

import pytest

from attnref import cli

SCRIPT = """
import sys
from torch.nn.functional import scaled_dot_product_attention as attend
import torch

print("argumentos", *sys.argv[1:])
x = torch.ones(1, 2, 5, 8)
attend(x, x, x, is_causal=True)
if "--step" in sys.argv:
    attend(x[:, :, :1], x, x, is_causal=True)
if "--stop" in sys.argv:
    raise KeyboardInterrupt
if "--fail" in sys.argv:
    raise ValueError("lost")
sys.exit(7 if "--seven" in sys.argv else 0)
"""


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def run(*words):
        words = [str(script) if word == "SCRIPT" else word for word in words]
        monkeypatch.setattr(sys, "argv", ["attnref", "watch", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


def test_a_script_keeps_its_arguments_its_output_and_its_status(typed):
    status, output, error = typed("--lang", "en", "SCRIPT", "--rows", "3", "--seven")
    assert (status, output) == (7, "argumentos --rows 3 --seven\n")
    assert error.startswith("Attention calls: 1; places: 1. Nothing is suspicious.")
    assert "script.py:8  1      5 × 5" in error


def test_what_is_wrong_is_named_by_file_and_line_and_ends_with_one(typed):
    status, _, error = typed("--lang", "pt", "SCRIPT", "--step")
    assert status == 1
    assert "errado · script.py:10: is_causal com n = 1 e m = 5" in error
    status, _, error = typed("--no-judge", "SCRIPT", "--step")
    assert (status, "is_causal" in error) == (0, False)


def test_what_a_script_raises_is_shown_and_what_was_seen_is_kept(typed):
    status, _, error = typed("--lang", "en", "SCRIPT", "--fail")
    assert status == 1
    assert "ValueError: lost" in error
    assert "Attention calls: 1" in error
    status, _, error = typed("--lang", "en", "--live", "SCRIPT", "--stop")
    assert (status, "Attention calls: 1; places: 1." in error) == (130, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope.py",), "attnref watch: script: 'nope.py' is no file."),
        (("--lang", "xx", "SCRIPT"), "attnref watch: lang: expected one of en, pt, got 'xx'."),
    ],
)
def test_what_cannot_be_run_says_why(typed, monkeypatch, words, said):
    monkeypatch.setenv("LC_ALL", "C")
    status, _, error = typed(*words)
    assert (status, error.startswith(said)) == (2, True)
