"""Everything that can be copied is copied, and each copy works where the package is not."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import calls
import pytest
import torch

from attnref.conformance import Verdict, check
from attnref.conformance.loading import load
from attnref.conformance.subject import CheckError
from attnref.copying import assembly
from attnref.copying.assembly import assemble
from attnref.copying.catalogue import catalogue, package
from attnref.copying.header import header

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENTRIES = catalogue(package())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One file for each entry, named after it; ruff formats all of them at once."""
    folder, commands = tmp_path_factory.mktemp("copies"), {}

    def noted(command, *, input, **options):
        commands[tuple(command)] = options
        return SimpleNamespace(stdout=input)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "subprocess", SimpleNamespace(run=noted))
        for entry in ENTRIES:
            text = assemble(entry.definition, header(entry))
            (folder / f"{entry.name}.py").write_text(text, encoding="utf-8")
    for (*command, stdin), options in commands.items():
        assert stdin == "-"
        subprocess.run([*command, folder], **options)
    return folder


@pytest.fixture(scope="module")
def stranger(folder, tmp_path_factory):
    """What a process without the package makes of the files, by their names."""
    results = tmp_path_factory.mktemp("results") / "results.pt"
    command = [sys.executable, str(HERE / "stranger.py"), str(folder), str(results)]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    return torch.load(results)


@pytest.fixture
def one_thread():
    """As in the other process, for sums depend on how they are divided."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(*command):
    answer = subprocess.run(
        [sys.executable, "-m", *map(str, command)], cwd=ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.claim("copies-need-torch-alone")
def test_nothing_is_imported_but_torch_and_the_standard_library(folder):
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                origins = (
                    [node.module]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in node.names]
                )
                for origin in origins:
                    root = origin.partition(".")[0]
                    assert root == "torch" or root in sys.stdlib_module_names, (path.name, origin)


def test_the_rules_of_the_project_hold_in_them(folder):
    run("ruff", "check", "--config", "pyproject.toml", "--no-cache", folder)
    run("ruff", "format", "--check", "--config", "pyproject.toml", "--no-cache", folder)


@pytest.mark.audit
def test_their_types_are_right(folder):
    """With what mypy remembers of torch from the types of the package."""
    run("mypy", "--config-file", "pyproject.toml", *sorted(folder.glob("*.py")))


def test_all_were_run(stranger):
    assert set(stranger) == {entry.name for entry in ENTRIES}


@pytest.mark.claim("copies-need-torch-alone")
def test_their_examples_run_alone(stranger):
    ran = {name: (attempted > 0, printed) for name, (attempted, printed, _) in stranger.items()}
    assert ran == dict.fromkeys(ran, (True, ""))


def test_no_heading_is_left_of_examples_that_are_left_out(folder):
    for path in folder.glob("*.py"):
        assert not re.search(r'Examples:\s*"""', path.read_text(encoding="utf-8")), path.name


@pytest.mark.claim("copies-give-the-same")
def test_they_give_what_the_package_gives(stranger, one_thread):
    other = []
    for entry in ENTRIES:
        module = importlib.import_module(entry.module)
        ours = calls.outcomes(module, entry.definition.names[0])
        if not calls.is_same(stranger[entry.name][2], ours):
            other.append(entry.name)
    assert other == []


def test_a_copy_that_differs_is_seen(stranger, folder, one_thread):
    text = (folder / "scaled_dot_product_attention.py").read_text(encoding="utf-8")
    broken = ModuleType("broken")
    exec(text.replace(".tril()", ".triu()"), vars(broken))
    theirs = calls.outcomes(broken, "scaled_dot_product_attention")
    assert not calls.is_same(stranger["scaled_dot_product_attention"][2], theirs)


def original(entry):
    return getattr(importlib.import_module(entry.module), entry.definition.names[0])


def is_attention(entry):
    """Whether it is called as f(query, key, value)."""
    parameters = inspect.signature(original(entry)).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty]
    return needed == ["query", "key", "value"]


ATTENTION = [entry for entry in ENTRIES if is_attention(entry)]

EXACT = {"blockwise_attention", "scaled_dot_product_attention"}


@pytest.mark.audit
@pytest.mark.parametrize("entry", ATTENTION, ids=lambda entry: entry.name)
def test_the_checker_says_of_a_copy_what_it_says_of_the_original(entry, folder):
    copy = load(f"{folder / entry.name}.py:{entry.definition.names[0]}")
    said = verdicts(copy)
    assert said == verdicts(original(entry))
    assert Verdict.WRONG not in said.values() or entry.name not in EXACT


def verdicts(function):
    """Of each property; what answers no small call at all has one refusal."""
    try:
        return {each.property: each.verdict for each in check(function, limit=None).results}
    except CheckError as refusal:
        return {"refused": re.search(r"got (.*) \(at", str(refusal))[1]}


def test_what_is_exact_was_checked():
    assert {entry.name for entry in ATTENTION} >= EXACT


def test_a_copy_is_the_same_each_time(folder):
    entry = ENTRIES[0]
    again = assemble(entry.definition, header(entry))
    assert again == (folder / f"{entry.name}.py").read_text(encoding="utf-8")
