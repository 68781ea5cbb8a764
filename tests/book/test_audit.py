"""The audit lists a claim whose test cannot fail, and no other."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

PROJECT = '[tool.pytest.ini_options]\nmarkers = ["claim(id): of a page"]\npythonpath = ["."]\n'
PACKAGE = "def double(x):\n    return 2 * x\n"
TESTS = """
import pytest
from package import double


@pytest.mark.claim("good")
@pytest.mark.parametrize("x", [3, 5])
def test_double(x):
    assert double(x) == x + x


@pytest.mark.claim("empty")
def test_nothing():
    double(3)
    assert True


@pytest.mark.claim("crash")
def test_that_it_runs():
    double(3) // 6
    assert [].append(double(3)) is None


@pytest.mark.claim("alone")
def test_of_arithmetic():
    sum_of_odds = sum(range(1, 8, 2))
    assert sum_of_odds == 16


@pytest.mark.claim("broken")
def test_that_fails():
    assert double(3) == 7
"""


def test_the_claims_that_no_mutant_can_break_are_listed(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "package.py").write_text(PACKAGE, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, ROOT / "book/make/audit.py", "--root", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    *judged, summary = run.stdout[: run.stdout.index(" processors")].splitlines()
    where = "tests/test_it.py::"
    assert sorted(line for line in judged if line.startswith(tuple("abcdefg"))) == [
        f"alone: killed (stands alone, 2 tried); {where}test_of_arithmetic",
        f"broken: fails as it is (0 tried); {where}test_that_fails",
        f"crash: kills none (2 tried); {where}test_that_it_runs",
        f"empty: kills none (2 tried); {where}test_nothing",
        f"good: killed (1 tried); {where}test_double",
    ]
    assert "    package.py:2 in double: 2 * x → 2 / x (survived)" in judged
    assert "    package.py:2 in double: 2 → 3 (stopped: AssertionError)" not in judged
    assert summary.startswith("2 of 5 claims have a test that kills a mutant; 1 stand alone; ")
    assert run.stdout.splitlines()[-3:] == ["    broken", "    crash", "    empty"]
