"""Puts recorded behaviours into the page where it has a ``behaviours`` block.

A block asks a question of docs/behaviours/questions.yml, and gets each answer with those who gave
it, and below, folded, the programs that show the answers; or it asks for all projects, and gets
each with what its functions answered:

    ```behaviours
    question: fully_masked
    ```

    ```behaviours
    projects: all
    ```

Every word and number is read from docs/behaviours, which ``make behaviours`` writes. A block that
no record answers stops the build.

The theme's script looks at each ``details`` and each ``pre > code`` of a page, which takes a
telephone seconds where there are hundreds. So there is one ``details`` for each question, or
project, and a program is a ``pre`` alone.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import yaml

from book.edition import Edition
from book.page import ROOT, Block, Page, Problem, blocks

AFTER = ("citations",)
OTHER, ABSENT = "other", "absent"
WORDS = {
    "pt": {
        ABSENT: "não perguntado",
        "raises": "um erro",
        OTHER: "outra resposta",
        "ends": "o processo é encerrado",
        "late": "nenhuma resposta a tempo",
        "count": "Não perguntado a {count} implementações.",
        "on": "{version}, em {date}",
        "where": "Python {python}, torch {torch}, {system}",
        "programs": "Os {count} programas",
    },
    "en": {
        ABSENT: "not asked",
        "raises": "an error",
        OTHER: "another answer",
        "ends": "the process ends",
        "late": "no answer in time",
        "count": "Not asked of {count} implementations.",
        "on": "{version}, on {date}",
        "where": "Python {python}, torch {torch}, {system}",
        "programs": "The {count} programs",
    },
}
INDEX = "practice/behaviours/"  # where all projects are; below it are the pages of the questions
Cell = dict[str, str]


@cache
def questions(root: Path) -> dict[str, dict[str, Any]]:
    """What is asked, by name, in the order of the page."""
    text = (root / "docs" / "behaviours" / "questions.yml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return loaded


@cache
def records(root: Path) -> list[dict[str, Any]]:
    """What each project answered, in the order of docs/behaviours/implementations.yml."""
    folder = root / "docs" / "behaviours"
    listed = yaml.safe_load((folder / "implementations.yml").read_text(encoding="utf-8"))
    paths = [folder / "records" / f"{about['package'].lower()}.json" for about in listed.values()]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


@cache
def issues(root: Path) -> dict[tuple[str, str, str], str]:
    """Where a project speaks of an answer, by project, implementation and question."""
    path = root / "docs" / "behaviours" / "implementations.yml"
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {
        (project, name, question): address
        for project, about in listed.items()
        for name, own in about["implementations"].items()
        for question, address in {**about.get("all", {}), **own}.get("issues", {}).items()
    }


@cache
def places(root: Path) -> dict[str, str]:
    """The address of the page that asks each question, the same in both languages."""
    folder = root / "docs" / "en"
    found = {}
    for path in sorted((folder / INDEX).glob("*.md")):
        for block in _blocks(path.read_text(encoding="utf-8")):
            kind, which = wish(block, root)
            if kind == "question":
                found[which] = f"{path.relative_to(folder).with_suffix('').as_posix()}/"
    return found


def wish(block: Block, root: Path) -> tuple[str, str]:
    """What a block asks for; ValueError says what is wrong with it."""
    lines = [line.strip() for line in block.body if line.strip()]
    kind, colon, which = map(str.strip, "".join(lines).partition(":"))
    if len(lines) != 1 or not colon or kind not in ("question", "projects"):
        raise ValueError("expected one line, as in question: fully_masked or projects: all")
    known = ["all"] if kind == "projects" else list(questions(root))
    if which not in known:
        raise ValueError(f"{kind} {which!r}: expected one of {', '.join(known)}")
    if not records(root):
        raise ValueError("no record in docs/behaviours/records: run make behaviours")
    return kind, which


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Every block that no record answers."""
    found = []
    for block in _blocks(text):
        try:
            wish(block, root)
        except ValueError as error:
            found.append(Problem(page, block.line, str(error)))
    return found


def outputs(text: str, root: Path) -> Iterator[str]:
    """What the programs gave whose answers a page shows."""
    for block in _blocks(text):
        try:
            _, which = wish(block, root)
        except ValueError:
            continue  # `problems` tells of it
        for record in records(root):
            for cells in record["implementations"].values():
                shown = cells.values() if which == "all" else [cells[which]]
                yield from (cell.get("output", "") for cell in shown)


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if "```behaviours" not in markdown:
        return markdown
    lines, language = markdown.split("\n"), edition.language
    for block in reversed(list(_blocks(markdown))):
        kind, which = wish(block, ROOT)
        if kind == "question":
            index = page.address(INDEX)
            shown = [answer_list(which, ROOT, language), programs(which, ROOT, language, index)]
        else:
            there = {question: page.address(place) for question, place in places(ROOT).items()}
            shown = [project_answers(record, ROOT, language, there) for record in records(ROOT)]
        lines[block.line - 1 : block.line + len(block.body) + 1] = ["", *shown, ""]
    return "\n".join(lines)


def answer_list(question: str, root: Path, language: str) -> str:
    """Each answer that was given, with those who gave it; a name leads to its program."""
    given: dict[str, dict[str, list[str]]] = {}
    for record in records(root):
        for name, cells in record["implementations"].items():
            text = answer(cells[question], question, root, language)
            detail = _detail(cells[question])
            there = _program_id(question, record, name)
            link = f'<a href="#{there}"><code>{escape(name)}</code></a>{detail}'
            given.setdefault(text, {}).setdefault(record["project"], []).append(link)
    absent = given.pop(escape(WORDS[language][ABSENT]), {})
    rows = []
    for text in _sort_answers(question, given, root, language):
        projects = given[text]
        count = sum(map(len, projects.values()))
        lines = "".join(
            f"<p><b>{escape(project)}</b> {', '.join(links)}</p>"
            for project, links in projects.items()
        )
        rows.append(f"<div><dt>{text} <small>{count}</small></dt><dd>{lines}</dd></div>")
    title = escape(questions(root)[question]["title"][language])
    note = ""
    if absent and "of" not in questions(root)[question]:  # who else is there is no model
        note = WORDS[language]["count"].format(count=sum(map(len, absent.values())))
        note = f"<p><small>{note}</small></p>"
    return (
        f'<div class="behaviours" data-search-exclude><dl class="answers" aria-label="{title}">'
        f"{''.join(rows)}</dl>"
        f"{note}</div>"
    )


def programs(question: str, root: Path, language: str, projects: str) -> str:
    """The program of each answer, folded; ``projects`` is the address of the page of all."""
    words, parts = WORDS[language], []
    for record in records(root):
        for name, cells in record["implementations"].items():
            cell = cells[question]
            if cell["answer"] == ABSENT:
                continue
            version = (
                f'<a href="{projects}#{_id(record, name)}">{escape(_version(record, language))}</a>'
            )
            code = escape(f"{cell['program']}# {cell['output']}", quote=False)
            code = code.replace("\n\n", "\n&#10;")  # an empty line would end the HTML
            parts.append(
                f'<p id="{_program_id(question, record, name)}"><b>{escape(record["project"])}</b> '
                f"<code>{escape(name)}</code> <small>{version}</small>"
                f"{_issue(root, record, name, question)}</p><pre>{code}</pre>"
            )
    summary = words["programs"].format(count=len(parts))
    text = f"<summary>{summary}</summary>{''.join(parts)}"
    return f'<details class="behaviours programs" data-search-exclude>{text}</details>'


def answer(cell: Cell, question: str, root: Path, language: str) -> str:
    """An answer in words."""
    own = questions(root)[question]["answers"].get(cell["answer"])
    text = own[language] if own else WORDS[language][cell["answer"]]
    return escape(text)


def _sort_answers(question: str, given: dict[str, Any], root: Path, language: str) -> Iterator[str]:
    own = [about[language] for about in questions(root)[question]["answers"].values()]
    general = [WORDS[language][name] for name in ("raises", OTHER, "ends", "late")]
    return (text for text in dict.fromkeys(map(escape, own + general)) if text in given)


def _detail(cell: Cell) -> str:
    """What the answer's name leaves out: the kind of an error, an output without a name."""
    if cell["answer"] not in ("raises", OTHER):
        return ""
    output = cell["output"] if cell["answer"] == OTHER else cell["output"].partition(":")[0]
    return f" (<code>{escape(output)}</code>)"


def project_answers(
    record: dict[str, Any], root: Path, language: str, there: dict[str, str]
) -> str:
    """All answers of a project, folded; each leads to its program on the page of its question."""
    parts = [
        f'<details class="behaviours" data-search-exclude><summary>{escape(record["project"])} '
        f"<small>{escape(_version(record, language))}</small></summary>"
        f"<p>{escape(WORDS[language]['where'].format_map(record))}</p>"
    ]
    for name, cells in record["implementations"].items():
        parts.append(
            f'<p id="{_id(record, name)}"><code>{escape(name)}</code></p><dl class="answered">'
        )
        for question, cell in cells.items():
            if cell["answer"] == ABSENT:
                continue
            title = escape(questions(root)[question]["title"][language])
            told = answer(cell, question, root, language)
            link = f"{there[question]}#{_program_id(question, record, name)}"
            parts.append(
                f'<dt>{title}</dt><dd><a href="{link}">{told}</a>'
                f"{_issue(root, record, name, question)}</dd>"
            )
        parts.append("</dl>")
    return "".join([*parts, "</details>"])


def _version(record: dict[str, Any], language: str) -> str:
    version = WORDS[language]["on"].format_map(record)
    if record["package"].lower() != record["project"].lower():
        return f"{record['package']} {version}"
    return version


def _issue(root: Path, record: dict[str, Any], name: str, question: str) -> str:
    """Where the project speaks of an answer, as GitHub writes it: ``owner/name#12``."""
    address = issues(root).get((record["project"], name, question))
    if not address:
        return ""
    owner, repository, _, number = address.split("/")[-4:]
    return f' <a href="{escape(address)}">{owner}/{repository}#{number}</a>'


def _id(record: dict[str, Any], name: str) -> str:
    """Where an implementation is on the page of all projects, in both languages."""
    words = re.findall(r"[a-z0-9]+", f"{record['package']} {name}".lower().replace("…", ""))
    return "-".join(words)


def _program_id(question: str, record: dict[str, Any], name: str) -> str:
    """Where its program is on the page of a question."""
    return f"program-{question.replace('_', '-')}-{_id(record, name)}"


def _blocks(text: str) -> Iterator[Block]:
    return (block for block in blocks(text) if block.language == "behaviours")
