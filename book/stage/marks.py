"""Marks the lines of a program that matter.

In a block of Python, below what it includes, a line ``mark `weights @ value` `` quotes a piece of
code from exactly one line of the block; the marks follow the order of the lines. The same are in
both languages. So a mark cannot outlive its line, nor move to another one.
"""

import itertools
import re
from pathlib import Path
from typing import NamedTuple

from book.edition import Edition
from book.page import ROOT, Block, Page, Problem, blocks
from book.stage.includes import MARK, program

AFTER = ("cores",)
FENCE = re.compile(r"^(?P<start>\s*[`~]{3,}) *(?:\{ *\.)?(?P<rest>.*?) *\}?$")


class Mark(NamedTuple):
    """The code that a mark quotes, and the line of the page where it does."""

    line: int
    code: str


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if "mark `" not in markdown:
        return markdown
    lines = markdown.split("\n")
    for block in reversed(blocks(markdown)):
        if marks := marks_of(block):
            code = program(block, ROOT) or []
            numbers = " ".join(str(lines_with(mark.code, code)[0]) for mark in marks)
            for mark in reversed(marks):
                del lines[mark.line - 1]
            lines[block.line - 1] = FENCE.sub(
                rf'\g<start> {{ .\g<rest> data-marks="{numbers}" }}', lines[block.line - 1]
            )
    return "\n".join(lines)


def marks_of(block: Block) -> list[Mark]:
    """Those of a block, in order."""
    if block.language != "python":
        return []
    matches = enumerate(map(MARK.match, block.body), block.line + 1)
    return [Mark(line, match["code"]) for line, match in matches if match]


def lines_with(piece: str, code: list[str]) -> list[int]:
    """The lines of a program that have this piece of code, counted from 1."""
    return [number for number, line in enumerate(code, 1) if piece in line]


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Marks that no line has, or several, or that are out of order."""
    found = []
    for block in blocks(text):
        code, last = program(block, root) if marks_of(block) else None, 0
        if code is None:
            continue
        for line, piece in marks_of(block):
            where = lines_with(piece, code)
            if len(where) != 1:
                message = (
                    f"mark `{piece}` is in {len(where)} lines of this block; expected one: quote "
                    "what only the line to be marked has, or remove the mark"
                )
            elif where[0] <= last:
                message = (
                    f"mark `{piece}` is not below the line of the mark before; order marks as "
                    "their lines, one a line"
                )
            else:
                last = where[0]
                continue
            found.append(Problem(page, line, message))
    return found


def book_contract(root: Path) -> list[Problem]:
    """Where the two versions of a page mark different lines."""
    found = []
    for pt in sorted((root / "docs" / "pt").rglob("*.md")):
        en = root / "docs" / "en" / pt.relative_to(root / "docs" / "pt")
        if not en.is_file():
            continue  # which parity_problems reports
        for one, other in itertools.zip_longest(_marks(pt), _marks(en)):
            if not (one and other and one[0] == other[0]):
                here, (path, mark) = ((pt, one), (en, other)) if one else ((en, other), (pt, None))
                there = f"{path}:{mark[1]} marks `{mark[2]}`" if mark else f"{path} does not"
                message = (
                    f"marks `{here[1][2]}`, but {there}; mark the same lines in both languages"
                )
                found.append(Problem(here[0], here[1][1], message))
                break
    return found


def _marks(page: Path) -> list[tuple[tuple[int, str], int, str]]:
    """Of each mark what must be the same in both languages, its line and the code it quotes."""
    return [
        ((number, code), line, code)
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8")))
        for line, code in marks_of(block)
    ]
