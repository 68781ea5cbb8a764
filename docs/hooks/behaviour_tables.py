"""Puts recorded behaviours into the page: a table for each ``behaviours`` block.

A block asks a question of docs/behaviours/questions.yml, and gets a row for each answer with those
who gave it; or it asks for all projects, and gets each with its answers and the programs that show
them, folded:

    ```behaviours
    question: fully_masked
    ```

    ```behaviours
    projects: all
    ```

Every word and number is read from docs/behaviours, which tools/behaviours.py writes. Like results,
tables are put there after the search index is made. A block that no record answers stops the build.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pages import ROOT, Block, Problem, blocks, stop_at

# As Markdown renders what this hook writes for a block.
IMAGE = re.compile(r'<p><img alt="" src="behaviours:(?P<kind>\w+)\?(?P<which>\w+)" ?/?></p>')
OTHER, ABSENT = "other", "absent"
WORDS = {
    "pt": {
        "answer": "resposta",
        "who": "quem responde assim",
        ABSENT: "sem essa opção",
        "raises": "um erro",
        OTHER: "outra resposta",
        "ends": "o processo é encerrado",
        "late": "nenhuma resposta a tempo",
        "count": "{count} implementações não têm essa opção.",
        "on": "{package} {version}, em {date}",
        "where": "Python {python}, torch {torch}, {system}",
        "upstream": "no projeto",
    },
    "en": {
        "answer": "answer",
        "who": "who answers so",
        ABSENT: "no such option",
        "raises": "an error",
        OTHER: "another answer",
        "ends": "the process ends",
        "late": "no answer in time",
        "count": "{count} implementations have no such option.",
        "on": "{package} {version}, on {date}",
        "where": "Python {python}, torch {torch}, {system}",
        "upstream": "upstream",
    },
}
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


def on_pre_build(config: MkDocsConfig) -> None:
    for kept in (questions, records, issues):
        kept.cache_clear()


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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    stop_at(problems, page)
    lines = markdown.split("\n")
    for block in reversed(list(_blocks(markdown))):
        kind, which = wish(block, ROOT)
        image = ["", f"![](behaviours:{kind}?{which})", ""]
        lines[block.line - 1 : block.line + len(block.body) + 1] = image
    return "\n".join(lines)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    language = Path(config.docs_dir).name

    def show(match: re.Match[str]) -> str:
        if match["kind"] == "question":
            return by_answer(match["which"], ROOT, language)
        return "".join(of_project(record, ROOT, language) for record in records(ROOT))

    return IMAGE.sub(show, output)


def by_answer(question: str, root: Path, language: str) -> str:
    """A row for each answer that was given, with those who gave it."""
    words = WORDS[language]
    given: dict[str, list[str]] = {}
    absent = 0
    for record in records(root):
        said: dict[str, list[str]] = {}
        for name, cells in record["implementations"].items():
            cell = cells[question]
            if cell["answer"] == ABSENT:
                absent += 1
                continue
            link = f'<a href="#{_id(record, name)}"><code>{escape(name)}</code></a>'
            detail = _detail(cell)
            row = said.setdefault(answer(cell, question, root, language), [])
            row.append(f"{link} ({detail})" if detail else link)
        for text, links in said.items():
            given.setdefault(text, []).append(f"{escape(record['project'])}: {', '.join(links)}")
    rows = "".join(
        f'<tr><th scope="row">{text}</th><td><ul>'
        + "".join(f"<li>{one}</li>" for one in given[text])
        + "</ul></td></tr>"
        for text in _in_order(question, given, root, language)
    )
    note = f"<p>{words['count'].format(count=absent)}</p>" if absent else ""
    title = escape(questions(root)[question]["title"][language])
    return (
        f'<div class="behaviours"><table><caption>{title}</caption><thead><tr>'
        f'<th scope="col">{words["answer"]}</th><th scope="col">{words["who"]}</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>{note}</div>"
    )


def answer(cell: Cell, question: str, root: Path, language: str) -> str:
    """An answer in words."""
    own = questions(root)[question]["answers"].get(cell["answer"])
    text = own[language] if own else WORDS[language][cell["answer"]]
    return escape(text)


def _in_order(
    question: str, given: dict[str, list[str]], root: Path, language: str
) -> Iterator[str]:
    own = [escape(about[language]) for about in questions(root)[question]["answers"].values()]
    general = [escape(WORDS[language][name]) for name in ("raises", OTHER, "ends", "late")]
    return (text for text in dict.fromkeys([*own, *general]) if text in given)


def _detail(cell: Cell) -> str:
    """What the answer's name leaves out: the kind of an error, an output without a name."""
    if cell["answer"] == "raises":
        return f"<code>{escape(cell['output'].partition(':')[0])}</code>"
    return f"<code>{escape(cell['output'])}</code>" if cell["answer"] == OTHER else ""


def of_project(record: dict[str, Any], root: Path, language: str) -> str:
    """All answers of a project, each with the program that shows it, folded."""
    words = WORDS[language]
    version = words["on"].format_map(record)
    parts = [
        f'<details class="behaviours"><summary>{escape(record["project"])} '
        f"<small>{escape(version)}</small></summary>"
        f"<p>{escape(words['where'].format_map(record))}</p>"
    ]
    for name, cells in record["implementations"].items():
        parts.append(f'<p id="{_id(record, name)}"><code>{escape(name)}</code></p><dl>')
        for question, cell in cells.items():
            title = escape(questions(root)[question]["title"][language])
            told = answer(cell, question, root, language)
            address = issues(root).get((record["project"], name, question))
            link = f' <a href="{escape(address)}">{words["upstream"]}</a>' if address else ""
            if cell["answer"] == ABSENT:
                parts.append(f"<dt>{title}</dt><dd>{told}</dd>")
                continue
            code = escape(f"{cell['program']}# {cell['output']}", quote=False)
            parts.append(
                f"<dt>{title}</dt><dd><details><summary>{told}</summary>"
                f"<pre><code>{code}</code></pre></details>{link}</dd>"
            )
        parts.append("</dl>")
    return "".join([*parts, "</details>"])


def _id(record: dict[str, Any], name: str) -> str:
    """Where an implementation is on the page, in both languages."""
    words = re.findall(r"[a-z0-9]+", f"{record['package']} {name}".lower().replace("…", ""))
    return "-".join(words)


def _blocks(text: str) -> Iterator[Block]:
    return (block for block in blocks(text) if block.language == "behaviours")
