"""Shows files of the project as pages: the changelog, and how to contribute.

Each stands once, where contributors look for it. A page holds ``<!-- file CHANGELOG.md -->``, and
gets the file without its title. Of a file in several languages, ``CONTRIBUTING.md`` and
``CONTRIBUTING.pt.md``, each language gets its own; a file in English alone is marked as English.
Sections have the same ids in both languages, made from the English headings.
"""

import re
from functools import cache
from pathlib import Path

from markdown.extensions.toc import slugify

from book.edition import Edition
from book.page import ROOT, BookError, Page, headings
from book.stage import api
from book.stage.names import add_links

AFTER = ("includes",)
ENGLISH = "en"
PLACE = re.compile(r"^<!-- file (?P<name>[\w.]+) -->$", re.MULTILINE)
NOTE = re.compile(r"\n<!-- agrees: \w+ -->$")  # book/make/agree.py's


def file(root: Path, name: str, language: str) -> Path:
    """The file in this language, or in English where it has no other."""
    path = root / name
    own = path.with_suffix(f".{language}{path.suffix}")
    return own if own.is_file() else path


@cache
def section(root: Path, name: str, language: str) -> str:
    """The file as part of a page: without its title, with an id for each heading."""
    _, *known = headings((root / name).read_text(encoding="utf-8"))
    path = file(root, name, language)
    lines = path.read_text(encoding="utf-8").split("\n")
    _, *found = headings("\n".join(lines))
    if len(found) != len(known):
        raise BookError(f"{path}:1: expected {len(known)} headings, as in {name}, got {len(found)}")
    for english, heading in zip(known, found, strict=True):
        lines[heading.line - 1] += f" {{#{slugify(english.title, '-')}}}"
    text = NOTE.sub("", "\n".join(lines[1:]).strip())
    if path == root / name and language != ENGLISH:
        return f'<div lang="{ENGLISH}" markdown>\n\n{text}\n\n</div>'
    return text


def stage(markdown: str, page: Page, edition: Edition) -> str:
    return PLACE.sub(
        lambda match: add_links(
            section(ROOT, match["name"], edition.language), edition.package, api.link(page, edition)
        ),
        markdown,
    )
