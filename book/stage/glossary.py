"""Shows what a term means where it first stands on a page, and writes the glossary itself.

The one source is docs/glossary.yml. A term is marked in running text only: not in headings,
links, claims, code, formulas, tables or what is in a language of its own, and not on the pages
that are made of lists. Its meaning is in the page, so that it shows without JavaScript: while it
is pointed at, and while it has the focus.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from book.page import ROOT, Problem, fill, read_yaml, strip_accents

Entry = dict[str, Any]
SOURCE = Path("docs", "glossary.yml")
PAGE = "reference/glossary.md"
PLACE = "<!-- every term -->"
UNMARKED = {
    PAGE,
    "reference/bibliography.md",
    "reference/changelog.md",
    "reference/claims.md",
    "reference/contributing.md",
    "reference/snippets.md",
}
MADE = ("reference/api/", "reference/claims/")
OTHER = {"pt": "en", "en": "pt"}
LONGEST = 200  # characters of a meaning: what is read in one glance

TEXT = {"p", "li", "dd"}
NO_TEXT = {"h1", "h2", "h3", "h4", "h5", "h6", "a", "code", "pre", "table", "summary"}
NO_TEXT_CLASSES = {"arithmatex", "claim", "admonition-title"}
# Tags and comments, as Markdown writes them: to parse the page into a tree takes 40 times as long.
TAG = re.compile(
    r"<!--.*?-->"
    r"|</(?P<closed>[\w-]+)\s*>"
    r"""|<(?P<name>[a-zA-Z][\w-]*)(?P<rest>(?:"[^"]*"|'[^']*'|[^'">])*)>""",
    re.DOTALL,
)
CLASS = re.compile(r'\sclass="([^"]*)"')
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


def read_glossary(root: Path) -> dict[str, Entry]:
    """The entries by their names, which are their anchors."""
    entries: dict[str, Entry] = read_yaml((root / SOURCE).read_text(encoding="utf-8"))
    return entries


def forms(entry: Entry, language: str) -> list[str]:
    """The texts by which a term is known on the pages of a language."""
    return list(entry[language].get("forms", [entry[language]["term"]]))


def problems(root: Path) -> list[Problem]:
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


@cache
def _glossary() -> dict[str, Entry]:
    return read_glossary(ROOT)


@cache
def _names(language: str) -> dict[str, str]:
    """The name of the entry by each of its forms, in lower case."""
    entries = _glossary().items()
    return {form.lower(): name for name, entry in entries for form in forms(entry, language)}


@cache
def _pattern(language: str) -> re.Pattern[str]:
    """Any form as a whole word, the longest first: "attention weight" before "attention"."""
    texts = sorted(_names(language), key=lambda form: (-len(form), form))
    either = "|".join(r"\s+".join(map(re.escape, text.split())) for text in texts)
    # What follows an ampersand is the name of a letter: &amp;
    return re.compile(rf"(?<![\w&-])(?:{either})(?![\w-])", re.IGNORECASE)


def on_pre_build(config: MkDocsConfig) -> None:
    for cached in (_glossary, _names, _pattern):
        cached.cache_clear()
    if found := problems(ROOT):
        raise PluginError("\n".join(map(str, found)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri != PAGE:
        return markdown
    return fill(markdown, PLACE, _list(Path(config.docs_dir).name), page)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri in UNMARKED or page.file.src_uri.startswith(MADE):
        return html
    return mark(html, Path(config.docs_dir).name)


def mark(html: str, language: str) -> str:
    """The page with the first occurrence of each term marked, and its meaning beside it."""
    marked: set[str] = set()

    def show(match: re.Match[str]) -> str:
        name = _names(language)[" ".join(match[0].lower().split())]
        if name in marked:
            return match[0]
        marked.add(name)
        return _term_element(name, match[0], language)

    pieces: list[str] = []
    opened: list[tuple[str, bool | None]] = []
    end = 0
    for tag in TAG.finditer(html):
        text = html[end : tag.start()]
        pieces += [_pattern(language).sub(show, text) if _runs(opened) else text, tag[0]]
        end = tag.end()
        if tag["closed"]:
            names = [name for name, _ in opened]
            if tag["closed"] in names:  # with what was left open inside it, a paragraph say
                del opened[len(names) - 1 - names[::-1].index(tag["closed"]) :]
        elif tag["name"] and tag["name"] not in VOID and not tag["rest"].endswith("/"):
            opened.append((tag["name"], _is_text(tag["name"], tag["rest"])))
    return "".join(pieces) + html[end:]


def _runs(opened: list[tuple[str, bool | None]]) -> bool:
    """Whether text inside these tags is running text."""
    kinds = {kind for _, kind in opened}
    return True in kinds and False not in kinds


def _is_text(name: str, attributes: str) -> bool | None:
    """Whether a tag holds running text; None where that depends on the tags around it."""
    classes = CLASS.search(attributes)
    if name in NO_TEXT or (classes and not NO_TEXT_CLASSES.isdisjoint(classes[1].split())):
        return False
    if " lang=" in attributes:
        return False  # in its own language, whatever that of the page
    return True if name in TEXT else None


def _term_element(name: str, word: str, language: str) -> str:
    """The word, which can have the focus, and its meaning, which the search does not index."""
    meaning = escape(_glossary()[name][language]["meaning"], quote=False)
    return (
        f'<span class="term"><dfn class="term-word" tabindex="0" aria-describedby="term-{name}">'
        f'{word}</dfn><span class="term-meaning" role="tooltip" id="term-{name}" '
        f'data-search-exclude="">{meaning}</span></span>'
    )


def _list(language: str) -> str:
    """All terms in the order of their letters, each with the other language's term."""
    other, lines, letter = OTHER[language], [], ""
    entries = _glossary().items()
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
