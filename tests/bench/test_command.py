"""The command line: what it prints, what it writes, and how it says no."""

import builtins
import xml.etree.ElementTree as ElementTree

import pytest

from attnref.bench import runner
from attnref.bench.plan import Method
from attnref.bench.record import Record, stale_methods

TINY = ["bench", "sdpa", "linear", "-t", "dense", "-n", "23", "--heads", "2", "--head-dim", "8"]


def test_it_prints_a_table_and_writes_a_record_and_a_chart(attnref, tmp_path):
    output = tmp_path / "record.json"
    options = ["--repeats", "2", "--output", str(output), "--charts", str(tmp_path)]
    status, out, err = attnref(*TINY, *options)
    assert (status, err) == (0, "")
    assert "dense, speed against sdpa" in out
    record = Record.load(output)
    assert {result.method for result in record.results} == {"sdpa", "linear"}
    assert stale_methods(record) == []
    svg = (tmp_path / "dense.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_what_is_missing_is_printed(attnref, monkeypatch):
    monkeypatch.setattr(Method, "missing", lambda method: method.needs and "not here")
    status, out, _ = attnref(*TINY, "x-transformers")
    assert status == 0
    assert "left out: x-transformers, dense: not here\n" in out
    assert "\nlocal-attention: window  (not here)\n" in attnref("bench", "--list")[1]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["bench", "nope"], "attnref bench: method: expected one of "),
        (["bench", "--dtype", "int8"], "attnref bench: dtype: expected one of "),
        (["bench", "--device", "cuda:99"], "attnref bench: device: PyTorch does not see 'cuda:99'"),
        (["bench", "sdpa", "-n", "9999999999"], "attnref bench: n: the inputs and the exact"),
        (["bench", "--output", "no/such/x.json"], "attnref bench: output: the folder no/such "),
        (["bench", "--output", "/"], "attnref bench: output: cannot write to /: "),
        (["bench", "--output", "/proc/x"], "attnref bench: output: cannot write to /proc/x: "),
        (["bench", "--charts", "/proc"], "attnref bench: charts: cannot write to /proc"),
        (["bench", "--charts", "no/such"], "attnref bench: charts: the folder no/such does"),
        (["bench", "--threads", "2"], "attnref bench: threads: 2 was given without --ranks"),
        (["bench", "--ranks", "2", "--charts", "."], "attnref bench: charts: cannot be combined"),
        (["bench", "--ranks", "0"], "attnref bench: ranks: expected a number of at least 1, got 0"),
        (["bench", "flex", "--ranks", "2"], "attnref bench: method: expected one of sdpa, ring_z"),
    ],
)
def test_a_wrong_wish_is_one_line_and_status_2(attnref, arguments, start):
    status, out, err = attnref(*arguments)
    assert (status, out.strip()) == (2, "")
    assert err.startswith(start)
    assert err.count("\n") == 1


def test_methods_can_be_listed(attnref):
    status, out, _ = attnref("bench", "--list")
    assert status == 0
    assert "sdpa: dense, causal, window, blocks, decode, drafts, latent, paged, packed\n" in out
    assert "\nlinear: dense, causal\n" in out
    assert "\nring_zigzag, with --ranks: strong, weak\n" in out


def test_help_names_the_subcommand(attnref):
    status, out, _ = attnref("--help")
    assert status == 0
    assert "Usage: attnref [OPTIONS] COMMAND" in out
    assert "bench" in out


def test_without_its_packages_it_says_how_to_install_them(attnref, monkeypatch):
    real = builtins.__import__

    def without_typer(name, *arguments):
        if name == "typer":
            raise ModuleNotFoundError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_typer)
    status, out, err = attnref("bench")
    assert (status, out) == (2, "")
    assert err == (
        "attnref: the command line needs typer and rich. Run pip install '.[cli]' in a clone, or "
        "pip install './WHEEL[cli]' with the site's wheel.\n"
    )


def test_what_was_measured_before_an_interruption_is_kept(attnref, monkeypatch, tmp_path):
    real = runner.clock.alternate

    def interrupted(runs, device, **options):
        if next(iter(runs.values()))().shape[-2] > 23:
            raise KeyboardInterrupt
        return real(runs, device, **options)

    monkeypatch.setattr(runner.clock, "alternate", interrupted)
    output = tmp_path / "record.json"
    status, out, _ = attnref(*TINY, "-n", "29", "-n", "31", "--output", str(output))
    assert status == 130
    assert "left out: sdpa, dense n=29: interrupted\n" in out
    record = Record.load(output)
    assert {(one.method, one.n) for one in record.results} == {("sdpa", 23), ("linear", 23)}
    assert {skip.n for skip in record.skipped} == {29, 31}


def test_an_interruption_before_any_result_just_ends_it(attnref, monkeypatch, tmp_path):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.clock, "alternate", interrupted)
    assert attnref(*TINY, "--output", str(tmp_path / "record.json"))[0] == 130
    assert list(tmp_path.iterdir()) == []


def test_one_method_alone_is_compared_with_nothing(attnref):
    out = attnref("bench", "linear", "-t", "dense", "-n", "23", "--heads", "2")[1]
    assert "dense" in out
    assert "speed" not in out
