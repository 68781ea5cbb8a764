"""The last net: what no other pass has understood does not reach a reader.

Each pass knows its own syntax when it is well written; a slip in it is plain text or an odd
address to Markdown, and would be published. So the finished page is read once more. It runs after
all other passes, and stops the build with the line of the file in which the slip was made.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from book.edition import Edition
from book.page import ROOT, BookError, Page, Problem, locate

AFTER = ("slim", "theme", "search_index")
SCHEMES = ("http", "https", "mailto", "data")
ADDRESS = re.compile(
    r"\s(?:href|src)\s*=\s*[\"']?(?P<address>(?P<scheme>[a-z][\w+.-]*):[^\"'\s<>]*)", re.IGNORECASE
)
# What a browser fetches by itself, from another address.
ELSEWHERE = re.compile(
    r"<(?:link\s(?=[^>]*\brel=[\"'](?:stylesheet|preload|icon|manifest|apple-touch-icon)\b)"
    r"[^>]*\bhref|(?!a\b)\w[^>]*\ssrc)\s*=\s*[\"']?(?P<address>(?:https?:)?//[^\"'\s<>]*)",
    re.IGNORECASE,
)
HEADING = re.compile(r'<h[1-6][^>]*>(?:(?!</h).)*?alttext="(?P<tex>[^"]*)"', re.DOTALL)
# What is not running text: code, drawings, formulas, scripts.
OTHER = re.compile(r"<(?P<tag>code|pre|script|style|svg|math)\b.*?</(?P=tag)>", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
# What Markdown and the passes leave of what they do not understand, and what it should have been.
# A NUL stands where a tag was.
LEFT = {
    r"\[(?:[^\[\]\0\n]*[\s;-])?@[^\]\0\n]*\]?": "write [@key], [@one; @two] or [@key, sec. 3]",
    r"\[[^\[\]\0\n]*\]\[[^\]\0\n]*\]?|\]\[[^\]\0\n]*\]?": "no line [name]: address defines this "
    "link; write [text](address)",
    r"\]\([^)\0\n]*\)?": "no link; write [text](address), the address in both brackets",
    r"\[\^[^\]\0\n]*\]?": "this footnote is written nowhere",
    r"-+8[<>][^\0\n]*|8[<>]-[^\0\n]*": 'write --8<-- "path:section", alone on its line in a block',
    r"\{:? ?[#.][^}\0\n]*\}?": "an id stands at the end of a heading, a class behind a link",
    r"\$\$?[^$\0\n]*|\\[(\[]": "a formula without an end, or without blank lines around it",
    r"```": "this block of code never ends, or does not begin its line",
}
LEFTOVER = re.compile("|".join(f"({pattern})" for pattern in LEFT))


def whole(output: str, page: Page, edition: Edition) -> str:
    if found := problems(page.path, output, ROOT):
        raise BookError("\n".join(map(str, found)))
    return output


def problems(path: Path, output: str, root: Path) -> list[Problem]:
    """All that is left on a finished page, by where it stands in its file."""
    left = dict(_leftovers(output))
    return [Problem(*locate(path, text, root), f"{text}: {why}") for text, why in left.items()]


def _leftovers(output: str) -> Iterator[tuple[str, str]]:
    """What is left, as its author wrote it, and what is to be done about it."""
    text = OTHER.sub("\0", output)
    for found in ADDRESS.finditer(text):
        if found["scheme"].lower() not in SCHEMES:
            why = f"expected a page, an address with {', '.join(SCHEMES)}, or claim:its-id"
            yield html.unescape(found["address"]), why
    for found in ELSEWHERE.finditer(COMMENT.sub("", output)):
        yield (
            html.unescape(found["address"]),
            "a browser would fetch it there; put the file below docs",
        )
    for found in HEADING.finditer(output):
        yield html.unescape(found["tex"]), "menus show headings, which hold no formulas; use words"
    text = text.partition("<article")[2].partition("</article>")[0]
    for found in COMMENT.finditer(text):
        yield found[0], "nothing is put into this place, or not on this page; fix or remove it"
    text = TAG.sub("\0", COMMENT.sub("\0", text))
    for found in LEFTOVER.finditer(html.unescape(text)):
        yield found[0], list(LEFT.values())[(found.lastindex or 1) - 1]
