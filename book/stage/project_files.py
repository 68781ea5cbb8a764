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
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from book.page import ROOT, headings
from book.stage.names import add_links, read

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
        raise PluginError(
            f"{path}:1: expected {len(known)} headings, as in {name}, got {len(found)}"
        )
    for english, heading in zip(known, found, strict=True):
        lines[heading.line - 1] += f" {{#{slugify(english.title, '-')}}}"
    text = NOTE.sub("", "\n".join(lines[1:]).strip())
    # What shows how to include a file must not include one; a line is escaped at its first marker.
    text = re.sub(r"^(.*?)--8<--", r"\1;--8<--", text, flags=re.MULTILINE)
    if path == root / name and language != ENGLISH:
        return f'<div lang="{ENGLISH}" markdown>\n\n{text}\n\n</div>'
    return text


def on_pre_build(config: MkDocsConfig) -> None:
    section.cache_clear()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    language = Path(config.docs_dir).name
    package = read(config)
    return PLACE.sub(
        lambda match: add_links(section(ROOT, match["name"], language), package), markdown
    )
