"""What has changed of late, for readers of feeds: ``feed.xml`` of each language (Atom, RFC 4287).

An entry is a page with the day of its last change, so a feed needs the history of a clone, and
its addresses are absolute: without ``Documentation`` in pyproject.toml there is none.
"""

from pathlib import Path
from xml.etree import ElementTree

from address import project, read
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from pages import path_of
from reading import commit_date

NAME = "feed.xml"
ATOM = "http://www.w3.org/2005/Atom"
LATEST = 20

_pages: list[Page] = []


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _pages[:] = nav.pages


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    if not read(project()).site:
        return output
    # Written as docs/hooks/theme.py writes links to the other language, for the same reason.
    link = f'<link rel="alternate " type="application/atom+xml" href="{config.site_url}{NAME}">'
    return output.replace("</head>", f"{link}</head>", 1)


def on_post_build(config: MkDocsConfig) -> None:
    days = [(page, day) for page in _pages if (day := commit_date(path_of(page)))]
    if read(project()).site and days:
        latest = sorted(days, key=lambda each: each[1], reverse=True)[:LATEST]
        Path(config.site_dir, NAME).write_bytes(feed(latest, config))


def feed(pages: list[tuple[Page, str]], config: MkDocsConfig) -> bytes:
    """Pages and the days of their last change, the newest first, as XML."""
    root = ElementTree.Element("feed", {"xmlns": ATOM, "xml:lang": str(config.theme["language"])})
    author = project()["project"]["authors"][0]["name"]
    site = str(config.site_url)
    _tell(root, site, str(config.site_name), pages[0][1])
    ElementTree.SubElement(ElementTree.SubElement(root, "author"), "name").text = author
    ElementTree.SubElement(root, "link", {"rel": "self", "href": f"{site}{NAME}"})
    for page, day in pages:
        entry = ElementTree.SubElement(root, "entry")
        title = str(page.meta.get("title") or page.title)
        _tell(entry, str(page.canonical_url), title, day)
        ElementTree.SubElement(entry, "link", {"href": str(page.canonical_url)})
        ElementTree.SubElement(entry, "summary").text = page.meta.get("description")
    ElementTree.indent(root)
    return b"%s\n" % ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _tell(element: ElementTree.Element, ident: str, title: str, day: str) -> None:
    for name, text in (("id", ident), ("title", title), ("updated", f"{day}T00:00:00Z")):
        ElementTree.SubElement(element, name).text = text
