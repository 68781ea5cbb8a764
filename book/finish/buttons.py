"""Gives each program the button that copies it, which the theme's script would make."""

import re

from book.edition import Edition
from book.page import Page

PROGRAM = re.compile(r"(<pre\b[^>]*>)(?:<span></span>)?(?=<code\b)")
COPY = {"pt": "Copiar", "en": "Copy"}


def content(html: str, page: Page, edition: Edition) -> str:
    title = COPY[edition.language]
    button = f'<button class="md-code__button" data-md-type="copy" title="{title}"></button>'
    return PROGRAM.sub(rf"\1{button}", html)
