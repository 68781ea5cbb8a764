"""Says where the eye has nothing to rest on: a page without a figure, a long stretch of prose."""

import re
from collections.abc import Iterator
from pathlib import Path

from book.page import Problem, links, tokens
from book.stage import cards, explorers

# Pages outside of the reference, and why no figure would teach anything there. A map of a room has
# none either.
NO_FIGURE = {
    "begin/how-to-read.md": "the map of the book is the first page of Learn",
    "practice/check-your-own.md": "what there is to see are programs and their reports",
    "practice/look-inside.md": "what there is to see are tables of what ran",
} | {
    f"practice/behaviours/{name}.md": "what there is to see are the recorded answers, a table"
    for name in (
        "alignment",
        "derivatives-and-memory",
        "fully-masked",
        "groups",
        "half-precision",
        "mask-meaning",
        "mask-with-causality",
        "models",
        "nan",
        "scale",
        "windows-and-sinks",
    )
}
LONGEST = 500  # words
FIGURE = re.compile(r"figure:|chart:")
TARGET = re.compile(r"\]\([^)]*\)")
RESTS = ("fence", "code_block", "html_block", "admonition_open", "admonition_close")


def contract(page: Path, text: str, root: Path) -> list[Problem]:
    """A page without a figure, and prose that goes on too long beside nothing."""
    found = []
    name = page.relative_to(root / "docs").as_posix().partition("/")[2]
    if not name.startswith("reference/") and cards.PLACE not in text:
        has_figure = bool(explorers.PLACE.search(text)) or any(
            FIGURE.match(link.target) for link in links(text) if link.is_image
        )
        if not has_figure and name not in NO_FIGURE:
            message = "has no figure: draw one, or say why not in NO_FIGURE of this contract"
            found.append(Problem(page, 1, message))
        if has_figure and name in NO_FIGURE:
            found.append(Problem(page, 1, "has a figure: remove its line of NO_FIGURE"))
    for line, words in stretches(text):
        if words > LONGEST:
            message = (
                f"{words} words without figure, program, table or box, at most {LONGEST} are "
                "expected: put one where it helps"
            )
            found.append(Problem(page, line, message))
    return found


def stretches(text: str) -> Iterator[tuple[int, int]]:
    """First line and words of each stretch of prose, between what the eye can rest on.

    That is a figure, a chart, a block of code with the notes below it, a table, or a box, folded
    or not, whose own words are a stretch again; also the place of what the build inserts.
    """
    line, words, skipped, after_code = 0, 0, None, False
    for token in tokens(text):
        if skipped:
            skipped = None if (token.type, token.level) == skipped else skipped
            continue
        is_figure = token.type == "inline" and any(
            child.type == "image" and FIGURE.match(str(child.attrs["src"]))
            for child in token.children or ()
        )
        is_notes = token.type == "ordered_list_open" and after_code
        if token.type == "table_open" or is_notes:
            skipped = token.type.replace("open", "close"), token.level
        if token.type in RESTS or is_figure or skipped:
            yield line, words
            line, words = 0, 0
        elif token.type == "inline":
            words += len(TARGET.sub("]", token.content).split())
            line = line or (token.map or [0])[0] + 1
        after_code = token.type == "fence"
    yield line, words
