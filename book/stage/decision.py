"""Puts the decision of docs/decision.yml into the page on choosing a variant.

Where the page has ``<!-- the decision -->``, its first question is asked. Each answer unfolds to
the next question, or to an end: a name, its call, what is given up. The browser itself folds, so
that no JavaScript is needed.
"""

import posixpath
from pathlib import Path
from typing import Any

from book.edition import Edition
from book.page import ROOT, BookError, Page, read_yaml, title
from book.stage.guide import PAGE

AFTER = ("citations",)
PLACE = "<!-- the decision -->"
FILE = "docs/decision.yml"
LANGUAGES = {"pt", "en"}
LONGEST = 4  # questions on the way to an end
CALLS = "snippets/reference/api/index/calls.out"
FIELDS = {"questions": {"short", "ask", "answers"}, "ends": {"page", "given up"}}
OPTIONAL = {"call", "before"}  # of an end
GIVEN_UP = {"pt": "Abre mão", "en": "Gives up:"}
Decision = dict[str, dict[str, Any]]


def read(path: Path) -> Decision:
    """The questions and the ends; what is wrong with them stops the build."""
    decision: Decision = read_yaml(path.read_text(encoding="utf-8"))
    if not isinstance(decision, dict) or set(decision) != set(FIELDS):
        raise BookError(f"{path}: expected questions and ends")
    for kind, fields in FIELDS.items():
        for name, entry in decision[kind].items():
            if set(entry) - OPTIONAL != fields:
                raise BookError(f"{path}: {name}: expected {', '.join(sorted(fields))}")
    for name, question in decision["questions"].items():
        _check_languages(path, name, question["short"], question["ask"])
        if len(question["answers"]) < 2:
            raise BookError(f"{path}: {name}: expected two answers or more")
        for answer in question["answers"]:
            _check_languages(path, name, {key: answer[key] for key in answer if key != "to"})
            if answer.get("to") not in decision["questions"] | decision["ends"]:
                raise BookError(f"{path}: {name}: no question or end {answer.get('to')!r}")
    recorded = calls()
    for name, end in decision["ends"].items():
        _check_languages(path, name, end["given up"])
        if "call" not in end and name not in recorded:
            raise BookError(f"{path}: {name}: expected a call, since {CALLS} has none")
    reached = {name for way in ways(decision, path) for name in way}
    for name in [*decision["questions"], *decision["ends"]]:
        if name not in reached:
            raise BookError(f"{path}: {name}: no answer leads there")
    return decision


def calls() -> dict[str, str]:
    """How each variant is called, by the name of its function."""
    lines = (ROOT / CALLS).read_text(encoding="utf-8").splitlines()
    return {line.partition("(")[0]: line for line in lines}


def call(name: str, end: dict[str, Any]) -> str:
    """What the reader of an end types."""
    if "call" in end:
        return str(end["call"])
    before = end.get("before", "")
    return f"from attnref import {name}\n{before}output = {calls()[name]}\n"


def _check_languages(path: Path, name: str, *texts: dict[str, str]) -> None:
    for text in texts:
        if set(text) != LANGUAGES or not all(text.values()):
            raise BookError(f"{path}: {name}: expected a text in en and in pt, got {text}")


def ways(decision: Decision, path: Path) -> list[list[str]]:
    """Every way from the first question to an end: the questions that it asks, and the end."""
    found, open_ways = [], [[next(iter(decision["questions"]))]]
    while open_ways:
        way = open_ways.pop(0)
        if way[-1] in decision["ends"]:
            found.append(way)
        elif len(way) > LONGEST:
            raise BookError(f"{path}: {' > '.join(way)}: more than {LONGEST} questions")
        else:
            answers = decision["questions"][way[-1]]["answers"]
            open_ways += [[*way, answer["to"]] for answer in answers]
    return found


def question_lines(
    decision: Decision, name: str, language: str, folder: Path, number: int = 1
) -> list[str]:
    """A question with its answers, and all that they unfold to, as lines of Markdown."""
    question = decision["questions"][name]
    lines = [f"**{number}. {question['short'][language]}.** {question['ask'][language]}", ""]
    for answer in question["answers"]:
        to = answer["to"]
        if to in decision["ends"]:
            inside = end_lines(decision, to, language, folder)
        else:
            inside = question_lines(decision, to, language, folder, number + 1)
        lines += [f'??? choice "{answer[language]}"', *(f"    {line}" for line in inside), ""]
    return lines


def end_lines(decision: Decision, name: str, language: str, folder: Path) -> list[str]:
    """An end: its name and its page, the call, and what is given up."""
    end = decision["ends"][name]
    page, hash_sign, anchor = end["page"].partition("#")
    link = posixpath.relpath(page, posixpath.dirname(PAGE)) + hash_sign + anchor
    return [
        f"**`{name}`** · [{title(folder / page)}]({link})",
        "",
        "```python",
        *call(name, end).splitlines(),
        "```",
        "",
        f"{GIVEN_UP[language]} {end['given up'][language]}",
    ]


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri != PAGE:
        return markdown
    decision = read(ROOT / FILE)
    first = next(iter(decision["questions"]))
    asked = question_lines(decision, first, edition.language, edition.docs)
    return page.fill(markdown, PLACE, "\n".join(asked))
