"""Shows what a term of the glossary means where it first stands on a page.

A term is marked in running text only: not in headings, links, claims, code, formulas, tables or
what is in a language of its own, and not on the pages that are made of lists. What is running text
is plain in HTML, and is not in Markdown. Its meaning is in the page, so that it shows without
JavaScript: while it is pointed at, and while it has the focus.
"""

import re
from functools import cache
from html import escape

from book.edition import Edition
from book.page import ROOT, Page
from book.stage.glossary import PAGE, Entry, forms, read_glossary

UNMARKED = {
    PAGE,
    "reference/bibliography.md",
    "reference/changelog.md",
    "reference/claims.md",
    "reference/contributing.md",
    "reference/snippets.md",
}
MADE = ("reference/api/", "reference/claims/")
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


def content(html: str, page: Page, edition: Edition) -> str:
    if page.uri in UNMARKED or page.uri.startswith(MADE):
        return html
    return mark(html, edition.language)


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
    if " lang=" in attributes or " data-search-exclude" in attributes:
        return False  # in its own language, whatever that of the page; or made by a machine
    return True if name in TEXT else None


def _term_element(name: str, word: str, language: str) -> str:
    """The word, which can have the focus, and its meaning, which the search does not index."""
    meaning = escape(_glossary()[name][language]["meaning"], quote=False)
    return (
        f'<span class="term"><dfn class="term-word" tabindex="0" aria-describedby="term-{name}">'
        f'{word}</dfn><span class="term-meaning" role="tooltip" id="term-{name}" '
        f'data-search-exclude="">{meaning}</span></span>'
    )
