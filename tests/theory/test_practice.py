"""The pages of the chapter Practice say of the questions, exercises and commands what is so."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from attnref.exercises.command import TOPICS
from attnref.exercises.exercise import all_exercises
from book.page import blocks

ROOT = Path(__file__).parents[2]
LANGUAGES = ("pt", "en")
QUESTION = re.compile(r'^\?\?\? question ".+"\n((?:    .*\n|\n)+)', re.MULTILINE)
LINKED = re.compile(r"\]\(\.\./([\w/-]+\.md)#([\w-]+)\)")
ROW = re.compile(r"^\| (\d+)\. `(\w+)` (.+?) \| .* \| \[.*\]\(\.\./([\w/-]+)\.md(?:#[\w-]+)?\) \|$")
UNIT = re.compile(r"^\| \d+\. .* \| `([\w/-]+\.py)` \| (.*) \|$", re.MULTILINE)

# What a shell makes of what is typed: the words of each command, a line each.
NOTED = """
note() { printf '%s\\t' "$@" >> commands; echo >> commands; }
attnref() { note attnref "$@"; }
pytest() { note pytest "$@"; }
"""


def page(language, name):
    return (ROOT / "docs" / language / "practice" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.claim("answers-are-backed")
def test_every_answer_has_a_test_or_a_source_and_leads_on():
    found = {language: QUESTION.findall(page(language, "questions")) for language in LANGUAGES}
    assert len(found["pt"]) == len(found["en"]) >= 27
    for language, answers in found.items():
        for answer in answers:
            said, _, link = answer.strip().rpartition("\n\n")
            assert "](claim:" in said or "[@" in said, answer
            linked = LINKED.findall(link)
            assert linked, answer
            for name, anchor in linked:
                text = (ROOT / "docs" / language / name).read_text(encoding="utf-8")
                assert f"#{anchor} }}" in text or f"#{anchor}}}" in text, (name, anchor)
                assert "](claim:" in text, name


@pytest.mark.claim("course-is-listed")
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_lists_the_course(language):
    """Number, name, title, topic and page of every exercise, in their order."""
    listed, topic = [], None
    for line in page(language, "exercises").splitlines():
        if line.startswith("#"):
            topic = line
        elif row := ROW.match(line):
            listed.append((topic, int(row[1]), *row.groups()[1:]))
    assert listed == [
        (
            f"### {TOPICS[each.topic].say(language, {})} {{#{each.topic}}}",
            each.number,
            each.name,
            each.text(language).title,
            each.page,
        )
        for each in all_exercises()
    ]


@pytest.mark.claim("plan-has-every-exercise")
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_plan_has_every_exercise_once(language):
    units = UNIT.findall(page(language, "teachers"))
    planned = [name for _, names in units for name in re.findall(r"`(\w+)`", names)]
    assert sorted(planned) == sorted(each.name for each in all_exercises())
    for program, _ in units:
        assert len(list((ROOT / "snippets").glob(f"*/{program}"))) == 1, program


def bash_blocks():
    for name in ("exercises", "checker", "teachers"):
        for block in blocks(page("en", name)):  # both languages have the same
            if block.language == "bash" and not block.body[0].startswith("pip "):
                yield pytest.param("\n".join(block.body), id=f"{name}-{block.line}")


@pytest.mark.parametrize("script", list(bash_blocks()))
def test_commands_on_the_pages_run(script, attnref, monkeypatch, tmp_path):
    """An exit status of 2, or more, says that a command is not one."""
    for name in ("checker/causal.py", "checker/fixed.py", "checker/layer.py"):
        shutil.copy(ROOT / "snippets" / "practice" / name, tmp_path)
    shutil.copy(ROOT / "snippets" / "practice" / "teachers" / "submissions.py", tmp_path)
    settings = ROOT / "snippets" / "practice" / "checker" / "settings.toml"
    shutil.copy(settings, tmp_path / "pyproject.toml")
    (tmp_path / "class" / "ana").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    shell = subprocess.run(["bash", "-c", NOTED + script], capture_output=True, text=True)
    assert (shell.returncode, shell.stderr) == (0, "")
    commands = (tmp_path / "commands").read_text(encoding="utf-8").splitlines()
    assert commands
    for command in commands:
        name, *arguments = command.rstrip("\t").split("\t")
        if name == "pytest" and "-k" not in arguments and "::" not in command:
            arguments += ("-k", "shape")  # that it is a command does not depend on what it asks
        elif arguments[0] == "check":
            arguments += ("--only", "shape")
        if name == "attnref":
            status, out, err = attnref(*arguments)
        else:
            module = [sys.executable, "-m", "pytest", *arguments]
            answer = subprocess.run(module, capture_output=True, text=True)
            status, out, err = answer.returncode, answer.stdout, answer.stderr
        assert status < 2, out + err
        assert out
        assert err == ""


def test_the_workflow_ends_with_the_command_of_the_page():
    """What it does is the shell's; that it is YAML, and what it runs, can be tested here."""
    text = (ROOT / "snippets" / "practice" / "checker" / "workflow.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["check"]["steps"]
    assert steps[-1] == {"run": "attnref check --format github"}
    recorded = (ROOT / "snippets" / "practice" / "checker" / "project.out").read_text("utf-8")
    assert recorded.startswith("$ attnref check |")
    assert steps[-2] == {"run": 'pip install "$(ls attnref-*.whl)[cli]"'}


def test_of_the_three_submissions_one_is_right_beyond_the_example():
    submitted = runpy.run_path(str(ROOT / "snippets/practice/teachers/submissions.py"))
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 5, 8, generator=generator)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    right = {
        name: torch.allclose(submitted[name](query, key, value, mask), expected, atol=1e-6)
        for name in ("ana", "bia", "caio")
    }
    assert right == {"ana": True, "bia": False, "caio": False}
