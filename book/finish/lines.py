"""Shows in a program which lines are marked, and which have a note below it.

Staging names them with the block: ``{ .python data-marks="2 5" data-notes="3" }``.
"""

import re
from collections.abc import Callable

from book.edition import Edition
from book.page import Page


def content(html: str, page: Page, edition: Edition) -> str:
    html = change_lines("data-notes", _add_number, html)
    return change_lines("data-marks", lambda line, _: f"<mark>{line}</mark>", html)


def _add_number(line: str, note: int) -> str:
    # By style alone, so that the button that copies the code leaves it out.
    return f'<span class="note" data-note="{note}" aria-hidden="true"></span>{line}'


def change_lines(attribute: str, change: Callable[[str, int], str], html: str) -> str:
    """The page with some lines of its code changed: of each block those that an attribute names.

    ``change`` gets the line, whose elements all end in it, and its place among those named.
    """

    def change_block(match: re.Match[str]) -> str:
        lines = match["code"].split("\n")
        for place, number in enumerate(map(int, match["lines"].split()), 1):
            lines[number - 1] = change(lines[number - 1], place)
        return match["start"] + "\n".join(lines) + match["end"]

    block = (
        rf'(?P<start><div[^>]* {attribute}="(?P<lines>[\d ]+)"[^>]*>.*?<code[^>]*>)'
        r"(?P<code>.*?)(?P<end></code>)"
    )
    return re.sub(block, change_block, html, flags=re.DOTALL)
