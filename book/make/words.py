"""Counts the prose of each page in each language: what everybody reads, and what is folded.

Code, formulas, outputs and the notes at lines of code are not prose. A page has at most 2000 words,
and 600 folded: ``make words`` marks those with more.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from book.page import LANGUAGES, ROOT, lines_outside_blocks
from book.stage import cores
from book.stage.numbers import strip_front_matter
from book.stage.reading import NO_WORDS

MOST, MOST_FOLDED = 2000, 600
WORD = re.compile(r"[^\W_][\w’'-]*")
FOLD = re.compile(r"^\?\?\?")


def count(text: str, root: Path = ROOT) -> tuple[int, int]:
    """The words of a page that are seen at first, and those that are folded.

    >>> count("---\\ntitle: no\\n---\\n# One $x$\\n\\n??? note\\n    two words\\n\\nthree")
    (2, 2)
    """
    prose: dict[bool, list[str]] = {False: [], True: []}
    for line, is_folded in _prose(text, root):
        prose[is_folded].append(line)
    shown, folded = (len(WORD.findall(NO_WORDS.sub(" ", "\n".join(prose[x])))) for x in prose)
    return shown, folded


def _prose(text: str, root: Path) -> Iterator[tuple[str, bool]]:
    notes = {
        line
        for core in cores.cores(text, root)
        if core.notes
        for line in range(core.notes[0][0], core.end + 1)
    }
    is_folded = False
    for number, line in lines_outside_blocks(strip_front_matter(text)):
        if FOLD.match(line):
            is_folded = True
            continue
        is_folded = is_folded and (not line or line.startswith("    "))
        if number not in notes:
            yield line, is_folded


def main() -> None:
    table = Table(
        "page", *(f"{language}{what}" for language in LANGUAGES for what in ("", " fold"))
    )
    rows, whole = [], [0] * 4
    for page in sorted((ROOT / "docs" / "en").rglob("*.md")):
        name = page.relative_to(ROOT / "docs" / "en").as_posix()
        found = [
            number
            for language in LANGUAGES
            for number in count((ROOT / "docs" / language / name).read_text(encoding="utf-8"))
        ]
        whole = [a + b for a, b in zip(whole, found, strict=True)]
        rows.append((found, name))
    for found, name in sorted(rows, reverse=True):
        limits = (MOST, MOST_FOLDED) * 2
        cells = (f"{n}{' !' * (n > most)}" for n, most in zip(found, limits, strict=True))
        table.add_row(name, *cells)
    table.add_row(f"{len(rows)} pages", *map(str, whole))
    Console().print(table)


if __name__ == "__main__":
    main()
