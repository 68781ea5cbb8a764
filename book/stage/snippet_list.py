"""Writes the catalogue of snippets: all programs of the book, by the pages that show them."""

import ast
import posixpath
from functools import cache
from pathlib import Path

from book import recorded
from book.edition import Edition
from book.page import ROOT, Page, blocks, headings, title
from book.stage.includes import INCLUDE

AFTER = ("citations",)
PAGE = "reference/snippets.md"
PLACE = "<!-- every snippet -->"
ALSO = {"pt": "também em", "en": "also on"}


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


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri != PAGE:
        return markdown
    return page.fill(markdown, PLACE, catalogue(ROOT, edition.language, list(edition.pages)))


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


def book_contract(root: Path) -> list[str]:
    """An output without a snippet, and a snippet whose page does not show it."""
    snippets = recorded.snippets(root)
    outputs = {snippet.with_suffix(".out") for snippet in snippets}
    found = [
        f"{output.relative_to(root).as_posix()} has no snippet"
        for output in sorted(set((root / "snippets").rglob("*.out")) - outputs)
    ]
    for folder in sorted({snippet.parent for snippet in snippets}):
        page = folder.relative_to(root / "snippets").as_posix()
        here = {snippet for snippet in snippets if snippet.parent == folder}
        shown = recorded.page_scripts(page, root) if (root / f"docs/en/{page}.md").is_file() else []
        for snippet in sorted(here - set(shown)):
            name = snippet.relative_to(root).as_posix()
            found.append(f"{name}: docs/en/{page}.md does not show it; move it")
    return found
