"""The book of one language as a PDF, from the folder that is read from a disk (book/make/disk.py).

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

import pikepdf
from playwright.sync_api import Browser, ViewportSize
from selectolax.lexbor import LexborHTMLParser, LexborNode

STYLE = Path(__file__).parents[2] / "docs" / "disk" / "book.css"
# The sheets before the book have numbers of their own, the title none.
BEFORE = (
    "@page { @bottom-center { content: counter(page, lower-roman); } }"
    "@page :first { @bottom-center { content: none; } }"
)
STYLES = "explorers/*/style.css"  # which only the pages of these have
PAPER = ViewportSize(width=673, height=980)  # in pixels, A4 without the margins of book.css
PATIENCE = 600_000  # milliseconds
# Of a page: what only a screen can use.
OF_SCREEN = (
    ".reading, .foot, .take, .notebook, .api-uses, .term-meaning, form, script, button, "
    ".explorer-controls, .explorer-bar, .explorer-program, .explorer-awake, .explorer-said, "
    ".md-content__button, .programs"  # those of all behaviours would be a book of their own
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
        url = _join_url(url, after.attributes["href"] or "") if after else ""
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
    for node in article.css('a[href*="#program-"]'):
        del node.attrs["href"]
    for node in article.css("a[href]"):
        split = urlsplit(node.attributes["href"] or "")
        there = _join_url(url, split.path) if split.path else url
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


def _join_url(url: str, link: str) -> str:
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
    own = [path.relative_to(pages).as_posix() for path in sorted(pages.glob(STYLES))]
    text = sheet(front, body, own=own)
    with (
        pikepdf.open(io.BytesIO(print_pdf(pages, text, browser, tagged=True))) as pdf,
        io.BytesIO() as file,
    ):
        places = _places(pdf, lines)
        before = sheet(front, _title(front) + _contents(front, lines, places), BEFORE)
        # Its parts have no names for screen readers: those of two files could not be told apart.
        added = _add(pdf, print_pdf(pages, before, browser, tagged=False))
        _outline(pdf, lines, places, added)
        _describe(pdf, front, added, written)
        packed = pikepdf.ObjectStreamMode.generate  # half of the size
        pdf.save(file, object_stream_mode=packed, deterministic_id=True)
        return file.getvalue()


def _places(pdf: pikepdf.Pdf, lines: Sequence[Entry]) -> dict[str, tuple[int, float]]:
    """The sheet, from 0, and the height on it at which each line's part of the book begins."""
    known = pdf.Root.Dests
    if lost := [line.title for line in lines if f"/{line.name}" not in known]:
        raise ValueError(f"printed nowhere: {', '.join(lost)}")
    numbers = {page.obj.objgen: number for number, page in enumerate(pdf.pages)}
    found = {}
    for line in lines:
        sheet, _, _, top, _ = known[f"/{line.name}"].as_list()
        found[line.name] = numbers[sheet.objgen], float(top)
    order = [number for number, _ in found.values()]
    if order != sorted(order):
        raise ValueError("the pages were not printed in the order of the navigation")
    return found


def _add(pdf: pikepdf.Pdf, before: bytes) -> int:
    """Puts these sheets before the book, into which their links lead; how many they are."""
    with pikepdf.open(io.BytesIO(before)) as front:
        for number, page in enumerate(front.pages):
            pdf.pages.insert(number, page)
        added = len(front.pages)
    for page in pdf.pages[:added]:
        for link in page.get("/Annots", pikepdf.Array()):
            address = str(link.get("/A", pikepdf.Dictionary()).get("/URI", ""))
            if address.startswith(INSIDE):
                del link["/A"]
                link["/Dest"] = pikepdf.Name(f"/{address.removeprefix(INSIDE)}")
    return added


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


def _outline(
    pdf: pikepdf.Pdf, lines: Sequence[Entry], places: dict[str, tuple[int, float]], added: int
) -> None:
    """What a reader shows beside the pages; only the rooms of the first depth are unfolded."""
    with pdf.open_outline() as outline:
        levels = [outline.root]
        for line in lines:
            number, top = places[line.name]
            item = pikepdf.OutlineItem(line.title, number + added, "XYZ", left=0, top=top)
            item.is_closed = bool(line.depth) or line.kind == "page"
            del levels[line.depth + 1 :]
            levels[-1].append(item)
            levels.append(item.children)


def _describe(pdf: pikepdf.Pdf, front: LexborHTMLParser, added: int, written: int) -> None:
    """What a reader is told of the file, and the numbers of its sheets."""
    when = datetime.fromtimestamp(written, UTC).strftime("D:%Y%m%d%H%M%S+00'00'")
    told = {
        "/Title": _heading(front),
        "/Subject": _about(front),
        "/Author": "The attnref authors",
        "/CreationDate": when,
        "/ModDate": when,
    }
    for key, text in told.items():
        pdf.docinfo[key] = text
    pdf.Root.Lang = pikepdf.String(_language(front))
    pdf.Root.ViewerPreferences = pikepdf.Dictionary(DisplayDocTitle=True)
    pdf.Root.PageMode = pikepdf.Name.UseOutlines
    roman, arabic = pikepdf.Dictionary(S=pikepdf.Name.r), pikepdf.Dictionary(S=pikepdf.Name.D)
    pdf.Root.PageLabels = pikepdf.Dictionary(Nums=[0, roman, added, arabic])


def sheet(front: LexborHTMLParser, body: str, more: str = "", own: Sequence[str] = ()) -> str:
    """What is printed, in the styles of the site; ``own`` are those of other pages."""
    styles = "".join(node.html or "" for node in front.css('link[rel="stylesheet"]'))
    styles += "".join(f'<link rel="stylesheet" href="{style}">' for style in own)
    return (
        f'<!doctype html><html lang="{_language(front)}"><head><meta charset="utf-8">'
        "<title>attnref</title>"
        f"{styles}<style>{STYLE.read_text(encoding='utf-8')}{more}</style></head>"
        '<body dir="ltr" data-md-color-scheme="default" data-md-color-primary="custom" '
        f'data-md-color-accent="custom"><div class="md-typeset">{body}</div></body></html>'
    )


def print_pdf(pages: Path, html: str, browser: Browser, *, tagged: bool) -> bytes:
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
        pdf: bytes = page.pdf(prefer_css_page_size=True, print_background=True, tagged=tagged)
        return pdf
    finally:
        context.close()
        path.unlink()
