"""Asks for the fonts of a page with the page itself, before the styles that name them are read."""

from book.edition import Edition
from book.page import BookError, Page

AFTER = ("formulas",)
# What a page holds that is set in a font; the text is on each.
FONTS = {
    "fonts/common/sans-regular.woff2": "",
    "fonts/common/sans-bold.woff2": "",
    "fonts/common/sans-italic.woff2": "<em>",
    "fonts/common/mono-regular.woff2": "<code",
    "fonts/common/main-regular.woff2": 'class="katex"',
    "fonts/common/math-italic.woff2": "mathnormal",
}
STYLES = '<link rel="stylesheet"'


def whole(output: str, page: Page, edition: Edition) -> str:
    if STYLES not in output:
        raise BookError("book/finish/preload.py: the theme links its styles in another way")
    links = "".join(
        f'<link rel="preload" href="{page.address(font)}" as="font" '
        'type="font/woff2" crossorigin>\n'
        for font, mark in FONTS.items()
        if mark in output
    )
    return output.replace(STYLES, links + STYLES, 1)
