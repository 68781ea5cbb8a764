"""Turns ``[@key]`` into a link to the bibliography, and writes the bibliography itself.

As in Pandoc, brackets may cite several sources, and words may stand before a key and, after a
comma, say where in it: ``[see @one, sec. 3; @other, p. 7]``. The one source is
docs/references.bib; a key that is not in it stops the build.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import bibtexparser.entrypoint
from bibtexparser import middlewares

from book.edition import Edition
from book.page import ROOT, BookError, Page, Problem, files, find_in_prose, replace_in_prose

# Brackets with an @ that begins a word; what is written in them is judged source by source.
CITATION = re.compile(r"\[(?P<sources>[^\[\]]*(?<![^\s\[;-])@\w[^\[\]]*)\](?!\()")
SOURCE = re.compile(r"(?P<before>(?:[^@]*\s)?)@(?P<key>[\w-]+)(?:, *(?P<where>[^@]+))?")
AFTER = ("claims",)
PAGE = "reference/bibliography.md"
PLACE = "<!-- every source -->"
Entry = dict[str, Any]  # str; of "author" the names
AND = {"pt": "e", "en": "and"}


def read_bibliography(root: Path) -> dict[str, Entry]:
    """Fields of each entry by key; ``author`` is a list of family and given names."""
    path = root / "docs" / "references.bib"
    return _entries(path, path.stat().st_mtime_ns)


@cache
def _entries(path: Path, changed: int) -> dict[str, Entry]:
    """Those of a file, which is read once a change."""
    library = bibtexparser.entrypoint.parse_file(
        str(path),
        append_middleware=[
            middlewares.LatexDecodingMiddleware(),
            middlewares.SeparateCoAuthors(),
            middlewares.SplitNameParts(),
        ],
    )
    if library.failed_blocks:
        failed = library.failed_blocks[0]
        line = (failed.start_line or 0) + 1
        raise BookError(f"docs/references.bib:{line}: {failed.error}")
    return {
        entry.key: {field.key: field.value for field in entry.fields} for entry in library.entries
    }


def _sources(citation: re.Match[str]) -> list[re.Match[str] | None]:
    """What brackets cite, one by one; None where it is not written as it should be."""
    return [SOURCE.fullmatch(source.strip()) for source in citation["sources"].split(";")]


def citation_keys(text: str) -> list[str]:
    """The keys that a page cites, in order."""
    found = (
        source for _, citation in find_in_prose(CITATION, text) for source in _sources(citation)
    )
    return [source["key"] for source in found if source]


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Each source that is not written as it should be, or is not in the BibTeX file."""
    known = read_bibliography(root)
    found = []
    for line, citation in find_in_prose(CITATION, text):
        for source in _sources(citation):
            if source is None:
                message = f"{citation[0]}: expected [@key], [@one; @two] or [@key, sec. 3]"
                found.append(Problem(page, line, message))
            elif source["key"] not in known:
                message = f"[@{source['key']}] is not in docs/references.bib"
                found.append(Problem(page, line, message))
    return found


def stage(markdown: str, page: Page, edition: Edition) -> str:
    target = page.link(PAGE)

    def show(citation: re.Match[str]) -> str:
        shown = []
        for source in filter(None, _sources(citation)):
            entry = read_bibliography(ROOT)[source["key"]]
            year = ", ".join(filter(None, (entry["year"], source["where"])))
            link = f"[{_authors(entry, edition.language)} ({year})]({target}#{source['key']})"
            shown.append(source["before"] + link)
        return "; ".join(shown)

    if "@" in markdown:
        markdown = replace_in_prose(CITATION, show, markdown)
    return page.fill(markdown, PLACE, _list()) if page.uri == PAGE else markdown


def _authors(entry: Entry, language: str) -> str:
    names = [" ".join((*name.von, *name.last)) for name in entry["author"]]
    if len(names) > 2:
        return f"{names[0]} et al."
    return f" {AND[language]} ".join(names)


def _list() -> str:
    """All sources in the order of their keys, each with an anchor of its key."""
    lines = []
    for key, entry in sorted(read_bibliography(ROOT).items()):
        names = [
            " ".join((*name.first, *name.von, *name.last, *name.jr)) for name in entry["author"]
        ]
        where = entry.get("journal") or entry.get("booktitle") or entry.get("publisher")
        parts = [f"{', '.join(names)} ({entry['year']}). *{entry['title']}*."]
        if where:
            parts.append(f"{where}.")
        if "eprint" in entry:
            parts.append(f"[arXiv {entry['eprint']}](https://arxiv.org/abs/{entry['eprint']}).")
        if "url" in entry:
            parts.append(f"<{entry['url']}>")
        lines.append(f'- <span id="{key}">{" ".join(parts)}</span>')
    return "\n".join(lines)


def book_contract(root: Path) -> list[str]:
    """Sources that no page cites."""
    cited = set()
    for page in files(root):
        cited |= set(citation_keys(page.read_text(encoding="utf-8")))
    uncited = sorted(read_bibliography(root).keys() - cited)
    return [f"docs/references.bib: {key} is cited by no page" for key in uncited]
