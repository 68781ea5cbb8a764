"""All prose keeps to docs/wordings.yml, and the contract reads what it must, and no more."""

import re
from pathlib import Path

import pytest

from tests.book import wordings

ROOT = Path(__file__).parent.parent.parent
RULES = """\
both:
  - {not: '\\d,\\d{3}', but: no comma}
en:
  - {not: '\\bthe own\\b', but: its own, except: ['\\bthe own goal\\b']}
pt:
  - {not: '\\bem paz\\b', but: preserva}
"""
MESSAGE = "(?i)'the own': write its own|'em paz': write preserva|'1,000': write no comma"
CELL = """\
{
 "cells": [
  {
   "cell_type": "markdown",
   "source": [
    "# A title\\n",
    "and the own token"
   ]
  },
  {
   "cell_type": "code",
   "source": [
    "the = own  # the own key"
   ]
  }
 ]
}
"""


@pytest.fixture
def root(tmp_path):
    """A project of nothing but rules, an exception that is needed, and empty files."""
    for name, text in {
        wordings.LIST: RULES,
        "CONTRIBUTING.md": "They scored the own goal.\n",
        "CONTRIBUTING.pt.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def written(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_no_forbidden_wording():
    problems = wordings.problems(ROOT)
    assert not problems, "\n" + "\n".join(map(str, problems))


def test_a_forbidden_wording_is_reported_where_it_is(root):
    assert wordings.problems(root) == []
    for name, text, line in (
        ("docs/en/a.md", "One.\n\nIn the\nown words.", 3),
        ("docs/en/a.md", "---\ntitle: The own key\n---\n", 2),
        ("docs/en/a.ipynb", CELL.replace("  # the own key", ""), 7),
        ("docs/en/a.ipynb", CELL.replace("the own token", "a token"), 13),
        ("README.md", "The own one.", 1),
        ("attnref/a.py", '"""One.\n\nThe own key.\n"""\n', 3),
        ("attnref/a.py", "A = 1  # the own one\n", 1),
        ("attnref/a.py", 'Text(\n    "the own key",\n    name="x")\n', 2),
        ("attnref/a/en.toml", 'a = 1\nb = "the own key"\n', 2),
        ("docs/glossary.yml", "a:\n  pt: {term: the own}\n  en:\n    term: the own\n", 4),
        ("docs/pt/a.md", "Isso deixa em paz o resto.", 1),
        ("docs/figures/a.py", 'TEXT = {"pt": {"a": "em paz"}}\n', 1),
        ("attnref/a/pt.toml", 'a = "em paz"\n', 1),
        ("attnref/locale/pt/a.po", '\nmsgid "x"\nmsgstr "em paz"\n', 2),
        ("docs/api.pt.yml", "a: em paz\n", 1),
        ("docs/glossary.yml", "a: {pt: {forms: [em paz]}}\n", 1),
        ("snippets/a.out", "some\n1,000 numbers\n", 2),  # what a program prints
    ):
        path = written(root, name, text)
        (found,) = wordings.problems(root)
        assert (found.path, found.line) == (path, line)
        assert re.fullmatch(MESSAGE, found.message)
        path.unlink()


def test_code_and_the_other_language_are_passed_over(root):
    for name, text in (
        ("docs/en/a.md", "It is `the own` here.\n\n```text\nthe own\n```\n"),
        ("docs/en/a.md", "Here is $1,000$ and [a page](the-own.md#the own)."),
        ("docs/en/a.md", "Deixa em paz."),
        ("docs/pt/a.md", "See the own key."),
        ("attnref/a.py", 'TEXT = {"pt": {"a": "the own"}, "en": {"a": "em paz"}}\n'),
        ("docs/api.pt.yml", "a: the own\n"),
        ("attnref/locale/pt/a.po", 'msgid "em paz"\nmsgstr "the own"\n'),
    ):
        written(root, name, text)
        assert wordings.problems(root) == [], text


def test_an_exception_without_use_is_reported(root):
    written(root, "CONTRIBUTING.md", "Nothing.\n")
    (found,) = wordings.problems(root)
    assert "'\\\\bthe own goal\\\\b' of '\\\\bthe own\\\\b' is needed nowhere" in found.message
