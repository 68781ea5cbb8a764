"""Turns ``[@key]`` into a link to the bibliography, and writes the bibliography itself.

The one source is docs/references.bib; a key that is not in it stops the build.
"""

import posixpath
import re
from functools import cache
from pathlib import Path

import bibtexparser
from bibtexparser import middlewares
from mkdocs.exceptions import PluginError
from pages import ROOT, Problem, lines_outside_blocks, replaced_outside_blocks, stop_at

CITATION = re.compile(r"\[@(?P<key>[A-Za-z0-9_-]+)\]")
PAGE = "reference/bibliography.md"
PLACE = "<!-- every source -->"
AND = {"pt": "e", "en": "and"}


def read_bibliography(root: Path) -> dict[str, dict[str, str | list[str]]]:
    """Fields of each entry by key; ``author`` is a list of family and given names."""
    path = root / "docs" / "references.bib"
    return _entries(path, path.stat().st_mtime_ns)


@cache
def _entries(path: Path, changed: int) -> dict[str, dict[str, str | list[str]]]:
    """Those of a file, which is read once a change."""
    library = bibtexparser.parse_file(
        str(path),
        append_middleware=[
            middlewares.LatexDecodingMiddleware(),
            middlewares.SeparateCoAuthors(),
            middlewares.SplitNameParts(),
        ],
    )
    if library.failed_blocks:
        failed = library.failed_blocks[0]
        raise PluginError(f"docs/references.bib:{failed.start_line + 1}: {failed.error}")
    return {
        entry.key: {field.key: field.value for field in entry.fields} for entry in library.entries
    }


def cited(text: str) -> list[str]:
    """The keys that a page cites, in order."""
    prose = "\n".join(line for _, line in lines_outside_blocks(text))
    return [match["key"] for match in CITATION.finditer(prose)]


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Each citation whose key is not in the BibTeX file."""
    known = read_bibliography(root)
    return [
        Problem(page, number, f"[@{match['key']}] is not in docs/references.bib")
        for number, line in lines_outside_blocks(text)
        for match in CITATION.finditer(line)
        if match["key"] not in known
    ]


def on_page_markdown(markdown: str, page, config, files) -> str:
    stop_at(problems, page)
    language = Path(config.docs_dir).name
    target = posixpath.relpath(PAGE, posixpath.dirname(page.file.src_uri) or ".")

    def show(match: re.Match) -> str:
        entry = read_bibliography(ROOT)[match["key"]]
        return f"[{_authors(entry, language)} ({entry['year']})]({target}#{match['key']})"

    markdown = replaced_outside_blocks(CITATION, show, markdown)
    if page.file.src_uri == PAGE:
        if PLACE not in markdown:
            raise PluginError(f"{page.file.abs_src_path}:1: expected the line {PLACE}")
        markdown = markdown.replace(PLACE, _list())
    return markdown


def _authors(entry, language: str) -> str:
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
