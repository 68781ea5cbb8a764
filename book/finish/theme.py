"""What the theme leaves to be done on a page.

- It names what a telephone wants to know of the site, and its icon.
- Portuguese is that of Brazil, which the theme does not tell from the other.
- What has no name gets one, so that a screen reader can tell it.
"""

import re

from book.edition import Edition
from book.page import BookError, Page

MANIFEST = "manifest.webmanifest"  # in each language's folder
ICON = "style/touch-icon.png"  # the favicon as a square of 180 pixels
DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
TAGS = {"pt": "pt-BR", "en": "en"}
NAMES = {"pt": "Busca", "en": "Search"}
PATH = re.compile(r'(<nav class="md-path") aria-label="[^"]*"')  # the theme calls all lists alike
LANGUAGE = '<html lang="{}"'  # in the theme's texts it has no country
# Leads to the front page of a language; both use the same paths.
OTHER = re.compile(r'(href="(?:\.\./)+(?:pt|en)/)(" hreflang=)')
PLACES = {"pt": "Onde você está", "en": "You are here"}


def whole(output: str, page: Page, edition: Edition) -> str:
    if DIALOG not in output:
        raise BookError("book/finish/theme.py: the theme's search dialog has changed")
    language, name = edition.language, NAMES[edition.language]
    output = output.replace(LANGUAGE.format(language), LANGUAGE.format(TAGS[language]), 1)
    output = output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
    output = PATH.sub(rf'\1 aria-label="{PLACES[language]}"', output)
    links = "".join(
        f'<link rel="{name}" href="{page.address(place)}">'
        for name, place in (("manifest", MANIFEST), ("apple-touch-icon", ICON))
    )
    output = OTHER.sub(rf"\1{page.url}\2", output).replace("</head>", f"{links}</head>", 1)
    # Whoever checks <link rel=alternate> wants a whole address, and the site need not have one. A
    # space, without meaning in a list of words, hides the links from selectors.
    return output.replace('<link rel="alternate" ', '<link rel="alternate " ')
