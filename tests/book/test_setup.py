"""What make installs: for whom, of what, and how it says no."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from book.make import lowest

ROOT = Path(__file__).parent.parent.parent


def run(command, folder, **environment):
    """In an environment without what the make that runs the tests has left there."""
    ours = {"MAKEFLAGS", "MAKELEVEL", "PYTHON"}
    env = {name: value for name, value in os.environ.items() if name not in ours} | environment
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "my projects, é"
    (folder / "book/make").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "book/make/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("site", ["docs"]),
        ("serve", ["docs"]),
        ("live", ["docs"]),
        ("book", ["test"]),
        ("test", ["test"]),
    ],
)
def test_who_reads_installs_no_tools_of_the_tests(checkout, target, what):
    said = run(["make", "-n", target], checkout).stdout
    assert re.findall(r"book/make/setup\.sh (\S+) ", said) == what


def test_what_is_installed_is_not_installed_again(checkout):
    (checkout / ".venv").mkdir()
    for stamp in ("site", "ready"):
        (checkout / ".venv" / stamp).touch()
    assert "setup" not in run(["make", "-n", "site", "test"], checkout).stdout


@pytest.mark.parametrize("python", ["/nope", "false"])
def test_a_python_that_is_none_is_refused(checkout, python):
    ran = run(["make", "site", f"PYTHON={python}"], checkout)
    assert ran.returncode == 2
    assert f"attnref: PYTHON: expected Python 3.11.5 or newer, got {python}, which is" in ran.stderr
    assert not (checkout / ".venv").exists()


def test_the_oldest_python_is_what_the_pinned_packages_accept():
    setup = (ROOT / "book/make/setup.sh").read_text("utf-8")
    oldest = re.search(r"^oldest=([\d.]+)", setup, re.M)[1]
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in setup
    assert f"You need Python {oldest} or newer" in (ROOT / "README.md").read_text("utf-8")
    for name in reached("attnref", ("attnref", "test"), *docs()):
        wanted = metadata.metadata(name).get("Requires-Python", "")
        assert SpecifierSet(wanted).contains(oldest), f"{name} asks for Python {wanted}"


def test_a_python_in_a_path_with_blanks_will_do(checkout):
    python = checkout / "my python"
    python.symlink_to(sys.executable)
    # What would install says what it was asked for.
    (checkout / ".venv/bin").mkdir(parents=True)
    fake = checkout / ".venv/bin/python"
    fake.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    fake.chmod(0o755)
    ran = run(["make", ".venv/site", f"PYTHON={python}"], checkout)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].endswith(
        "--constraint constraints.txt --requirement .venv/docs.txt"
    )
    assert (checkout / ".venv/site").exists()


def docs():
    """What builds the site, as pyproject.toml names it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [re.match(r"[\w.-]+", one)[0] for one in project["dependency-groups"]["docs"]]


def reached(*distributions):
    """The distributions that installing these brings; one may come with an extra."""
    found = {}
    waiting = [each if isinstance(each, tuple) else (each, "") for each in distributions]
    while waiting:
        name, extra = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if extra in found.setdefault(key, set()):
            continue
        found[key].add(extra)
        for line in metadata.requires(name) or ():
            wanted, _, marker = line.partition(";")
            of = re.search(r"extra == ['\"]([^'\"]+)", marker)
            if (of[1] if of else "") != extra:
                continue
            other, brought = re.match(r"([\w.-]+)(?:\[([^\]]*)\])?", wanted.strip()).groups()
            try:
                metadata.version(other)
            except metadata.PackageNotFoundError:  # of another system or Python
                continue
            waiting += [(other, each) for each in ("", *filter(None, (brought or "").split(",")))]
    return set(found)


def test_the_group_docs_holds_all_that_builds_the_site():
    files = [*ROOT.glob("book/*.py"), *ROOT.glob("book/stage/*.py"), *ROOT.glob("book/finish/*.py")]
    files.append(ROOT / "book/make/serve.py")
    ours = {"attnref", "book"}
    imported = {
        name.partition(".")[0]
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    others = imported - ours - sys.stdlib_module_names
    assert {"mkdocs", "filelock", "jinja2"} <= others
    brought = reached(*docs())
    providers = metadata.packages_distributions()
    for name in sorted(others):
        names = {re.sub(r"[-_.]+", "-", each).lower() for each in providers[name]}
        assert names & brought, name
    assert not brought & {"attnref", "matplotlib", "playwright", "pytest", "torch"}


def test_licences_are_published_with_what_they_are_of():
    """Every file of docs/shared is a file of the site."""
    for fonts in {path.parent for path in (ROOT / "docs/shared").rglob("*.woff2")}:
        assert "SIL OPEN FONT LICENSE Version 1.1" in (fonts / "LICENSE").read_text("utf-8")
    katex = (ROOT / "docs/shared/math/LICENSE").read_text("utf-8")
    assert katex.startswith("The MIT License")
    assert katex == (ROOT / "docs/math/LICENSE").read_text("utf-8")


def test_the_lowest_versions_are_those_of_pyproject():
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lowest.requirements())
    assert {line.partition("==")[0] for line in lowest.requirements()} == {
        *("torch", "numpy", "typer", "rich", "ruff")
    }
