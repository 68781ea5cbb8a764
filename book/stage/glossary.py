"""Writes the glossary from docs/glossary.yml, which finish/terms.py reads, too."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from book.edition import Edition
from book.page import LANGUAGES, ROOT, Page, Problem, headings, read_yaml, strip_accents

Entry = dict[str, Any]
SOURCE = Path("docs", "glossary.yml")
AFTER = ("citations",)
PAGE = "reference/glossary.md"
PLACE = "<!-- every term -->"
OTHER = {"pt": "en", "en": "pt"}
LONGEST = 200  # characters of a meaning: what is read in one glance


def read_glossary(root: Path) -> dict[str, Entry]:
    """The entries by their names, which are their anchors."""
    entries: dict[str, Entry] = read_yaml((root / SOURCE).read_text(encoding="utf-8"))
    return entries


def forms(entry: Entry, language: str) -> list[str]:
    """The texts by which a term is known on the pages of a language."""
    return list(entry[language].get("forms", [entry[language]["term"]]))


def whole_problems(root: Path) -> list[Problem]:
    """Each entry that is not whole in both languages, and each text that would mean two things."""
    lines = (root / SOURCE).read_text(encoding="utf-8").split("\n")
    found: list[Problem] = []
    known: dict[str, dict[str, str]] = {language: {} for language in OTHER}
    for name, entry in read_glossary(root).items():
        line = 1 + next(n for n, line in enumerate(lines) if line.startswith(f"{name}:"))
        found += [Problem(root / SOURCE, line, f"{name}: {what}") for what in _lacks(entry)]
        for language in OTHER:
            if not isinstance(entry.get(language), dict) or "term" not in entry[language]:
                continue
            for form in map(str.lower, forms(entry, language)):
                first = known[language].setdefault(form, name)
                if first != name:
                    what = f"{name}: {form!r} in {language} is also a form of {first}"
                    found.append(Problem(root / SOURCE, line, what))
    return found


def _lacks(entry: Entry) -> Iterator[str]:
    if not re.fullmatch(r"[\w/-]+\.md(#[\w-]+)?", str(entry.get("page"))):
        yield f"page: expected a path such as foundations/masks.md, got {entry.get('page')!r}"
    if unknown := sorted(entry.keys() - {"page", *OTHER}):
        yield f"expected page, pt and en, got {unknown[0]!r}"
    for language in OTHER:
        words = entry.get(language) or {}
        for field in ("term", "meaning"):
            if not words.get(field):
                yield f"{language} has no {field}"
        if unknown := sorted(words.keys() - {"term", "meaning", "forms"}):
            yield f"{language}: expected term, meaning and forms, got {unknown[0]!r}"
        meaning = words.get("meaning") or "."
        if len(meaning) > LONGEST or not meaning.endswith("."):
            yield (
                f"meaning in {language}: expected sentences of {LONGEST} characters at most, "
                f"got {len(meaning)} that end with {meaning[-1]!r}"
            )


def edition_problems(edition: Edition) -> list[Problem]:
    return whole_problems(edition.root)


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri != PAGE:
        return markdown
    return page.fill(markdown, PLACE, _list(edition.language))


def _list(language: str) -> str:
    """All terms in the order of their letters, each with the other language's term."""
    other, lines, letter = OTHER[language], [], ""
    entries = read_glossary(ROOT).items()
    for name, entry in sorted(entries, key=lambda item: _order(item[1][language]["term"])):
        term = entry[language]["term"]
        if _order(term)[0] != letter:
            letter = _order(term)[0]
            lines += [f"## {letter.upper()} {{#letter-{letter}}}", ""]
        target = posixpath.relpath(entry["page"], posixpath.dirname(PAGE))
        translation = f'<span lang="{other}">{entry[other]["term"]}</span>'
        lines += [
            f"[{term}]({target}){{ #{name} }} · {translation}",
            f":   {entry[language]['meaning']}",
            "",
        ]
    return "\n".join(lines)


def _order(term: str) -> str:
    return strip_accents(term).lower()


def book_contract(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = [*whole_problems(root)]
    for name, entry in read_glossary(root).items():
        path, _, anchor = str(entry.get("page")).partition("#")
        for language in LANGUAGES:
            page = root / "docs" / language / path
            if not page.is_file():
                found.append(f"docs/glossary.yml: {name}: there is no page docs/{language}/{path}")
            elif anchor and anchor not in [heading.id for heading in headings(page.read_text())]:
                found.append(f"docs/glossary.yml: {name}: {page.name} has no heading {{#{anchor}}}")
    return found
