"""While somebody writes (make live), stages again only the pages that an edit changes.

A page is staged again when its own file has changed, or a program, a result or a drawing that it
shows; after any other change all are. MkDocs, told ``--dirty``, builds what is staged anew. What
is made of all pages, as the list of claims, is as it was when ``make live`` began.
"""

import dataclasses
from pathlib import Path

from book import finishing, staging
from book.edition import Edition
from book.page import ROOT
from book.passes import forget

WATCHED = ("docs", "snippets", "attnref", "tests")
State = dict[Path, int]

_last: tuple[Edition, State] | None = None


def stage(new: Edition, is_dirty: bool) -> Edition:
    """The language as it is staged now: as before with what has changed, or ``new``."""
    global _last
    now = state()
    edition = dataclasses.replace(new, again=_last is not None and is_dirty)
    if _last and is_dirty:
        before, was = _last
        changed = [path for path in now.keys() | was.keys() if now.get(path) != was.get(path)]
        pages = [_shown_on(path, before) for path in changed]
        if all(pages) and before.pages.keys() == edition.pages.keys():
            before.again = True
            staging.stage_again(before, sorted({uri for some in pages for uri in some}))
            _last = before, now
            return before
    forget(finishing.PASSES)
    staging.stage(edition)
    _last = edition, now
    return edition


def state() -> State:
    """When each file changed that a page may be made of."""
    return {
        path: path.stat().st_mtime_ns
        for folder in WATCHED
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file() and path.suffix != ".pyc"
    }


def _shown_on(path: Path, edition: Edition) -> list[str]:
    """The pages that show a file: none where that is not known. Other languages have none."""
    if path.is_relative_to(edition.docs):
        uri = path.relative_to(edition.docs).as_posix()
        return [uri] if uri in edition.pages else []
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".svg":
        name = f"(figure:{path.name.partition('.')[0]}"
    elif not name.startswith("snippets/"):
        return []
    return [uri for uri, page in edition.pages.items() if name in page.source]
