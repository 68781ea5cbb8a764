"""What the theme leaves to be done: shared files, the other language, names, a readable search.

- The files of docs/shared, styles and the fonts of formulas, belong to each language's site.
- The language switch, and hreflang, lead to the same page in the other language. Both languages
  use the same paths, so the link is known when the page is built, and needs neither JavaScript
  nor a sitemap.
- Rooms and pages are named in the navigation, whose order both languages share: a room by
  ``extra.rooms`` of its language, a page by its title, or by ``nav`` in its front matter.
- The index of the search is loaded when the search is opened.
- Portuguese is that of Brazil, which the theme does not tell from the other.
- What has no name gets one, so that a screen reader can tell it.
- Each entry of the search index gets one more field, ``plain``, that holds its accented words
  without their accents, so that "atencao" finds "atenção"; mkdocs.yml declares it to the search.
  A formula, which results would show as LaTeX, is written as in a line of text: ``1/√(d_k)``.
"""

import json
import re
from html import escape, unescape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from mkdocs.utils.templates import TemplateContext
from pages import without_accents
from pylatexenc.latex2text import LatexNodes2Text

SHARED = Path(__file__).parent.parent / "shared"
ON_DEMAND = SHARED.parent / "templates" / "search-on-demand.js"
MANIFEST = "manifest.webmanifest"  # in each language's folder
DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
NAMES = {"pt": "Busca", "en": "Search"}
PATH = re.compile(r'(<nav class="md-path") aria-label="[^"]*"')  # the theme calls all lists alike
LANGUAGE = '<html lang="pt"'
PLACES = {"pt": "Onde você está", "en": "You are here"}
EMPTY_HEADER = re.compile(r"<th([^>]*)>\s*</th>")
WORD = re.compile(r"\w+")
TAG = re.compile(r"<[^>]*>")
CODE_OR_FORMULA = re.compile(
    r"<code>.*?</code>|\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\]", re.DOTALL
)

_to_text = LatexNodes2Text().latex_to_text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(SHARED.rglob("*")):
        if path.is_file():
            name = path.relative_to(SHARED).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    sections = [item for item in nav.items if isinstance(item, Section)]
    for section in sections:
        section.title = config.extra["rooms"][section.title]
        sections += [item for item in section.children if isinstance(item, Section)]
    return nav


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
        raise PluginError("docs/hooks/theme.py: the theme's search dialog has changed")
    language = str(config.theme["language"])
    name = NAMES[language]
    output = output.replace(LANGUAGE, f'{LANGUAGE[:-1]}-BR"', 1)
    output = output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
    output = PATH.sub(rf'\1 aria-label="{PLACES[language]}"', output)
    manifest = f'<link rel="manifest" href="{get_relative_url(MANIFEST, page.url)}">'
    script = f"<script>{ON_DEMAND.read_text(encoding='utf-8')}</script>"
    output = output.replace("</head>", f"{manifest}{script}</head>", 1)
    # The theme's script asks each <link rel=alternate> for a sitemap, which only the two front
    # pages have. A space, without meaning in a list of words, hides the links from its selector.
    return output.replace('<link rel="alternate" ', '<link rel="alternate " ')


def on_post_build(config: MkDocsConfig) -> None:
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        entry["text"] = plain_formulas(entry["text"])
        entry["plain"] = plain_words(f"{entry['title']} {entry['text']}")
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def plain_words(text: str) -> str:
    """The words of ``text`` that carry accents, without them, each once."""
    words = dict.fromkeys(WORD.findall(TAG.sub(" ", text).lower()))
    return " ".join(plain for word in words if (plain := without_accents(word)) != word)


def plain_formulas(text: str) -> str:
    r"""The HTML ``text`` with its formulas as words and signs.

    >>> plain_formulas(r"the factor \(\tfrac{1}{\sqrt{d_k}}\)")
    'the factor 1/√(d_k)'
    """

    def show(match: re.Match[str]) -> str:
        tex = match["inline"] or match["display"]
        if tex is None:
            return match[0]
        known = re.sub(r"\\[td]frac", r"\\frac", unescape(tex))
        return escape(" ".join(_to_text(known).split()), quote=False)

    return CODE_OR_FORMULA.sub(show, text)
