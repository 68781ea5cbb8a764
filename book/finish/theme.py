"""What the theme leaves to be done: shared files, the other language, names.

- The files of docs/shared, styles and the fonts of formulas, belong to each language's site.
- The language switch, and hreflang, lead to the same page in the other language. Both languages
  use the same paths, so the link is known when the page is built, and needs neither JavaScript
  nor a sitemap.
- Rooms and pages are named in the navigation, whose order both languages share: a room by
  ``extra.rooms`` of its language, a page by its title, or by ``nav`` in its front matter. A page
  that it does not list follows the others of its folder.
- Each page names what a telephone wants to know of the site, and its icon.
- Portuguese is that of Brazil, which the theme does not tell from the other.
- What has no name gets one, so that a screen reader can tell it.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from mkdocs.utils.templates import TemplateContext

from book.page import ROOT

SHARED = ROOT / "docs" / "shared"
TEMPLATES = ROOT / ".cache" / "templates"
MANIFEST = "manifest.webmanifest"  # in each language's folder
ICON = "style/touch-icon.png"  # the favicon as a square of 180 pixels
DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
NAMES = {"pt": "Busca", "en": "Search"}
PATH = re.compile(r'(<nav class="md-path") aria-label="[^"]*"')  # the theme calls all lists alike
LANGUAGE = '<html lang="{}"'  # in the theme's texts it has no country
PLACES = {"pt": "Onde você está", "en": "You are here"}
EMPTY_HEADER = re.compile(r"<th([^>]*)>\s*</th>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(SHARED.rglob("*")):
        if path.is_file():
            name = path.relative_to(SHARED).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in list(files):  # its script, see docs/theme/main.html
        if file.src_uri.startswith("assets/javascripts/"):
            files.remove(file)
    if config.nav is not None:
        complete(config.nav, [file.src_uri for file in files.documentation_pages()])
    return files


def complete(nav: list[Any], pages: list[str]) -> None:
    """Puts each page that is not in a navigation behind the others of its folder."""
    for page in sorted(set(pages).difference(_pages(nav))):
        _append(nav, page)


def _pages(nav: list[Any]) -> Iterator[str]:
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for inside in item.values():
                yield from _pages(inside)


def _append(nav: list[Any], page: str) -> bool:
    """Puts a page behind the last one of its folder, in the first list that has some of them."""
    folder = PurePosixPath(page).parent
    here = [
        place
        for place, item in enumerate(nav)
        if isinstance(item, str) and PurePosixPath(item).parent == folder
    ]
    if here:
        nav.insert(here[-1] + 1, page)
        return True
    rooms = (room for item in nav if isinstance(item, dict) for room in item.values())
    return any(_append(room, page) for room in rooms)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    sections = [item for item in nav.items if isinstance(item, Section)]
    for section in sections:
        section.title = config.extra["rooms"][section.title]
        sections += [item for item in section.children if isinstance(item, Section)]
    return nav


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """The theme's templates are compiled once, not for each build."""
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(TEMPLATES))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The empty corner of a table is the header of nothing."""
    page.title = page.meta.get("nav", page.title)
    return EMPTY_HEADER.sub(r"<td\1></td>", html)


def on_page_context(
    context: TemplateContext, page: Page, config: MkDocsConfig, nav: Navigation
) -> TemplateContext:
    config.extra["alternate"] = [
        {**language, "link": f"../{language['lang']}/{page.url}"}
        for language in config.extra["alternate"]
    ]
    return context


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    if DIALOG not in output:
        raise PluginError("book/finish/theme.py: the theme's search dialog has changed")
    tag = str(config.theme["language"])
    language = tag.partition("-")[0]
    name = NAMES[language]
    output = output.replace(LANGUAGE.format(language), LANGUAGE.format(tag), 1)
    output = output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
    output = PATH.sub(rf'\1 aria-label="{PLACES[language]}"', output)
    links = "".join(
        f'<link rel="{name}" href="{get_relative_url(place, page.url)}">'
        for name, place in (("manifest", MANIFEST), ("apple-touch-icon", ICON))
    )
    output = output.replace("</head>", f"{links}</head>", 1)
    # Whoever checks <link rel=alternate> wants a whole address, and the site need not have one. A
    # space, without meaning in a list of words, hides the links from selectors.
    return output.replace('<link rel="alternate" ', '<link rel="alternate " ')
