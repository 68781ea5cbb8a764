"""The last step: from the HTML that an engine has built of a staged page to what readers get.

Each pass is a module of book.finish. It changes the text of a page (``content``) or the whole of
it (``whole``), or works on the folder of the site when all pages are there (``after``).
"""

from pathlib import Path

from book.edition import Edition
from book.page import Page
from book.passes import passes

PASSES = passes("finish", ("content", "whole", "after"))


def content(html: str, page: Page, edition: Edition) -> str:
    """What a page says, without what the theme puts around it."""
    for one in PASSES:
        if hasattr(one, "content"):
            html = one.content(html, page, edition)
    return html


def whole(output: str, page: Page, edition: Edition) -> str:
    """The page with what the theme has put around it."""
    for one in PASSES:
        if hasattr(one, "whole"):
            output = one.whole(output, page, edition)
    return output


def after(site: Path, edition: Edition) -> None:
    """The folder of the site, when each page is in it."""
    for one in PASSES:
        if hasattr(one, "after"):
            one.after(site, edition)
