"""Makes the search index readable: words without accents, and formulas as plain text.

Each entry gets one more field, ``plain``, that holds its accented words without their accents, so
that "atencao" finds "atenção"; mkdocs.yml declares the field to the search. A formula, which
results would show as LaTeX, is written as one can in a line of text: ``1/√(d_k)``.
"""

import json
import re
from html import escape, unescape
from pathlib import Path

from pages import without_accents
from pylatexenc.latex2text import LatexNodes2Text

WORD = re.compile(r"\w+")
TAG = re.compile(r"<[^>]*>")
CODE_OR_FORMULA = re.compile(
    r"<code>.*?</code>|\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\]", re.S
)

_to_text = LatexNodes2Text().latex_to_text


def plain_words(text: str) -> str:
    """The words of ``text`` that carry accents, without them, each once."""
    words = dict.fromkeys(WORD.findall(TAG.sub(" ", text).lower()))
    return " ".join(plain for word in words if (plain := without_accents(word)) != word)


def plain_formulas(text: str) -> str:
    r"""The HTML ``text`` with its formulas as words and signs.

    >>> plain_formulas(r"the factor \(\tfrac{1}{\sqrt{d_k}}\)")
    'the factor 1/√(d_k)'
    """

    def show(match: re.Match) -> str:
        tex = match["inline"] or match["display"]
        if tex is None:
            return match[0]
        known = re.sub(r"\\[td]frac", r"\\frac", unescape(tex))
        return escape(" ".join(_to_text(known).split()), quote=False)

    return CODE_OR_FORMULA.sub(show, text)


def on_post_build(config) -> None:
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        entry["text"] = plain_formulas(entry["text"])
        entry["plain"] = plain_words(f"{entry['title']} {entry['text']}")
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
