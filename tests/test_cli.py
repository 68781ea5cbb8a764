"""The command as a program: its encodings, its output that is closed or full, its version."""

import io
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import attnref
from attnref import cli

MODULE = """
import os, torch
os.write(1, b"noise")
def attention(query, key, value, is_causal=False):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
"""


@pytest.fixture
def attnref_(tmp_path):
    """Runs ``python -m attnref`` in a folder of its own, with this encoding; gives what it did."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")

    def run(command, encoding="utf-8", stdout=subprocess.PIPE):
        plain = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        line = f"exec {shlex.quote(sys.executable)} -m attnref {command}"
        # Python itself starts in a locale of ASCII only from a folder with such a name.
        locale = "C" if sys.prefix.isascii() else "C.UTF-8"
        env = {**os.environ, **plain, "LC_ALL": locale}
        return subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=env, stdout=stdout, stderr=subprocess.PIPE
        )

    return run


def test_any_encoding_will_do(attnref_):
    ran = attnref_("check mine.py:attention --only alignment", "ascii")
    assert ran.returncode == 0, ran.stderr
    assert b"alignment" in ran.stdout
    assert b"noise" not in ran.stdout
    solved = attnref_("exercise solution --lang pt entropy", "latin-1")
    assert solved.returncode == 0, solved.stderr
    assert "Quão" in solved.stdout.decode()  # Python reads UTF-8


def test_what_machines_read_is_utf_8(attnref_):
    ran = attnref_("check mine.py:attention --only alignment --format junit", "cp1252")
    assert "≠" in ran.stdout.decode()
    assert b"encoding='utf-8'" in ran.stdout


CHECK, LIST = "check mine.py:attention --only shape", "exercise list"


@pytest.mark.parametrize(
    ("command", "redirection", "said"),
    [
        (CHECK, ">/dev/full", b"attnref: [Errno 28] No space left on device. The output was"),
        (LIST, ">&-", b"attnref: standard output is closed. Redirect it"),
        (CHECK, ">&- 2>&-", b""),
        (CHECK, "2>&-", None),
    ],
)
def test_what_cannot_be_printed_is_status_2(attnref_, command, redirection, said):
    ran = attnref_(f"{command} {redirection}")
    if said is None:
        assert ran.returncode == 0
    else:
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert ran.stderr.removeprefix(b"noise").startswith(said)
        assert ran.stderr.count(b"\n") == (1 if said else 0)


@pytest.mark.parametrize("command", ["copy --list", "check mine.py:attention --only alignment"])
def test_a_reader_that_has_gone_is_status_2(command, attnref_):
    """Whoever prints: Python, or rich, which ends the program with 1 by itself."""
    reading, writing = os.pipe()
    os.close(reading)
    ran = attnref_(command, stdout=writing)
    os.close(writing)
    assert (ran.returncode, ran.stderr.removeprefix(b"noise")) == (2, b"")


def test_it_says_its_version(attnref):
    assert attnref("--version") == (0, f"attnref {VERSION}\n", "")


def test_help_is_short_too(attnref):
    assert attnref("-h") == attnref("--help")
    assert attnref("check", "-h") == attnref("check", "--help")
    assert "--install-completion" in attnref("-h")[1]


VERSION = attnref.__version__


@pytest.fixture
def odd(attnref, monkeypatch):
    """Runs a command that does as it is told."""

    def run(does):
        monkeypatch.setattr(cli, "COMMANDS", {"odd": "odd_commands", "other": "odd_commands"})
        module = SimpleNamespace(odd=does, other=lambda: None)
        monkeypatch.setitem(sys.modules, "odd_commands", module)
        try:
            return attnref("odd")
        finally:
            for name in ("stdout", "stderr"):
                if getattr(getattr(sys, name), "name", "") == os.devnull:
                    getattr(sys, name).close()

    for name in ("stdout", "stderr"):  # so that they come back
        monkeypatch.setattr(sys, name, getattr(sys, name))
    return run


def raises(error):
    def command() -> None:
        print("some of it")
        raise error

    return command


def test_what_breaks_is_status_2(odd):
    status, _, err = odd(raises(ZeroDivisionError("oh")))
    assert status == 2
    assert err.startswith("Traceback")
    assert err.endswith(
        "ZeroDivisionError: oh\nattnref: this is not a finding: an error occurred, shown above.\n"
    )


def test_what_cannot_be_written_is_said(odd):
    status, _, err = odd(raises(OSError(28, "No space left on device")))
    assert (status, err) == (
        2,
        "attnref: [Errno 28] No space left on device. The output was not written, or only "
        "in part.\n",
    )


def test_a_disk_that_is_full_at_the_end_is_noticed(odd, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    status, _, err = odd(lambda: None)
    assert (status, err.startswith("attnref: [Errno 28] No space left")) == (2, True)


def test_a_stream_that_typer_gave_up_is_status_2(odd):
    assert odd(raises(BrokenPipeError(32, "Broken pipe")))[::2] == (2, "")


def test_closed_streams_are_status_2(odd, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert odd(lambda: None)[0] == 2
    monkeypatch.setattr(sys, "stderr", None)
    assert odd(lambda: None) == (2, "", "")


def test_it_is_a_module_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attnref", "--version"])
    for module in ("__main__.py", "cli.py"):
        path = Path(cli.__file__).with_name(module)
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(path), run_name="__main__")
        assert (stopped.value.code, capsys.readouterr().out) == (0, f"attnref {VERSION}\n")
