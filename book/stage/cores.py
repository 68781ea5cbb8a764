"""Shows the code of the package on a page, with notes at its lines.

A block of Python includes a definition by its file and its name,
``--8<-- "attnref/softmax.py:merge"``; a numbered list that follows it holds its notes. Each
begins with a piece of code from exactly one line of the block, which gets the note's number,
and the notes follow the order of the lines. So a note cannot outlive the line that it explains.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import griffe

from book.edition import Edition
from book.page import ROOT, Block, Page, Problem, blocks, files, read_yaml
from book.stage import bodies, names
from book.stage.includes import INCLUDE, program
from book.stage.marks import lines_with

AFTER = ("notebooks",)
PACKAGE = "attnref/"
NOT_SHOWN = "docs/not-shown.yml"
ITEM = re.compile(r"^\d+\. +(?:(?P<ticks>`+) ?(?P<code>.+?) ?(?P=ticks)(?!`))?")


class Core(NamedTuple):
    """A block of the package's code on a page.

    Attributes:
        block: its place on the page.
        names: file and name of each definition in it.
        code: its lines.
        notes: of each note the line of the page, counted from 1, and its first piece of code.
        end: the last line of the notes, or of the block.
    """

    block: Block
    names: list[tuple[str, str]]
    code: list[str]
    notes: list[tuple[int, str]]
    end: int

    def line_of(self, note: str) -> list[int]:
        """The lines of the code that a note may mean, counted from 1."""
        return lines_with(note, self.code)


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if f'--8<-- "{PACKAGE}' not in markdown:
        return markdown
    lines = markdown.split("\n")
    for core in reversed(list(cores(markdown, ROOT))):
        block, path = core.block, core.names[0][0]
        fence = lines[block.line - 1]
        indent = fence[: len(fence) - len(fence.lstrip())]
        if core.notes:
            numbers = " ".join(str(core.line_of(note)[0]) for _, note in core.notes)
            lines[core.end :] = ["</div>", "", *lines[core.end :]]
            start = block.end
            lines[start:start] = ["", '<div class="notes" markdown>', ""]
            fence = f'{indent}``` {{ .python title="{path}" data-notes="{numbers}" }}'
        else:
            fence = f'{indent}```python title="{path}"'
        lines[block.line - 1] = fence
    return "\n".join(lines)


def cores(text: str, root: Path) -> Iterator[Core]:
    """Those of a page whose includes are right."""
    lines = text.split("\n")
    for block in blocks(text):
        found = [match for line in block.body if (match := INCLUDE.match(line))]
        names = [(match["path"], match["section"]) for match in found]
        if block.language == "python" and any(path.startswith(PACKAGE) for path, _ in names):
            code = program(block, root)
            if code is not None:
                notes, end = _notes(lines, block.end)
                yield Core(block, names, code, notes, end)


def _notes(lines: list[str], after: int) -> tuple[list[tuple[int, str]], int]:
    """The list that begins behind line ``after``, and its last line."""
    found: list[tuple[int, str]] = []
    end = after
    for number in range(after, len(lines)):
        line = lines[number]
        if item := ITEM.match(line):
            found.append((number + 1, item["code"] or ""))
        elif line.strip() and not (found and line.startswith("   ")):
            break
        if line.strip():
            end = number + 1
    return found, end


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Notes that no line has, or several, or that are out of order."""
    found = []
    for core in cores(text, root):
        last = 0
        if len({path for path, _ in core.names}) > 1:
            message = "a block shows the code of one file, which is its title"
            found.append(Problem(page, core.block.line, message))
        for line, note in core.notes:
            where = core.line_of(note) if note else []
            if not note:
                message = "a note begins with code of the line that it explains: 1. `code`: …"
            elif len(where) != 1:
                message = f"`{note}` is in {len(where)} lines of the block above; expected one"
            elif where[0] < last:
                message = (
                    f"`{note}` is above the line of the note before; order notes as their lines"
                )
            else:
                last = where[0]
                continue
            found.append(Problem(page, line, message))
    return found


def book_contract(root: Path) -> list[Problem]:
    """Public names whose code no page shows, and reasons that nothing needs."""
    package = griffe.load("attnref", search_paths=[root], try_relative_path=False)
    assert isinstance(package, griffe.Module)
    shown = {
        (path, name.partition(".")[0])
        for page in files(root)
        if "reference" not in page.parts
        for core in cores(page.read_text(encoding="utf-8"), root)
        for path, name in core.names
    }
    reasons = read_yaml((root / NOT_SHOWN).read_text(encoding="utf-8"))
    found, unneeded, entries = [], dict(reasons), names.entries(package)
    for path, one in entries.items():
        name, file = path.removeprefix("attnref."), one.relative_package_filepath.as_posix()
        text = (root / file).read_text(encoding="utf-8")
        public = {other.name for other in entries.values() if other.module is one.module}
        behind = bodies.dependencies(text, one.name, public)
        if not shown & {(file, each) for each in behind}:
            unneeded.pop(name, None)
            if name not in reasons:
                message = f"{one.name}: no page shows its body, or a function behind it"
                found.append(Problem(root / file, one.lineno or 1, message))
    for name in unneeded:
        message = f"{name}: a page shows it, or there is no such public name; remove the line"
        found.append(Problem(root / NOT_SHOWN, 1, message))
    return found
