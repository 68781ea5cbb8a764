"""What the search of the site knows of each page besides its text; the theme's index has only that.

- where it is in the book, which a result shows: "Learn › Foundations";
- by what other names readers call it or a section: those of docs/also-called.yml, and the terms of
  the glossary, in both languages, at the page that explains them;
- what it weighs: a chapter explains, a list only mentions; `search: {boost: 0.8}` in the front
  matter of a page is one more factor.

Its text is plain. A formula is written as in a line of text: ``1/√(d_k)``. The index is read by
docs/shared/style/search-worker.js, in the place of the theme's worker, when the search is opened.
"""

import json
import re
from collections import defaultdict
from functools import cache
from html import escape, unescape
from pathlib import Path

from glossary import OTHER, forms, read_glossary
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from pages import ROOT, read_yaml, without_accents
from pylatexenc.latex2text import LatexNodes2Text

ALSO_CALLED = ROOT / "docs" / "also-called.yml"
ON_DEMAND = ROOT / "docs" / "templates" / "search-on-demand.js"
WORKER = re.compile(r"assets/javascripts/workers/search\.\w+\.min\.js")
OWN_WORKER = "style/search-worker.js"
# The first that the path of a page begins with.
WEIGHTS = {
    "reference/api/": 0.6,
    "reference/notation/": 0.7,
    "reference/transforms/": 0.7,
    "reference/glossary/": 0.5,
    "reference/": 0.35,
    "notebooks/": 0.6,
    "practice/": 0.75,
    "variants/benchmark/": 0.8,
    "": 1.0,
}
TAG = re.compile(r"<[^>]*>")
CODE_OR_FORMULA = re.compile(
    r"<code>.*?</code>|\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\]", re.DOTALL
)

_to_text = LatexNodes2Text().latex_to_text
_places: dict[str, str] = {}  # by the address of a page


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _places.clear()
    for page in nav.pages:
        rooms = [str(room.title) for room in page.ancestors]  # the innermost first
        _places[page.url] = " › ".join(rooms[::-1])


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    output, workers = WORKER.subn(OWN_WORKER, output)
    if workers != 1:
        raise PluginError("docs/hooks/search_index.py: the theme names its search worker otherwise")
    script = f"<script>{ON_DEMAND.read_text(encoding='utf-8')}</script>"
    return output.replace("</head>", f"{script}</head>", 1)


def on_post_build(config: MkDocsConfig) -> None:
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    called = names()
    for entry in index["docs"]:
        place, _, anchor = entry["location"].partition("#")
        for part in ("title", "text"):
            entry[part] = plain_text(plain_formulas(entry[part]))
        if found := called.get(entry["location"]):
            entry["names"] = found
        if not anchor:
            entry["where"] = _places.get(place, "")
            entry["weight"] = weight(place) * entry.pop("boost", 1)
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


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
            found[_address(page)].setdefault(without_accents(text).lower(), text)
    for entry in read_glossary(root).values():
        for language in OTHER:
            for text in (entry[language]["term"], *forms(entry, language)):
                found[_address(entry["page"])].setdefault(without_accents(text).lower(), text)
    return {address: list(texts.values()) for address, texts in found.items()}


def _address(page: str) -> str:
    """The address of a page in the index: "a/b/#c" of "a/b.md#c"."""
    path, hash_, anchor = page.partition("#")
    path = path.removesuffix(".md").removesuffix(".ipynb") + "/"
    return path.removesuffix("index/") + hash_ + anchor


def plain_text(html: str) -> str:
    """The words and signs of ``html``, without its tags.

    >>> plain_text("<p>row <code>a &lt; b</code></p>")
    'row a < b'
    """
    return " ".join(unescape(TAG.sub(" ", html)).split())


@cache  # make live asks again for all that has not changed
def plain_formulas(text: str) -> str:
    r"""The HTML ``text`` with its formulas as words and signs.

    >>> plain_formulas(r"the factor \(\tfrac{1}{\sqrt{d_k}}\)")
    'the factor 1/√(d_k)'
    """

    def show(match: re.Match[str]) -> str:
        tex = match["inline"] or match["display"]
        if tex is None:
            return match[0]
        known = re.sub(r"\\[td]frac", r"\\frac", unescape(tex))
        return escape(" ".join(_to_text(known).split()), quote=False)

    return CODE_OR_FORMULA.sub(show, text)
