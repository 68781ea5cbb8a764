"""The book of one language as a PDF, from the folder that is read from a disk (tools/book_zip.py).

Its pages are joined into one, in the order of the navigation, so that a link between two of them is
a link inside the book, and Chromium prints it. On which sheet a page begins is known only then: the
contents are printed afterwards and put before, and the outline is written.
"""

import io
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, ViewportSize
from pypdf import PdfReader, PdfWriter
from pypdf.constants import PageLabelStyle
from pypdf.generic import (
    BooleanObject,
    Destination,
    DictionaryObject,
    Fit,
    IndirectObject,
    NameObject,
    TextStringObject,
)
from selectolax.lexbor import LexborHTMLParser, LexborNode

STYLE = Path(__file__).parent.parent / "docs" / "disk" / "book.css"
# The sheets before the book have numbers of their own, the title none.
BEFORE = (
    "@page { @bottom-center { content: counter(page, lower-roman); } }"
    "@page :first { @bottom-center { content: none; } }"
)
PAPER = ViewportSize(width=673, height=980)  # in pixels, A4 without the margins of book.css
PATIENCE = 600_000  # milliseconds
# Of a page: what only a screen can use.
OF_SCREEN = (
    ".reading, .foot, .take, .notebook, .api-uses, .term-meaning, form, script, button, "
    ".md-content__button"
)
# What is wider than the paper is made smaller, and what is low is kept whole.
SET = """() => {
  const wide = "table, .katex-display > .katex, .drawing > svg";
  document.querySelectorAll(wide).forEach(one => {
    const room = one.closest("section, li, dd, blockquote, details, td").getBoundingClientRect();
    const box = one.getBoundingClientRect();
    const over = Math.max(box.right, box.left + one.scrollWidth * one.currentCSSZoom) - room.right;
    if (over > 1) one.style.zoom = (room.right - box.left) / (room.right - box.left + over);
  });
  document.querySelectorAll(".highlight, .admonition, details, table, li").forEach(one => {
    if (one.getBoundingClientRect().height < innerHeight / 3) one.style.breakInside = "avoid";
  });
}"""
# What would be wrong on paper.
WRONG = """() => {
  const found = [], all = selector => [...document.querySelectorAll(selector)];
  for (const link of all('a[href^="#"], use')) {
    const there = link.getAttribute("href");
    if (!document.getElementById(decodeURIComponent(there.slice(1))))
      found.push("a link to nothing: " + there);
  }
  for (const image of all("img"))
    if (!image.naturalWidth) found.push("an image that is not there: " + image.src);
  for (const part of all("pre > code, table, .drawing > svg, .katex-display > .katex")) {
    const edge = part.closest("section").getBoundingClientRect().right;
    if (part.getBoundingClientRect().left + part.scrollWidth * part.currentCSSZoom > edge + 2)
      found.push("cut at the margin: " + part.textContent.trim().slice(0, 60));
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    if (/\\\\[(\\[]|\\$\\$/.test(texts.currentNode.data) &&
        !texts.currentNode.parentElement.closest("code, pre, annotation"))
      found.push("a formula that is not set: " + texts.currentNode.data.trim().slice(0, 60));
  return found;
}"""
INSIDE = "https://book.invalid/#"  # stands for the book in its contents, which are printed alone
CONTENTS = {"pt": "Sumário", "en": "Contents"}


class Chapter(NamedTuple):
    """A page of the site, with the rooms that lead to it in the navigation."""

    url: str
    title: str
    rooms: tuple[str, ...]
    html: str
    sections: tuple[tuple[str, str], ...]  # headings and their ids

    @property
    def name(self) -> str:
        """What its ids begin with."""
        return _name(self.url)


class Entry(NamedTuple):
    """A line of contents or outline, and the id of what it leads to."""

    depth: int
    title: str
    name: str
    kind: str  # "room", "page" or "section"


def chapters(pages: Path) -> list[Chapter]:
    """The pages in the order of the navigation, of which each page has a step."""
    trees, url = {}, "index.html"
    while url:
        trees[url] = LexborHTMLParser((pages / url).read_text(encoding="utf-8"))
        after = trees[url].css_first('link[rel="next"]')
        url = _joined(url, after.attributes["href"] or "") if after else ""
    return [_chapter(url, tree, trees.keys()) for url, tree in trees.items()]


def _chapter(url: str, tree: LexborHTMLParser, known: Collection[str]) -> Chapter:
    """A page whose ids and links are those of the whole book."""
    name, article = _name(url), tree.css("article")[0]
    for node in article.css(OF_SCREEN):
        node.decompose()
    for node in article.css("details"):
        node.attrs["open"] = "open"
    for node in article.css("[aria-describedby]"):
        del node.attrs["aria-describedby"]
    for node in article.css("[id]"):
        node.attrs["id"] = f"{name}--{node.attributes['id']}"
    for node in article.css("a[href]"):
        split = urlsplit(node.attributes["href"] or "")
        there = _joined(url, split.path) if split.path else url
        if split.scheme:
            continue
        if there in known:
            node.attrs["href"] = f"#{_name(there)}" + (split.fragment and f"--{split.fragment}")
        else:
            del node.attrs["href"]  # a file of the site
    html = re.sub(r"(url\(#|<use href=\"#)", rf"\1{name}--", article.inner_html or "")
    return Chapter(
        url,
        _text(tree.css(".md-nav__link--active")[0]),
        tuple(_text(node) for node in tree.css(".md-path__item")[1:]),
        html,
        tuple(
            (_text(node).removesuffix("¶").strip(), node.attributes["id"] or "")
            for node in article.css("h2[id]")
        ),
    )


def _name(url: str) -> str:
    return url.removesuffix("index.html").strip("/").replace("/", "-") or "home"


def _joined(url: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(url), unquote(link)))


def _text(node: LexborNode) -> str:
    return " ".join(node.text().split())


def entries(chapters: Sequence[Chapter]) -> Iterator[Entry]:
    """Rooms, which begin with their first page, pages and their sections."""
    before: tuple[str, ...] = ()
    for chapter in chapters:
        for depth, room in enumerate(chapter.rooms):
            if chapter.rooms[: depth + 1] != before[: depth + 1]:
                yield Entry(depth, room, chapter.name, "room")
        before = chapter.rooms
        yield Entry(len(before), chapter.title, chapter.name, "page")
        for title, name in chapter.sections:
            yield Entry(len(before) + 1, title, name, "section")


def book(pages: Path, browser: Browser, written: int) -> bytes:
    """The PDF, as if made at that time, in seconds.

    Raises:
        ValueError: where something would be wrong on paper.
    """
    front = LexborHTMLParser((pages / "index.html").read_text(encoding="utf-8"))
    every = chapters(pages)
    lines = list(entries(every))
    # Chromium notes the place of what is linked, as each heading is by its own mark.
    body = "".join(
        f'<section class="chapter" id="{chapter.name}"><a hidden href="#{chapter.name}"></a>'
        f'<p class="room">{escape(" › ".join(chapter.rooms))}</p>{chapter.html}</section>'
        for chapter in every
    )
    pdf = PdfWriter(clone_from=io.BytesIO(printed(pages, sheet(front, body), browser)))
    places = _places(pdf, lines)
    before = sheet(front, _title(front) + _contents(front, lines, places), BEFORE)
    with io.BytesIO(printed(pages, before, browser)) as file:
        added = len(PdfReader(file).pages)
        pdf.merge(0, file, import_outline=False)
    _link(pdf, added)
    _outline(pdf, lines, places, added)
    pdf.set_page_label(0, added - 1, PageLabelStyle.LOWERCASE_ROMAN)
    pdf.set_page_label(added, len(pdf.pages) - 1, PageLabelStyle.DECIMAL, start=1)
    _describe(pdf, front, written)
    with io.BytesIO() as file:
        pdf.write(file)
        made = file.getvalue()
    if [line[:2] for line in outline(PdfReader(io.BytesIO(made)))] != [line[:2] for line in lines]:
        raise ValueError(f"{pages.name}: the outline of the PDF is not the site's navigation")
    return made


def _places(pdf: PdfWriter, lines: Sequence[Entry]) -> dict[str, tuple[int, float]]:
    """The sheet, from 0, and the height on it at which each line's part of the book begins."""
    known = pdf.named_destinations
    if lost := [line.title for line in lines if f"/{line.name}" not in known]:
        raise ValueError(f"printed nowhere: {', '.join(lost)}")
    numbers = {page.indirect_reference: number for number, page in enumerate(pdf.pages)}
    found = {}
    for line in lines:
        place = known[f"/{line.name}"]
        found[line.name] = numbers[place["/Page"].indirect_reference], float(place.top or 0)
    return found


def _title(front: LexborHTMLParser) -> str:
    """The first sheet: what the front page of the site says of it."""
    address = [node.attributes["href"] or "" for node in front.css('link[rel="canonical"]')]
    colophon = " · ".join((_text(front.css(".md-copyright__highlight")[0]), *address))
    return (
        '<section class="title"><img src="style/favicon.svg" alt="">'
        f"<h1>{escape(_heading(front))}</h1>"
        f"<p>{escape(_about(front))}</p><p>{escape(colophon)}</p></section>"
    )


def _contents(
    front: LexborHTMLParser, lines: Sequence[Entry], places: dict[str, tuple[int, float]]
) -> str:
    items = "".join(
        f'<li class="{line.kind}" style="padding-left: {1.2 * line.depth}em">'
        f'<a href="{INSIDE}{line.name}">{escape(line.title)}</a>'
        f"<span>{places[line.name][0] + 1}</span></li>"
        for line in lines
        if line.kind != "section"
    )
    heading = CONTENTS[_language(front)[:2]]
    return f'<section class="contents"><h1>{heading}</h1><ol>{items}</ol></section>'


def _heading(front: LexborHTMLParser) -> str:
    return _text(front.css("h1")[0]).removesuffix("¶").strip()


def _about(front: LexborHTMLParser) -> str:
    return front.css('meta[name="description"]')[0].attributes["content"] or ""


def _language(front: LexborHTMLParser) -> str:
    return front.css("html")[0].attributes["lang"] or ""


def _link(pdf: PdfWriter, added: int) -> None:
    """The contents lead into the book."""
    for page in pdf.pages[:added]:
        for annotation in page.get("/Annots", ()):
            link = annotation.get_object()
            address = link.get("/A", {}).get("/URI", "")
            if address.startswith(INSIDE):
                del link["/A"]
                link[NameObject("/Dest")] = NameObject(f"/{address.removeprefix(INSIDE)}")


def _outline(
    pdf: PdfWriter, lines: Sequence[Entry], places: dict[str, tuple[int, float]], added: int
) -> None:
    """Only the rooms of the first depth are unfolded."""
    above: list[IndirectObject] = []
    for line in lines:
        number, top = places[line.name]
        del above[line.depth :]
        parent, opened = (above[-1], False) if above else (None, line.kind == "room")
        item = pdf.add_outline_item(
            title=line.title,
            page_number=number + added,
            parent=parent,
            fit=Fit.xyz(left=0, top=top),
            is_open=opened,
        )
        above.append(item)


def _describe(pdf: PdfWriter, front: LexborHTMLParser, written: int) -> None:
    """What a reader is told of the file."""
    when = datetime.fromtimestamp(written, UTC).strftime("D:%Y%m%d%H%M%S+00'00'")
    pdf.metadata = {
        "/Title": _heading(front),
        "/Subject": _about(front),
        "/Author": "The attnref authors",
        "/CreationDate": when,
        "/ModDate": when,
    }
    pdf.root_object[NameObject("/Lang")] = TextStringObject(_language(front))
    shown = DictionaryObject({NameObject("/DisplayDocTitle"): BooleanObject(True)})
    pdf.root_object[NameObject("/ViewerPreferences")] = shown
    pdf.page_mode = "/UseOutlines"


def outline(pdf: PdfReader) -> list[tuple[int, str, int]]:
    """Depth, title and sheet, from 0, of what a reader shows beside the pages."""

    def walk(items: Sequence[object], depth: int) -> Iterator[tuple[int, str, int]]:
        for item in items:
            if isinstance(item, list):
                yield from walk(item, depth + 1)
            elif isinstance(item, Destination):
                number = pdf.get_destination_page_number(item)
                yield depth, str(item.title), -1 if number is None else number

    return list(walk(pdf.outline, 0))


def sheet(front: LexborHTMLParser, body: str, more: str = "") -> str:
    """What is printed, in the styles of the site."""
    styles = "".join(node.html or "" for node in front.css('link[rel="stylesheet"]'))
    return (
        f'<!doctype html><html lang="{_language(front)}"><head><meta charset="utf-8">'
        "<title>attnref</title>"
        f"{styles}<style>{STYLE.read_text(encoding='utf-8')}{more}</style></head>"
        '<body dir="ltr" data-md-color-scheme="default" data-md-color-primary="custom" '
        f'data-md-color-accent="custom"><div class="md-typeset">{body}</div></body></html>'
    )


def printed(pages: Path, html: str, browser: Browser) -> bytes:
    """A PDF of a page that is shown as if it were one of the folder.

    Raises:
        ValueError: where something would be wrong on paper.
    """
    path = pages / "book-to-be-printed.html"
    path.write_text(html, encoding="utf-8")
    context = browser.new_context(viewport=PAPER, color_scheme="light")
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        wrong: list[str] = []
        page.on("requestfailed", lambda request: wrong.append(f"{request.url} failed"))
        page.emulate_media(media="print")
        page.goto(path.as_uri())
        page.evaluate("document.fonts.ready.then(() => null)")
        page.evaluate(SET)
        wrong += page.evaluate(WRONG)
        if wrong:
            raise ValueError(f"{pages.name}, on paper:\n" + "\n".join(wrong))
        pdf: bytes = page.pdf(prefer_css_page_size=True, print_background=True, tagged=True)
        return pdf
    finally:
        context.close()
        path.unlink()
