"""Stops the build where a link leads to a place that another page does not have."""

import posixpath

from book.edition import Edition
from book.page import Page, Problem, headings, links
from book.stage import notebooks

MADE = "<!-- every "  # a page that is made of others has places that its file does not show


def edition_problems(edition: Edition) -> list[Problem]:
    known = {uri: places(page) for uri, page in edition.pages.items()}
    found = []
    for page in edition.pages.values():
        for link in links(prose(page)):
            target, _, ident = link.target.partition("#")
            if ident and target and ":" not in target:
                ids = known.get(posixpath.normpath(posixpath.join(page.uri, "..", target)))
                if ids is not None and ident not in ids:
                    message = f"{link.target}: {target} has no #{ident}"
                    found.append(Problem(page.path, link.line, message))
    return found


def prose(page: Page) -> str:
    """A page's Markdown; of a notebook, that of its cells."""
    if not page.is_notebook:
        return page.source
    cells = notebooks.read(page.source).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def places(page: Page) -> set[str] | None:
    """What a link may lead to in a page, None for one that is made of others."""
    if MADE in page.source or "\n::: " in page.source or "<!-- file " in page.source:
        return None
    if page.is_notebook:
        return {cell.id for cell in notebooks.read(page.source).cells}
    return {heading.id for heading in headings(page.source) if heading.id}
