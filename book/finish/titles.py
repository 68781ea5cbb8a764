"""Makes the title of a program a link to its whole file, which is published beside the pages."""

import re

from book.edition import Edition
from book.page import Page

TITLE = re.compile(r'<span class="filename">(?P<path>(?:attnref|snippets)/[\w/]+\.py)</span>')


def content(html: str, page: Page, edition: Edition) -> str:
    def link(match: re.Match[str]) -> str:
        address = page.address(f"source/{match['path']}")
        return f'<span class="filename"><a href="{address}">{match["path"]}</a></span>'

    return TITLE.sub(link, html)
