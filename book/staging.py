"""The first step: makes the pages of a language ready, as Markdown on disk that any viewer shows.

Each pass is a module of book.stage. It takes the Markdown of a page and gives it with its part put
in (``stage``), and says what is wrong with what the author wrote, by file and line (``problems``
of a page, ``edition_problems`` of all of them). Whoever builds the site reads the folder that is
written here, and needs nothing of ours.
"""

import os
import shutil
from pathlib import Path

from book.edition import SUFFIXES, Edition
from book.page import ROOT, BookError, Page, Problem
from book.passes import forget, passes
from book.stage import downloads, notebooks

PASSES = passes("stage", ("stage", "problems", "edition_problems"))
SHARED = ROOT / "docs" / "shared"


def stage(edition: Edition) -> None:
    """Writes the pages, and what is published beside them, into ``edition.staged``.

    Raises:
        BookError: what is wrong with the pages.
    """
    forget(PASSES)
    if found := problems(edition):
        raise BookError("\n".join(map(str, found)))
    edition.files |= downloads.files()
    for folder in (SHARED, edition.docs):  # of the second what is no page
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix not in SUFFIXES:
                edition.files[path.relative_to(folder).as_posix()] = path
    for page in edition.pages.values():
        edition.files[page.staged] = ready(page, edition)
    write(edition)


def stage_again(edition: Edition, pages: list[str]) -> None:
    """The same of some pages, whose files have changed; the others are as they were."""
    for uri in pages:
        page = Page(uri, edition.pages[uri].path, edition.pages[uri].path.read_text("utf-8"))
        if found := page_problems(page):
            raise BookError("\n".join(map(str, found)))
        edition.pages[uri] = page
        edition.files[page.staged] = ready(page, edition)
    write(edition)


def problems(edition: Edition) -> list[Problem]:
    """All that is wrong with the pages as their authors wrote them."""
    found = [found for page in edition.pages.values() for found in page_problems(page)]
    for one in PASSES:
        if hasattr(one, "edition_problems"):
            found += one.edition_problems(edition)
    return found


def page_problems(page: Page) -> list[Problem]:
    return [
        found
        for one in PASSES
        if hasattr(one, "problems") and page.is_notebook == (one is notebooks)
        for found in one.problems(page.path, page.source, ROOT)
    ]


def ready(page: Page, edition: Edition) -> str:
    """The Markdown of a page with all that belongs into it."""
    markdown = page.source
    for one in PASSES:
        if hasattr(one, "stage"):
            markdown = one.stage(markdown, page, edition)
    return markdown


def write(edition: Edition) -> None:
    """Writes the files that are otherwise than before, and removes those that are gone."""
    wanted = {edition.staged / place: content for place, content in edition.files.items()}
    for path in [path for path in edition.staged.rglob("*") if path.is_file()]:
        if path not in wanted:
            path.unlink(missing_ok=True)
    for path, content in wanted.items():
        if not _is_same(path, content):
            path.parent.mkdir(parents=True, exist_ok=True)
            other = path.with_name(f"{path.name}.{os.getpid()}")  # two builds may stage at a time
            if isinstance(content, Path):
                shutil.copy2(content, other)
            else:
                other.write_text(content, encoding="utf-8")
            other.replace(path)


def _is_same(path: Path, content: Path | str) -> bool:
    if not path.is_file():
        return False
    if isinstance(content, str):
        return path.read_text(encoding="utf-8") == content
    was, now = path.stat(), content.stat()
    return (was.st_size, was.st_mtime_ns) == (now.st_size, now.st_mtime_ns)
