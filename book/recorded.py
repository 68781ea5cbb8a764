"""What of the pages is recorded by ``make record``, and which of it a page shows."""

import re
from pathlib import Path

from book.page import ROOT

PACKAGE = "package.py"


def snippets(root: Path = ROOT) -> list[Path]:
    """The files with a section to show; others, without one, are what several of them share."""
    return _holding("# --8<-- [start:", root / "snippets")


def figures(root: Path = ROOT) -> list[Path]:
    """The scripts with text to set in a drawing; others are what several of them share."""
    return _holding("\nTEXT = {", root / "docs" / "figures")


def notebooks(root: Path = ROOT) -> list[Path]:
    """Those in English; what is put out is the same in each language."""
    return sorted((root / "docs" / "en" / "notebooks").glob("*.ipynb"))


def first_values(root: Path = ROOT) -> list[Path]:
    """What computes the numbers that a page shows before a script has run."""
    return [*sorted((root / "docs" / "explorers").glob("*/values.py")), root / "docs" / PACKAGE]


def page_scripts(page: str, root: Path = ROOT) -> list[Path]:
    """The scripts whose output, drawing or first view a page shows, such as foundations/dropout."""
    path = root / "docs" / "en" / f"{page}.md"
    if path.with_suffix(".ipynb").is_file():
        return [path.with_suffix(".ipynb")]
    if not path.is_file():
        raise ValueError(f"there is no page {path.relative_to(root)}; name one as folder/page")
    text = path.read_text(encoding="utf-8")
    shown = set(re.findall(r'--8<-- "(snippets/[\w/-]+)\.(?:py|out)', text))
    drawn = set(re.findall(r"\]\(figure:([a-z0-9-]+)", text))
    moving = re.findall(r"<!-- explorer: ([a-z-]+)", text)
    return [
        *(path for path in snippets(root) if str(path.relative_to(root).with_suffix("")) in shown),
        *(path for path in figures(root) if path.stem in drawn),
        *(path for path in first_values(root) if path.parent.name in moving),
    ]


def _holding(mark: str, folder: Path) -> list[Path]:
    return [
        path for path in sorted(folder.rglob("*.py")) if mark in path.read_text(encoding="utf-8")
    ]
