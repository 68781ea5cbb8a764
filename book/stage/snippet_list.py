"""Writes the catalogue of snippets: all programs of the book, by the pages that show them."""

import ast
import posixpath
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from book.page import ROOT, blocks, fill, headings, title
from book.stage.includes import INCLUDE

PAGE = "reference/snippets.md"
PLACE = "<!-- every snippet -->"
ALSO = {"pt": "também em", "en": "also on"}


_order: list[str] = []


def shown_snippets(text: str) -> list[tuple[str, str, str]]:
    """Path, section id and section heading of each snippet that a page shows, in order.

    Of some there is only the output to be seen, as when it is what a command said.
    """
    found = []
    for block in blocks(text):
        for line in block.body:
            include = INCLUDE.match(line)
            path = Path(include["path"]) if include else Path()
            # What is no program, such as settings, is read beside the program that uses it.
            if path.parts[:1] == ("snippets",) and path.suffix in (".py", ".out"):
                *_, above = (heading for heading in headings(text) if heading.line < block.line)
                snippet = path.with_suffix(".py").as_posix()
                found.append((snippet, above.id or "", above.title))
    return list(dict.fromkeys(found))


@cache
def summary(root: Path, path: str) -> str:
    """The docstring of a snippet, in one line."""
    docstring = ast.get_docstring(ast.parse((root / path).read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def on_pre_build(config: MkDocsConfig) -> None:
    summary.cache_clear()


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _order[:] = [page.file.src_uri for page in nav.pages]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri != PAGE:
        return markdown
    return fill(markdown, PLACE, catalogue(ROOT, Path(config.docs_dir).name, _order), page)


def catalogue(root: Path, language: str, order: list[str]) -> str:
    """Each snippet under the first page that shows it, with a link to the section."""
    folder = root / "docs" / language
    places: dict[str, list[tuple[str, str, str]]] = {}
    for page in order:
        if page.endswith(".md") and (folder / page).is_file():
            for path, ident, heading in shown_snippets((folder / page).read_text(encoding="utf-8")):
                places.setdefault(path, []).append((page, ident, heading))
    parts, last = [], ""
    for path, where in places.items():
        page = where[0][0]
        if page != last:
            name = page.removesuffix(".md").replace("/", "-")
            parts.append(f"\n## {title(folder / page)} {{#{name}}}\n")
            last = page
        links = [
            f"[{heading}]({posixpath.relpath(page, posixpath.dirname(PAGE))}#{ident})"
            for page, ident, heading in where
        ]
        also = f"; {ALSO[language]} {', '.join(links[1:])}" if links[1:] else ""
        said = f'<span lang="en">{summary(root, path)}</span>'
        parts.append(f"- `{path}` · {links[0]}{also}<br>{said}")
    return "\n".join(parts)
