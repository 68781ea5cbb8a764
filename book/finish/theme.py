"""What the theme, and our part of it in docs/theme, leave to be done on a page.

- The switch of language, and hreflang, lead to the same page in the other language. Both languages
  use the same paths, so the link is known here, and needs neither JavaScript nor a sitemap.
- Portuguese is that of Brazil, which the theme does not tell from the other.
- What has no name gets one, so that a screen reader can tell it.
- Where the foot of a page leads to a specialist's, it says so, unless the page is one itself.
"""

import posixpath
import re
import shutil
from pathlib import Path

from book.edition import Edition
from book.page import BookError, Page
from book.stage.reading import LEVELS, SPECIALIST

DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
TAGS = {"pt": "pt-BR", "en": "en"}
NAMES = {"pt": "Busca", "en": "Search"}
PATH = re.compile(r'(<nav class="md-path") aria-label="[^"]*"')  # the theme calls all lists alike
LANGUAGE = '<html lang="{}"'  # in the theme's texts it has no country
# Leads to the front page of a language; both use the same paths.
OTHER = re.compile(r'(href="(?:\.\./)+(?:pt|en)/)(" hreflang=)')
# A room with a first page has its name in a link; the theme names its list by the arrow beside it.
ROOM = re.compile(
    r'(<div class="md-nav__link md-nav__container">\s*<a )(.*?)( id="\w+_label")', re.DOTALL
)
# Of the page before or after this one: its address, and the word that is said and shown.
FOOT = re.compile(
    r'(<a href="([^"]*)" class="md-footer__link [^"]*" aria-label=")([^:"]+)'
    r'(: [^"]*">.*?<span class="md-footer__direction">\s*)\3',
    re.DOTALL,
)
PLACES = {"pt": "Onde você está", "en": "You are here"}


def whole(output: str, page: Page, edition: Edition) -> str:
    if DIALOG not in output:
        raise BookError("book/finish/theme.py: the theme's search dialog has changed")
    language, name = edition.language, NAMES[edition.language]
    output = output.replace(LANGUAGE.format(language), LANGUAGE.format(TAGS[language]), 1)
    output = output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
    output = PATH.sub(rf'\1 aria-label="{PLACES[language]}"', output)
    output = ROOM.sub(r"\1\3 \2", output)
    if page.matter.get("level") != SPECIALIST:
        output = mark_specialist(output, page, edition)
    return OTHER.sub(rf"\1{page.url}\2", output)


def mark_specialist(output: str, page: Page, edition: Edition) -> str:
    special = {one.url for one in edition.pages.values() if one.matter.get("level") == SPECIALIST}

    def marked(found: re.Match[str]) -> str:
        way = found[3]
        if posixpath.normpath(posixpath.join(page.url, found[2])) + "/" in special:
            way += f" · {LEVELS[edition.language][SPECIALIST].lower()}"
        return f"{found[1]}{way}{found[4]}{way}"

    return FOOT.sub(marked, output)


def after(site: Path, edition: Edition) -> None:
    shutil.rmtree(site / "assets" / "javascripts", ignore_errors=True)  # see docs/theme/main.html
