"""Shows what a term means where it first stands on a page, and writes the glossary itself.

The one source is docs/glossary.yml. A term is marked in running text only: not in headings,
links, claims, code, formulas, tables or what is in a language of its own, and not on the pages
that are made of lists. Its meaning is in the page, so that it shows without JavaScript: while it
is pointed at, and while it has the focus.
"""

import posixpath
import re
from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, NavigableString, Tag
from mkdocs.exceptions import PluginError
from pages import ROOT, Problem, without_accents

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
OTHER = {"pt": "en", "en": "pt"}
LONGEST = 200  # characters of a meaning: what is read in one glance

TEXT = {"p", "li", "dd"}
NO_TEXT = {"h1", "h2", "h3", "h4", "h5", "h6", "a", "code", "pre", "table", "summary"}
NO_TEXT_CLASSES = {"arithmatex", "claim", "admonition-title"}


def read_glossary(root: Path) -> dict[str, dict]:
    """The entries by their names, which are their anchors."""
    return yaml.safe_load((root / SOURCE).read_text(encoding="utf-8"))


def forms(entry: dict, language: str) -> list[str]:
    """The texts by which a term is known on the pages of a language."""
    return entry[language].get("forms", [entry[language]["term"]])


def problems(root: Path) -> list[Problem]:
    """Each entry that is not whole in both languages, and each text that would mean two things."""
    lines = (root / SOURCE).read_text(encoding="utf-8").split("\n")
    found, known = [], {language: {} for language in OTHER}
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


def _lacks(entry: dict):
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
def _glossary() -> dict[str, dict]:
    return read_glossary(ROOT)


@cache
def _names(language: str) -> dict[str, str]:
    """The name of the entry by each of its forms, in lower case."""
    entries = _glossary().items()
    return {form.lower(): name for name, entry in entries for form in forms(entry, language)}


@cache
def _pattern(language: str) -> re.Pattern:
    """Any form as a whole word, the longest first: "attention weight" before "attention"."""
    texts = sorted(_names(language), key=lambda form: (-len(form), form))
    either = "|".join(r"\s+".join(map(re.escape, text.split())) for text in texts)
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE)


def on_pre_build(config) -> None:
    for cached in (_glossary, _names, _pattern):
        cached.cache_clear()
    if found := problems(ROOT):
        raise PluginError("\n".join(map(str, found)))


def on_page_markdown(markdown: str, page, config, files) -> str:
    if page.file.src_uri != PAGE:
        return markdown
    if PLACE not in markdown:
        raise PluginError(f"{page.file.abs_src_path}:1: expected the line {PLACE}")
    return markdown.replace(PLACE, _list(Path(config.docs_dir).name))


def on_page_content(html: str, page, config, files) -> str:
    if page.file.src_uri in UNMARKED or page.file.src_uri.startswith("reference/api/"):
        return html
    return mark(html, Path(config.docs_dir).name)


def mark(html: str, language: str) -> str:
    """The page with the first occurrence of each term marked, and its meaning beside it."""
    if not _pattern(language).search(html):
        return html
    soup, marked = BeautifulSoup(html, "html.parser"), set()
    for text in soup.find_all(string=_pattern(language)):
        if type(text) is not NavigableString or not _is_running_text(text):
            continue
        pieces, end = [], 0
        for match in _pattern(language).finditer(text):
            name = _names(language)[" ".join(match[0].lower().split())]
            if name not in marked:
                marked.add(name)
                pieces += [text[end : match.start()], _marked(soup, name, match[0], language)]
                end = match.end()
        if pieces:
            text.replace_with(*pieces, text[end:])
    return str(soup)


def _is_running_text(text: NavigableString) -> bool:
    tags = [tag for tag in text.parents if isinstance(tag, Tag)]
    names = {tag.name for tag in tags}
    classes = {word for tag in tags for word in tag.get("class", ())}
    if any(tag.has_attr("lang") for tag in tags):
        return False  # in its own language, whatever that of the page
    return bool(names & TEXT) and not names & NO_TEXT and not classes & NO_TEXT_CLASSES


def _marked(soup: BeautifulSoup, name: str, word: str, language: str) -> Tag:
    """The word, which can have the focus, and its meaning, which the search does not index."""
    ident = f"term-{name}"
    whole = soup.new_tag("span", attrs={"class": "term"})
    focus = {"class": "term-word", "tabindex": "0", "aria-describedby": ident}
    hidden = {"class": "term-meaning", "role": "tooltip", "id": ident, "data-search-exclude": ""}
    whole.append(soup.new_tag("dfn", attrs=focus, string=word))
    meaning = _glossary()[name][language]["meaning"]
    whole.append(soup.new_tag("span", attrs=hidden, string=meaning))
    return whole


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
    return without_accents(term).lower()
