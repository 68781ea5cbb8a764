"""Builds one page alone, strictly: what make check looks at, in a part of the time of the book.

The page is named by ``ATTNREF_PAGE``; without it this does nothing. The others are left out after
the navigation is known, and what the page's links lead to in them is looked up in their files.
"""

import os
import posixpath
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs_autorefs import AutorefsPlugin

from book.page import Problem, headings, links, path_of
from book.stage import names, notebooks

NAME = "ATTNREF_PAGE"
MADE = "<!-- every "  # of all pages: such a page is built with them


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    alone = os.environ.get(NAME)
    if not alone:
        return
    here = next(page for page in nav.pages if page.file.src_uri.partition(".")[0] == alone)
    if MADE in path_of(here).read_text(encoding="utf-8"):
        return
    for page in nav.pages:
        if page is not here:
            page.file.inclusion = InclusionLevel.EXCLUDED
    references = config.plugins["autorefs"]
    assert isinstance(references, AutorefsPlugin)
    for path in names.public_names(names.read(config)):
        references.register_anchor(here, path)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    if not os.environ.get(NAME):
        return
    path = path_of(page)
    if found := problems(path, path.read_text(encoding="utf-8"), Path(config.docs_dir)):
        raise PluginError("\n".join(map(str, found)))


def problems(path: Path, text: str, docs: Path) -> list[Problem]:
    """Links of a page to a place that another page does not have."""
    found = []
    for link in links(prose(path, text)):
        target, _, ident = link.target.partition("#")
        if not ident or not target or ":" in target:
            continue
        there = Path(posixpath.normpath(path.parent / target))
        ids = places(there) if there.is_relative_to(docs) and there.is_file() else None
        if ids is not None and ident not in ids:
            found.append(Problem(path, link.line, f"{link.target}: {target} has no #{ident}"))
    return found


def prose(path: Path, text: str) -> str:
    """A page's Markdown; of a notebook, that of its cells."""
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join(c.source for c in notebooks.read(text).cells if c.cell_type == "markdown")


def places(path: Path) -> set[str] | None:
    """What a link may lead to in a page, None for one that is made of all others."""
    text = path.read_text(encoding="utf-8")
    if MADE in text or "\n::: " in text:
        return None
    if path.suffix == ".ipynb":
        return {cell.id for cell in notebooks.read(text).cells}
    return {heading.id for heading in headings(text) if heading.id}
