"""What the search of the site knows of each page, by its sections; the theme's index knows less.

- its words, as plain text, where no element says ``data-search-exclude``; a formula is written as
  in a line of text: ``1/√(d_k)``;
- where it is in the book, which a result shows: "Learn › Foundations";
- by what other names readers call it or a section: those of docs/also-called.yml, the terms of the
  glossary, in both languages, at the page that explains them, and what the reference says of an
  entry in Portuguese;
- what it weighs: a chapter explains, a list only mentions; `search: {boost: 0.8}` in the front
  matter of a page is one more factor.

The index is read by docs/shared/style/search-worker.js when the search is opened: first the names
of sections, with the words with which each begins, and then the whole texts, which are most of it.
"""

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text
from selectolax.lexbor import LexborHTMLParser, LexborNode

from book.edition import Edition
from book.page import ROOT, Page, read_yaml, strip_accents
from book.stage import api
from book.stage.glossary import OTHER, forms, read_glossary

ALSO_CALLED = ROOT / "docs" / "also-called.yml"
TEXTS = "search_text.json"  # beside the index
BEGINNING = 100  # characters
# The first that the path of a page begins with.
WEIGHTS = {
    "reference/api/": 0.6,
    "reference/notation/": 0.7,
    "reference/transforms/": 0.7,
    "reference/glossary/": 0.5,
    "reference/download/": 1.0,
    "reference/": 0.35,
    "notebooks/": 0.6,
    "practice/": 0.75,
    "variants/benchmark/": 0.8,
    "": 1.0,
}
FORMULA = re.compile(r"\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\]", re.DOTALL)
HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
CODE = frozenset(("code", "pre"))
LEFT_OUT = frozenset(("figcaption", "object", "script", "style", "svg"))
OUT_OF_TEXT = frozenset(("headerlink", "linenodiv"))  # classes
# Between the words of these and what is beside them there is a blank.
APART = frozenset(("br", "dd", "dt", "li", "p", "sub", "summary", "sup", "td", "th", *CODE))

_to_text = LatexNodes2Text().latex_to_text
_entries: dict[str, list[dict[str, Any]]] = {}  # what the index says of each page, by its address


def content(html: str, page: Page, edition: Edition) -> str:
    told = page.matter.get("search", {})
    _entries[page.url] = [] if told.get("exclude") else entries(html, page.url)
    for entry in _entries[page.url][:1]:
        entry["title"] = entry["title"] or page.name
        entry["where"] = " › ".join(edition.rooms_of(page))
        entry["weight"] = weight(page.url) * told.get("boost", 1)
    return html


def after(site: Path, edition: Edition) -> None:
    path = site / "search" / "search_index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    called, said = names(), api.sentences(ROOT)
    every = [entry for page in edition.pages.values() for entry in _entries.get(page.url, ())]
    index["docs"] = list(every)
    for place, entry in enumerate(index["docs"]):
        found = called.get(entry["location"], [])
        if sentence := said.get(entry["location"].partition("#attnref.")[2]):
            found = [*found, sentence]
        known = {"names": found} if found else {}
        index["docs"][place] = entry | known | {"text": beginning(entry["text"])}
    texts = [entry["text"] for entry in every]
    index.setdefault("config", {})["texts"] = f"../search/{TEXTS}"  # from the worker
    for name, content in ((path.name, index), (TEXTS, texts)):
        path.with_name(name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def beginning(text: str) -> str:
    """The first words of a text, as many as a result needs to show.

    >>> beginning("one two three " * 10)[-10:]
    'two three…'
    """
    if len(text) <= BEGINNING:
        return text
    return f"{text[:BEGINNING].rpartition(' ')[0]}…"


def entries(html: str, url: str) -> list[dict[str, Any]]:
    """What a page says, by its sections; each begins at a heading with an id, the first at the top.

    >>> for entry in entries('<h1>A</h1><p>of <em>a</em>ll</p><h2 id="b">B</h2>c', "a/"):
    ...     print(entry)
    {'location': 'a/', 'title': '', 'text': 'A of all'}
    {'location': 'a/#b', 'title': 'B', 'text': 'c'}
    """
    found: list[dict[str, Any]] = [{"location": url, "title": [], "text": []}]

    def read(node: LexborNode, into: list[str]) -> None:
        """Its words; a heading within it changes where they go only as far as its end."""
        child = node.first_child
        while child is not None:
            tag = child.tag
            if tag == "-text":
                into.append(plain_formulas(child.text_content or ""))
            elif tag in HEADINGS and (ident := child.attributes.get("id")):
                if tag != "h1":
                    found.append({"location": f"{url}#{ident}", "title": [], "text": []})
                read(child, found[-1]["title"])
                into = found[-1]["text"]
            elif tag not in LEFT_OUT and not _is_left_out(child):
                apart = [" "] if tag in APART else []
                into += apart
                if tag in CODE:
                    into.append(child.text())
                else:
                    read(child, into)
                into += apart
            child = child.next

    body = LexborHTMLParser(html).body
    if body is not None:
        read(body, found[0]["text"])
    for entry in found:
        for part in ("title", "text"):
            entry[part] = " ".join("".join(entry[part]).split())
    return found


def _is_left_out(node: LexborNode) -> bool:
    attributes = node.attributes
    return "data-search-exclude" in attributes or attributes.get("class") in OUT_OF_TEXT


def weight(place: str) -> float:
    """What a page weighs in the search.

    >>> weight("foundations/masks/"), weight("reference/api/masks/")
    (1.0, 0.6)
    """
    return next(weight for start, weight in WEIGHTS.items() if place.startswith(start))


def names(root: Path = ROOT) -> dict[str, list[str]]:
    """What each page or section is called, in both languages, by its address in the index."""
    found: dict[str, dict[str, str]] = defaultdict(dict)  # each name once, however it is accented
    called = read_yaml((root / ALSO_CALLED.relative_to(ROOT)).read_text(encoding="utf-8"))
    for page, texts in called.items():
        for text in texts:
            found[_address(page)].setdefault(strip_accents(text).lower(), text)
    for entry in read_glossary(root).values():
        for language in OTHER:
            for text in (entry[language]["term"], *forms(entry, language)):
                found[_address(entry["page"])].setdefault(strip_accents(text).lower(), text)
    return {address: list(texts.values()) for address, texts in found.items()}


def _address(page: str) -> str:
    """The address of a page in the index: "a/b/#c" of "a/b.md#c"."""
    path, hash_, anchor = page.partition("#")
    path = path.removesuffix(".md").removesuffix(".ipynb") + "/"
    return path.removesuffix("index/") + hash_ + anchor


@cache  # the same formulas on many pages
def plain_formulas(text: str) -> str:
    r"""The text with its formulas as words and signs.

    >>> plain_formulas(r"the factor \(\tfrac{1}{\sqrt{d_k}}\)")
    'the factor 1/√(d_k)'
    """

    def show(match: re.Match[str]) -> str:
        tex = match["inline"] or match["display"]
        return " ".join(_to_text(re.sub(r"\\[td]frac", r"\\frac", tex)).split())

    return FORMULA.sub(show, text)
