"""Fixes what Markdown makes of tables, and gives each the frame in which it scrolls."""

import re

from book.edition import Edition
from book.page import Page

EMPTY_HEADER = re.compile(r"<th([^>]*)>\s*</th>")
# In a fold, a table that is written as HTML is taken for words of a paragraph.
WRAPPED = re.compile(r'<p>(<div class="results" .*?</p></div>)</p>', re.DOTALL)
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
FRAME = r'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">\g<0></div></div>'


def content(html: str, page: Page, edition: Edition) -> str:
    html = EMPTY_HEADER.sub(r"<td\1></td>", html)  # an empty corner is the header of nothing
    return TABLE.sub(FRAME, WRAPPED.sub(r"\1", html))
