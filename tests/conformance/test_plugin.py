"""The same properties in pytest: one item each, and nothing at all until it is asked."""

import re
import subprocess
import sys

import pytest

from attnref.conformance import plugin
from attnref.conformance.properties import PROPERTIES

MODULE = """
import torch

def leaks(query, key, value, attn_mask=None):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask)

def renamed(query, key, value, mask=None):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)

def wrong(query, key, value, is_causal=False, softcap=None, scale=None):
    return torch.softmax(query @ key.mT / query.shape[-1], -1) @ value

class Layer(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, query, key, value):
        return wrong(query * self.temperature, key, value)
"""


SCALE = ("--attention", "mine:wrong", "-k", "scale and not causal")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Runs pytest within pytest, in a folder with a module; gives its status and output."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # it is for the run outside

    def run(*arguments):
        options = ("-p", "pytest_attnref", "-p", "no:cacheprovider", "-p", "no:xdist")
        status = pytest.main([*options, "-p", "no:cov", *arguments])
        sys.modules.pop("mine", None)
        return status, "".join(capfd.readouterr())

    return run


@pytest.mark.claim("properties-are-pytest-items")
def test_each_property_is_an_item(run):
    status, out = run("--attention", "mine:leaks", "-v", "-rs", "--durations=0", "-rA")
    assert status == pytest.ExitCode.OK, out
    assert f"collected {len(PROPERTIES)} items" in out
    assert "mine:leaks::row_sums PASSED" in out
    assert "mine:leaks::causality SKIPPED (It takes no is_causal" in out
    assert "- Captured unsafe call -" in out
    assert "NaN in the value of a key that attn_mask forbids reaches query 0" in out
    assert "39 passed, 23 skipped" in out


def test_a_failure_shows_its_diagnosis(run):
    status, out = run(*SCALE, "--attention-lang", "pt")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "mine:wrong scale" in out
    assert (
        "\nCom d_k = 64 ela se comporta como 1/d_k = 0.0156, mas deveria ser 1/sqrt(d_k) = 0.125.\n"
        in out
    )
    assert "\n# devolveu [[[[" in out
    assert "\nfrom mine import wrong\n" in out
    assert "Traceback" not in out


def test_its_language_is_that_of_the_locale(run, monkeypatch):
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    out = run(*SCALE)[1]
    assert "\nCom d_k = 64 ela se comporta como 1/d_k = 0.0156, mas deveria ser" in out


def test_its_options(run):
    leak = ("--attention", "mine:leaks", "-k", "nan_behind_mask")
    assert run(*leak)[0] == pytest.ExitCode.OK
    assert run(*leak, "--attention-strict")[0] == pytest.ExitCode.TESTS_FAILED
    causal = ("--attention", "mine:wrong", "-k", "causality")
    assert run(*causal)[0] == pytest.ExitCode.TESTS_FAILED
    status, out = run(*causal, "--attention-supports", "scale, softcap", "-rs")
    assert (status, "1 skipped" in out) == (pytest.ExitCode.OK, True)


def test_an_option_that_is_wrong_is_said_once(run, subtests):
    for option, said in {
        "device=gpu": "device: 'gpu' is not the name of a device.",
        "dtype=int8": "dtype: expected one of float32, float64, bfloat16, float16, got 'int8'.",
        "seed=-1": "seed: expected a number from 0 to 9223372036854775807, got -1.",
        "limit=0": "limit: expected a positive, finite number of seconds, got 0.0.",
        "map=mask": "map: 'mask' is not name=value.",
        "layout=dn": "layout: expected one of bhnd, bnhd, ",
    }.items():
        with subtests.test(option):
            status, out = run("--attention", "mine:leaks", f"--attention-{option}")
            assert status == pytest.ExitCode.USAGE_ERROR
            assert out.count(f"ERROR: --attention, {said}") == 1
            assert "Traceback" not in out
            assert " failed" not in out


def test_its_own_names_its_seed_and_its_limit(run):
    causal = ("--attention", "mine:renamed", "-k", "mask_polarity")
    assert "1 passed" in run(*causal)[1]
    limits = ("--attention-seed", "7", "--attention-limit", "9")
    status, out = run(*causal, "--attention-map", "attn_mask=mask", *limits)
    assert (status, "1 passed" in out) == (pytest.ExitCode.OK, True)


def test_a_layer_is_given_what_it_needs(run):
    layer = ("--attention", "mine:Layer", "-k", "row_sums", "--attention-with")
    assert "1 passed" in run(*layer, "temperature=1.0")[1]
    assert (
        "ERROR: --attention, with: 'temperature' is not name=value" in run(*layer, "temperature")[1]
    )


def test_it_stands_beside_other_tests(run, tmp_path):
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n", encoding="utf-8")
    status, out = run("--attention", "mine:leaks", "-k", "test_other or shape")
    assert status == pytest.ExitCode.OK
    assert "2 passed" in out


def test_what_breaks_in_the_checker_shows_its_traceback(run, monkeypatch):
    def broken(*arguments, **settings):
        raise RuntimeError("the property shape itself broke")

    monkeypatch.setattr(plugin, "judge", broken)
    status, out = run("--attention", "mine:leaks", "-k", "shape")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "def broken(" in out
    assert "RuntimeError: the property shape itself broke" in out


def test_what_does_not_load_is_said_in_one_message(run, tmp_path, subtests):
    for line, said in {
        "raise ValueError('no data')": "could not be loaded: ValueError: no data. Fix it",
        "import pytest; pytest.skip('x', allow_module_level=True)": "could not be loaded: Skipped",
        "class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd": "ZeroDivisionError",
        "import os; os._exit(3)": "process before it could be tested: exit status 3. Fix it",
        "": " has no 'attention'. It has: ",
    }.items():
        with subtests.test(said):
            (tmp_path / "odd.py").write_text(line, encoding="utf-8")
            status, out = run("--attention", "odd.py:attention")
            assert status == pytest.ExitCode.USAGE_ERROR
            assert out.count("ERROR: --attention, ") == 1
            assert said in out
            assert "INTERNALERROR" not in out


@pytest.mark.parametrize("place", ["mine", "mine.py", "a folder/mine.py"])
def test_an_id_that_is_printed_can_be_run_again(run, tmp_path, place):
    if place == "a folder/mine.py":
        (tmp_path / "a folder").mkdir()
        (tmp_path / "mine.py").rename(tmp_path / place)
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n", encoding="utf-8")
    target = f"{place}:wrong"
    _, out = run("--attention", target, "-k", "scale and not causal or row_sums")
    (printed,) = re.findall("^FAILED (.+::scale)", out, re.MULTILINE)
    assert printed == f"{target}::scale"
    status, out = run(printed, *(("--attention", target) if place == "mine.py" else ()))
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "collected 1 item\n" in out
    assert f"FAILED {printed}" in out
    status, out = run(printed, f"{target}::row_sums", "test_other.py")
    assert "1 failed, 2 passed" in out


PROJECT = """
[tool.attnref.check."mine.py:leaks"]
only = ["shape", "fully_masked", "nan_behind_mask"]
strict = true
[tool.attnref.check."mine.py:leaks".expect]
nan_behind_mask = { verdict = "unsafe", reason = "PyTorch does so" }
shape = { verdict = "unsafe", reason = "long ago" }

[tool.attnref.check."mine.py:wrong"]
only = ["row_sums"]
"""


def test_all_functions_that_the_project_names_are_collected(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    status, out = run("--attention", "pyproject.toml", "-rA", "-v")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 passed, 1 xfailed" in out
    assert "\nmine.py:wrong::row_sums PASSED" in out
    (expected,) = re.findall("^XFAIL mine.py:leaks::nan_behind_mask - (.+)", out, re.MULTILINE)
    assert expected.endswith("(expected: PyTorch does so)")
    assert "(expected: unsafe, long ago)" in out
    status, out = run("mine.py:leaks::nan_behind_mask")
    assert (status, "1 xfailed" in out) == (pytest.ExitCode.OK, True)


def test_a_project_that_cannot_be_collected_is_a_usage_error(run, tmp_path):
    for said, error in (
        ("", "--attention, pyproject.toml: no table says what to check."),
        (f"{PROJECT}[tool.attnref.check.'mine.py:gone']", "--attention, mine.py:gone: function: "),
    ):
        (tmp_path / "pyproject.toml").write_text(said, encoding="utf-8")
        status, out = run("--attention", "pyproject.toml")
        assert status == pytest.ExitCode.USAGE_ERROR
        assert f"ERROR: {error}" in out


def test_an_id_of_no_property_is_a_usage_error(run):
    status, out = run("mine:wrong::no_such")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --attention, only: 'no_such' is not the name of a property." in out


def test_an_id_of_another_function_is_no_file(run):
    status, out = run("mine:wrong::scale", "--attention", "mine:leaks")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "file or directory not found: mine:wrong::scale" in out


def test_without_the_option_nothing_is_loaded(tmp_path):
    code = (
        "import sys, pytest; "
        "status = pytest.main(['-p', 'pytest_attnref', '-p', 'no:cacheprovider', '-q']); "
        "print(int(status), [name for name in sys.modules if name in ('torch', 'attnref')])"
    )
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert answer.stdout.splitlines()[-1] == "0 []", answer.stdout + answer.stderr
