"""The book of one language as two PDFs, from the folder that is read from a disk (disk.py).

Its pages come in the order of the navigation: tabs are parts, what is right below a tab is a
chapter, pages in it are sections. Chromium prints one chapter after the other, which takes less
time and memory than all at once; a link to another chapter leads to a name, which is known when all
are joined. On which sheet something begins is known only then, too: the contents and the index of
terms are printed afterwards.
"""

import io
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pikepdf
from playwright.sync_api import Browser, ViewportSize
from selectolax.lexbor import LexborHTMLParser, LexborNode

STYLE = Path(__file__).parents[2] / "docs" / "disk" / "book.css"
# The sheets before a volume have numbers of their own, the title none.
BEFORE = (
    "@page { @bottom-center { content: counter(page, lower-roman); } }"
    "@page :first { @bottom-center { content: none; } }"
)
STYLES = "explorers/*/style.css"  # which only the pages of these have
PAPER = ViewportSize(width=673, height=998)  # in pixels, A4 without the margins of book.css
PATIENCE = 600_000  # milliseconds
# Of a page: what only a screen can use.
OF_SCREEN = (
    ".reading, .foot, .take, .notebook, .api-uses, .term-meaning, script, button, "
    ".doors > div:has(form), form, "
    ".explorer-controls, .explorer-bar, .explorer-program, .explorer-awake, .explorer-said, "
    ".md-content__button, .programs"  # those of all behaviours would be a book of their own
)
# What is wider than the paper is made smaller, and what is low is kept whole; code becomes a block
# in a table, whose head names the file on the next sheet.
SET = """() => {
  document.querySelectorAll("pre > code").forEach(code => {
    const lines = document.createElement("span");
    lines.append(...code.childNodes);
    code.append(lines);
    const file = code.closest(".highlight")?.querySelector(".filename");
    if (file) code.dataset.file = `${file.textContent}, `;
  });
  const wide = "table, .katex-display > .katex, .drawing > svg";
  const around = "section, li, dd, blockquote, details, td, .katex-display";
  document.querySelectorAll(wide).forEach(one => {
    const room = one.closest(around).getBoundingClientRect();
    const box = one.getBoundingClientRect();
    const over = Math.max(box.right, box.left + one.scrollWidth * one.currentCSSZoom) - room.right;
    if (over > 1) one.style.zoom = (room.right - box.left) / (room.right - box.left + over);
  });
  // All are measured before one is changed, or each would be laid out again.
  [...document.querySelectorAll(".highlight, .admonition, details, table, li")]
    .filter(one => one.getBoundingClientRect().height < innerHeight / 3)
    .forEach(one => one.style.breakInside = "avoid");
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
    const edge = part.closest("section, .katex-display").getBoundingClientRect().right;
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
INSIDE = "https://book.invalid/#"  # stands for the volume in a part of it that is printed alone
# What is looked up, not read: the second volume.
REFERENCE = re.compile(
    r"practice/behaviours|variants/benchmark-tables|reference/(?!notation|glossary|bibliography)"
)
GLOSSARY = "reference/glossary/index.html"
WORDS: dict[str, dict[str, Any]] = {
    "pt": {
        "contents": "Sumário",
        "index": "Índice remissivo",
        "volumes": ("Livro", "Referência"),
        "about": (
            "✓ marca o que um teste verifica: veja o segundo volume, Referência.",
            "O segundo volume, para consulta. (Livro 3.2) é uma seção do primeiro.",
        ),
    },
    "en": {
        "contents": "Contents",
        "index": "Index of terms",
        "volumes": ("Book", "Reference"),
        "about": (
            "✓ marks what a test verifies: see the second volume, Reference.",
            "The second volume, to look things up. (Book 3.2) is a section of the first.",
        ),
    },
}


class Section(NamedTuple):
    """A page of the site, with the rooms that lead to it in the navigation."""

    url: str
    title: str
    rooms: tuple[str, ...]
    volume: int
    number: str  # of the chapter and in it; none has what opens a volume or a part
    html: str = ""
    headings: tuple[tuple[str, str], ...] = ()  # and their ids

    @property
    def name(self) -> str:
        """What its ids begin with."""
        return _name(self.url)

    @property
    def chapter(self) -> tuple[tuple[str, ...], str]:
        """What it shares with all sections of its chapter."""
        return self.rooms, self.number.partition(".")[0]


class Entry(NamedTuple):
    """A line of contents or outline, and the id of what it leads to."""

    depth: int
    title: str
    name: str
    kind: str  # "part", "chapter", "section" or "heading"


def sections(pages: Path) -> list[Section]:
    """The pages in the order of the navigation, of which each page has a step."""
    trees, url = {}, "index.html"
    while url:
        trees[url] = LexborHTMLParser((pages / url).read_text(encoding="utf-8"))
        after = trees[url].css_first('link[rel="next"]')
        url = _join_url(url, after.attributes["href"] or "") if after else ""
    known = {section.url: section for section in _number(trees)}
    return [_fill(section, trees[section.url], known) for section in known.values()]


def _number(trees: Mapping[str, LexborHTMLParser]) -> Iterator[Section]:
    """Where each page is in its volume."""
    before: list[tuple[str, ...]] = [(), ()]
    chapter, section = [0, 0], [0, 0]
    for url, tree in trees.items():
        rooms = tuple(_text(node) for node in tree.css(".md-path__item")[1:])
        volume, number = int(bool(REFERENCE.match(url))), ""
        if url.count("/") > 1:
            if len(rooms) == 1 or rooms != before[volume]:
                chapter[volume] += 1
                section[volume] = 0
            section[volume] += 1
            number = str(chapter[volume])
            number += f".{section[volume]}" if len(rooms) > 1 else ""
        before[volume] = rooms
        yield Section(url, _text(tree.css(".md-nav__link--active")[0]), rooms, volume, number)


def _fill(section: Section, tree: LexborHTMLParser, known: Mapping[str, Section]) -> Section:
    """The section with its text, whose ids and links are those of the whole book."""
    name, article = section.name, tree.css("article")[0]
    words = _words(tree)
    for node in article.css("h2:has(+ .take)"):
        node.decompose()
    for node in article.css(OF_SCREEN):
        node.decompose()
    for node in article.css("details"):
        node.attrs["open"] = "open"
    for node in article.css("[aria-describedby]"):
        if "term-word" in (node.attributes.get("class") or ""):
            node.attrs["id"] = node.attributes["aria-describedby"]
        del node.attrs["aria-describedby"]
    for node in article.css("[src]"):
        node.attrs["src"] = _join_url(section.url, node.attributes["src"] or "")
    for node in article.css("[id]"):
        node.attrs["id"] = f"{name}--{node.attributes['id']}"
    for node in article.css('a[href*="#program-"], a[href$="#take"]'):
        del node.attrs["href"]
    for node in article.css("a[href]"):
        split = urlsplit(node.attributes["href"] or "")
        if split.scheme:
            continue
        there = known.get(_join_url(section.url, split.path) if split.path else section.url)
        if there and there.volume == section.volume:
            here = there.chapter == section.chapter
            end = split.fragment and f"--{split.fragment}"
            node.attrs["href"] = f"{'#' if here else INSIDE}{there.name}{end}"
            continue
        del node.attrs["href"]  # a file of the site, or what is not in this volume
        if there and "claim-test" not in (node.attributes.get("class") or ""):
            node.attrs["data-volume"] = f"{words['volumes'][there.volume]} {there.number}".strip()
    html = re.sub(r"(url\(#|<use href=\"#)", rf"\1{name}--", article.inner_html or "")
    headings = (
        (_text(node).removesuffix("¶").strip(), node.attributes["id"] or "")
        for node in article.css("h2[id]")
    )
    return section._replace(html=html, headings=tuple(headings))


def _name(url: str) -> str:
    return url.removesuffix("index.html").strip("/").replace("/", "-") or "home"


def _join_url(url: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(url), unquote(link)))


def _text(node: LexborNode) -> str:
    return " ".join(node.text().split())


def entries(sections: Sequence[Section]) -> Iterator[Entry]:
    """Parts and chapters, which begin with their first section, sections and their headings."""
    before: tuple[str, ...] = ()
    for section in sections:
        for depth, room in enumerate(section.rooms):
            if section.rooms[: depth + 1] != before[: depth + 1]:
                number = section.chapter[1] if depth else ""
                kind = "chapter" if depth else "part"
                yield Entry(depth, f"{number} {room}".strip(), section.name, kind)
        before = section.rooms
        depth = len(before)
        if section.number or not before:  # not of a part, which is a line already
            yield Entry(depth, f"{section.number} {section.title}".strip(), section.name, "section")
            depth += 1
        for title, name in section.headings:
            yield Entry(depth, title, name, "heading")


def book(pages: Path, volume: int, browser: Browser, written: int) -> bytes:
    """The PDF of a volume, as if made at that time, in seconds.

    Raises:
        ValueError: where something would be wrong on paper.
    """
    front = LexborHTMLParser((pages / "index.html").read_text(encoding="utf-8"))
    every = [section for section in sections(pages) if section.volume == volume]
    lines = list(entries(every))
    own = [path.relative_to(pages).as_posix() for path in sorted(pages.glob(STYLES))]
    told = _words(front)["volumes"][volume]
    with pikepdf.new() as pdf, io.BytesIO() as file:
        for _, chapter in groupby(every, lambda section: section.chapter):
            title, body, style = _chapter(list(chapter), len(pdf.pages))
            print(f"attnref: {pages.name}, {told}, {len(pdf.pages) + 1}: {title}", flush=True)
            text = sheet(front, body, style, own)
            _join(pdf, print_pdf(pages, text, browser, tagged=True))
        places = _places(pdf, lines)
        if index := _index(every, front, places):
            text = sheet(front, index, f"html {{ counter-reset: page {len(pdf.pages)} }}")
            _put(pdf, print_pdf(pages, text, browser, tagged=False), len(pdf.pages))
        before = sheet(front, _title(front, volume) + _contents(front, lines, places), BEFORE)
        # Its parts have no names for screen readers, nor have those of the index.
        added = _put(pdf, print_pdf(pages, before, browser, tagged=False), 0)
        _link(pdf)
        _outline(pdf, lines, places, added)
        _describe(pdf, front, volume, added, written)
        packed = pikepdf.ObjectStreamMode.generate  # half of the size
        pdf.save(file, object_stream_mode=packed, deterministic_id=True)
        return file.getvalue()


def _chapter(sections: Sequence[Section], before: int) -> tuple[str, str, str]:
    """A chapter's title, what is printed of it, and its own style, after so many sheets."""
    rooms, number = sections[0].chapter
    part, title = "".join(rooms[:1]), f"{number} {[sections[0].title, *rooms[1:]][-1]}".strip()
    body = f'<p class="room">{escape(part)}</p>'
    body += f'<p class="chapter">{escape(title)}</p>' if rooms[1:] else ""
    for section in sections:
        told = f'--number: "{section.number} "' if section.number else ""
        body += f"<section id=\"{section.name}\" style='{told}'>{section.html}</section>"
    # Chromium notes the place of what is linked.
    body += "".join(
        f'<a hidden href="#{name}"></a>' for name in re.findall(r'\bid="([^"]+)"', body)
    )
    left, right = (json.dumps(text, ensure_ascii=False) for text in (part, title))
    style = (
        f'html {{ counter-reset: page {before}; --chapter: "{number and number + "."}"; }}'
        f"@page {{ @top-left {{ content: {left}; }} @top-right {{ content: {right}; }} }}"
        "@page :first { @top-left { content: none; } @top-right { content: none; } }"
    )
    return title, body, style


def _join(pdf: pikepdf.Pdf, part: pikepdf.Pdf) -> None:
    """Adds the sheets of a chapter, its places, and its tags, whose numbers and names go on."""
    root = pdf.Root
    if "/StructTreeRoot" not in root:
        root.Dests, root.MarkInfo = pikepdf.Dictionary(), pikepdf.Dictionary(Marked=True)
        root.StructTreeRoot = pikepdf.Dictionary(
            Type=pikepdf.Name.StructTreeRoot,
            K=[],
            ParentTree=pikepdf.NumberTree.new(pdf).obj,
            ParentTreeNextKey=0,
            IDTree=pikepdf.NameTree.new(pdf).obj,
        )
    tags, begin = root.StructTreeRoot, len(pdf.pages)
    first, prefix = int(tags.ParentTreeNextKey), f"{begin:05}-"
    for one in part.objects:
        if isinstance(one, pikepdf.Dictionary) and one.get("/Type") == "/StructElem":
            if "/ID" in one:
                one.ID = pikepdf.String(f"{prefix}{one.ID}")
            for told in one.get("/A", ()) if isinstance(one.get("/A"), pikepdf.Array) else ():
                if "/Headers" in told:
                    told.Headers = [pikepdf.String(f"{prefix}{name}") for name in told.Headers]
    _put(pdf, part, begin)  # what follows leads to these copies
    held = pikepdf.Dictionary(Dests=part.Root.get("/Dests", {}), Tags=part.Root.StructTreeRoot)
    copy = pdf.copy_foreign(part.make_indirect(held))
    for page in list(pdf.pages)[begin:]:
        for one in (page.obj, *page.obj.get("/Annots", ())):
            for key in {"/StructParents", "/StructParent"} & set(one.keys()):
                one[key] = int(one[key]) + first
    for name, place in copy.Dests.items():
        root.Dests[name] = place
    copy.Tags.K.P = tags
    tags.K.append(copy.Tags.K)
    numbers = pikepdf.NumberTree(tags.ParentTree)
    for number, elements in pikepdf.NumberTree(copy.Tags.ParentTree).items():
        numbers[number + first] = elements
    if "/IDTree" in copy.Tags:
        ids = pikepdf.NameTree(tags.IDTree)
        for element in pikepdf.NameTree(copy.Tags.IDTree).values():
            ids[str(element.ID)] = element
    tags.ParentTreeNextKey = first + int(copy.Tags.ParentTreeNextKey)


def _places(pdf: pikepdf.Pdf, lines: Sequence[Entry]) -> dict[str, tuple[int, float]]:
    """The sheet, from 0, and the height on it of each place that has a name."""
    numbers = {page.obj.objgen: number for number, page in enumerate(pdf.pages)}
    found = {
        name[1:]: (numbers[place[0].objgen], float(place[3]))
        for name, place in pdf.Root.Dests.items()
    }
    if lost := [line.title for line in lines if line.name not in found]:
        raise ValueError(f"printed nowhere: {', '.join(lost)}")
    order = [found[line.name][0] for line in lines]
    if order != sorted(order):
        raise ValueError("the pages were not printed in the order of the navigation")
    return found


def _put(pdf: pikepdf.Pdf, part: pikepdf.Pdf, at: int) -> int:
    """Puts the sheets of a part before that one; how many they are."""
    for number, page in enumerate(part.pages):
        pdf.pages.insert(at + number, page)
    return len(part.pages)


def _link(pdf: pikepdf.Pdf) -> None:
    """Lets the links from one part into another lead there.

    Raises:
        ValueError: where there is no such place.
    """
    lost = set()
    for page in pdf.pages:
        for link in page.obj.get("/Annots", ()):
            address = str(link.get("/A", pikepdf.Dictionary()).get("/URI", ""))
            if address.startswith(INSIDE):
                name = pikepdf.Name(f"/{unquote(address.removeprefix(INSIDE))}")
                del link["/A"]
                link["/Dest"] = name
                if name not in pdf.Root.Dests:
                    lost.add(f"a link to nothing: #{str(name)[1:]}")
    if lost:
        raise ValueError("\n".join(sorted(lost)))


def _title(front: LexborHTMLParser, volume: int) -> str:
    """The first sheet: what the front page of the site says of it."""
    address = [node.attributes["href"] or "" for node in front.css('link[rel="canonical"]')]
    colophon = " · ".join((_text(front.css(".md-copyright__highlight")[0]), *address))
    told = _words(front)
    return (
        '<section class="title"><img src="style/favicon.svg" alt="">'
        f"<h1>{escape(_heading(front, volume))}</h1>"
        f"<p>{escape(_about(front))}</p><p>{told['about'][volume]}</p>"
        f"<p>{escape(colophon)}</p></section>"
    )


def _contents(
    front: LexborHTMLParser, lines: Sequence[Entry], places: Mapping[str, tuple[int, float]]
) -> str:
    items = "".join(
        f'<li class="{line.kind}" style="padding-left: {1.2 * line.depth}em">'
        f'<a href="{INSIDE}{line.name}">{escape(line.title)}</a>'
        f"<span>{places[line.name][0] + 1}</span></li>"
        for line in lines
        if line.kind != "heading"
    )
    return (
        f'<section class="contents"><h1>{_words(front)["contents"]}</h1><ol>{items}</ol></section>'
    )


def _index(
    sections: Sequence[Section], front: LexborHTMLParser, places: Mapping[str, tuple[int, float]]
) -> str:
    """The terms of the glossary: the sheet that explains each, and where a chapter mentions it."""
    glossary = "".join(section.html for section in sections if section.url == GLOSSARY)
    items = []
    for term in LexborHTMLParser(glossary).css("dt > a[id]"):
        mark = f"--term-{(term.attributes['id'] or '').partition('--')[2]}"
        of_chapter = {
            section.chapter: f"{section.name}{mark}"
            for section in reversed(sections)
            if f"{section.name}{mark}" in places
        }
        main = (term.attributes.get("href") or "").removeprefix(INSIDE)
        names = [*of_chapter.values(), *([main] if main in places else [])]
        links = {places[name][0]: name for name in names}
        numbers = ", ".join(
            f'<a class="{"main" * (name == main)}" href="{INSIDE}{name}">{at + 1}</a>'
            for at, name in sorted(links.items())
        )
        items += [f"<li>{escape(_text(term))} {numbers}</li>"] if links else []
    heading = f"<h1>{_words(front)['index']}</h1>"
    return f'<section class="index">{heading}<ul>{"".join(items)}</ul></section>' if items else ""


def _words(front: LexborHTMLParser) -> dict[str, Any]:
    return WORDS[_language(front)[:2]]


def _heading(front: LexborHTMLParser, volume: int) -> str:
    heading = _text(front.css("h1")[0]).removesuffix("¶").strip()
    return f"{heading}: {_words(front)['volumes'][volume]}" if volume else heading


def _about(front: LexborHTMLParser) -> str:
    return front.css('meta[name="description"]')[0].attributes["content"] or ""


def _language(front: LexborHTMLParser) -> str:
    return front.css("html")[0].attributes["lang"] or ""


def _outline(
    pdf: pikepdf.Pdf, lines: Sequence[Entry], places: Mapping[str, tuple[int, float]], added: int
) -> None:
    """What a reader shows beside the pages; only the rooms of the first depth are unfolded."""
    with pdf.open_outline() as outline:
        levels = [outline.root]
        for line in lines:
            number, top = places[line.name]
            item = pikepdf.OutlineItem(line.title, number + added, "XYZ", left=0, top=top)
            item.is_closed = bool(line.depth) or line.kind == "section"
            del levels[line.depth + 1 :]
            levels[-1].append(item)
            levels.append(item.children)


def _describe(
    pdf: pikepdf.Pdf, front: LexborHTMLParser, volume: int, added: int, written: int
) -> None:
    """What a reader is told of the file, and the numbers of its sheets."""
    when = datetime.fromtimestamp(written, UTC).strftime("D:%Y%m%d%H%M%S+00'00'")
    told = {
        "/Title": _heading(front, volume),
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


def print_pdf(pages: Path, html: str, browser: Browser, *, tagged: bool) -> pikepdf.Pdf:
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
        pdf = page.pdf(prefer_css_page_size=True, print_background=True, tagged=tagged)
        return pikepdf.open(io.BytesIO(pdf))
    finally:
        context.close()
        path.unlink()
