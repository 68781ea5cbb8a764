"""Lists the folded questions of the pages, where ``<!-- every question -->`` is.

A question is in the group of its page in the navigation, and leads to the section where it is
answered.
"""

import re
from collections.abc import Iterator
from itertools import groupby

from book.edition import Edition
from book.page import HEADING, Page, lines_outside_blocks

AFTER = ("citations",)
PLACE = "<!-- every question -->"
SIGNS = "begin/how-to-read.md"  # which shows how a question looks
QUESTION = re.compile(r'^\?\?\? question "(?P<asked>.*)"$')


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if PLACE not in markdown:
        return markdown
    others = [other for other in edition.pages.values() if other is not page]
    parts = []
    for group, some in groupby(others, key=lambda other: edition.rooms_of(other)[-1:]):
        links = [
            f"- [{asked}]({page.link(f'{other.uri}#{place}')})"
            for other in some
            if not other.is_notebook and other.uri != SIGNS
            for asked, place in asked_on(other.source)
        ]
        if links:
            parts.append(f"**{group[0]}**\n\n" + "\n".join(links))
    box = "<div markdown data-search-exclude>\n\n{}\n\n</div>"
    return page.fill(markdown, PLACE, box.format("\n\n".join(parts)))


def asked_on(text: str) -> Iterator[tuple[str, str]]:
    """The folded questions of a page, each with the heading below which it is.

    >>> list(asked_on('## One {#one}\\n\\n??? question "Why?"\\n    Because.\\n'))
    [('Why?', 'one')]
    """
    place = "top"
    for _, line in lines_outside_blocks(text):
        if heading := HEADING.match(line):
            place = heading["id"] or place
        elif question := QUESTION.match(line):
            yield question["asked"], place
