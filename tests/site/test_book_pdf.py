"""The book as two PDFs: of a tiny site, made in seconds; and the navigation of the real one."""

import io
import posixpath
import tomllib
from pathlib import Path

import pytest
import yaml
from pypdf import PdfReader

from book.make import disk
from book.make import pdf as book_pdf

ROOT = Path(__file__).parent.parent.parent
PAGE = """<!doctype html><html lang="en"><head><meta name="description" content="Of numbers.">
<link rel="stylesheet" href="/style.css"></head><body>
<a class="md-nav__link md-nav__link--active">{menu}</a>
<ol>{path}</ol><article><h1 id="top">{title}<a class="headerlink" href="#top">¶</a></h1>
<p class="reading">8 min</p>{text}</article>
<p class="md-copyright__highlight">attnref 7 (abc) · MIT</p></body></html>"""
HEADING = '<h2 id="{id}">{text}<a class="headerlink" href="#{id}">¶</a></h2>'
HOME = (
    '<p>To <a href="room/two/index.html#far">the second</a>, <a href="../code.py">a path</a>, '
    '<a href="reference/api/index.html#name">a name</a>'
    '<a class="claim-test" href="reference/claims/index.html">✓</a></p>'
)
ONE = (
    HEADING.format(id="why", text="Why")
    + "<details><summary>Asked</summary><p>Unfolded</p></details><form><button>Go</button></form>"
    + '<a href="#program-a">asked</a>'
    + '<details class="programs"><p id="program-a">Left out</p></details>'
    + "<pre><code>"
    + "wide " * 60
    + "\\(kept\\)</code></pre>"
    + '<table><tr><td style="min-width: 1500px">left</td><td>right</td></tr></table>'
    + '<figure><figcaption>A caption</figcaption></figure><img src="../icon.svg">'
)
TWO = (
    '<div class="formula"><span class="katex-display">set</span></div>'
    '<p>Of <span class="term"><dfn class="term-word" aria-describedby="term-number">numbers</dfn>'
    '<span class="term-meaning" id="term-number">What counts.</span></span></p>'
    '<div class="highlight"><span class="filename">long.py</span><pre><code>'
    + "<span>if</span> <span>so</span>\n" * 150
    + "</code></pre></div>"
    + HEADING.format(id="far", text="Far away")
    + '<a href="../one/index.html">1</a> <a href="../three/index.html">3</a>'
)
GLOSSARY = (
    '<dl><dt><a id="number" href="../../room/one/index.html#why">number</a></dt><dd>It counts.</dd>'
    '<dt><a id="rare" href="../../room/index.html">rare</a></dt><dd>Seldom.</dd></dl>'
)
API = '<p id="name">See <a href="../../room/two/index.html">two</a></p>'
SITE = {  # by the address of a page, its name in the menu, its title, its text
    "index.html": ("Home", "Numbers", HOME),
    "room/index.html": ("A room", "The room", "<p>Opened</p>"),
    "room/one/index.html": ("One", "The number one", ONE),
    "room/two/index.html": ("Two", "The number two", TWO),
    "room/three/index.html": ("Three", "The number three", "<p>Alone</p>"),
    "reference/glossary/index.html": ("Glossary", "The glossary", GLOSSARY),
    "reference/api/index.html": ("API", "The API", API),
    "reference/claims/index.html": ("Claims", "The claims", ""),
}
ROOMS = {
    "room": ["A room"],
    "room/one": ["A room", "A group"],
    "room/two": ["A room", "A group"],
    "room/three": ["A room"],
    "reference/glossary": ["Reference"],
    "reference/api": ["Reference", "Code"],
    "reference/claims": ["Reference"],
}
WRITTEN = 1_700_000_000


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Writes a site of a few pages, as if it were one that is read from a disk."""
    tmp_path = tmp_path_factory.mktemp("tiny")
    icon = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    for path in ("style/favicon.svg", "room/icon.svg", "style.css"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(icon * path.endswith("svg"), "utf-8")

    def write(home=HOME):
        urls = list(SITE)
        for url, after in zip(urls, [*urls[1:], None], strict=True):
            menu, title, text = SITE[url]
            text = home if url == "index.html" else text
            up = "../" * url.count("/")
            if after:
                text += f'<link rel="next" href="{up}{after}">'
            rooms = ["Home", *ROOMS.get(posixpath.dirname(url), [])] * bool(posixpath.dirname(url))
            path = "".join(f'<li class="md-path__item"> {room} </li>' for room in rooms)
            html = PAGE.format(menu=menu, path=path, title=title, text=text)
            (tmp_path / url).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / url).write_text(html.replace('"/style.css"', f'"{up}style.css"'), "utf-8")
        return tmp_path

    return write


@pytest.fixture(scope="module")
def made(tiny, browser):
    return [book_pdf.book(tiny(), volume, browser, WRITTEN) for volume in (0, 1)]


@pytest.fixture
def pdf(made):
    return PdfReader(io.BytesIO(made[0]))


@pytest.fixture
def second(made):
    return PdfReader(io.BytesIO(made[1]))


def read(pdf):
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def test_title_contents_chapters_and_index_come_in_order(pdf, second):
    texts = read(pdf)
    assert texts[0].startswith("Numbers Of numbers. ✓ marks what a test")
    assert texts[0].endswith("attnref 7 (abc) · MIT")
    assert texts[1] == (
        "ii Contents Home 1 A room 2 1 A group 3 1.1 One 3 1.2 Two 3 2 Three 6 "
        "Reference 7 3 Glossary 7"
    )
    assert texts[2] == "1 Numbers To the second, a path, a name (Reference 1.1)✓"
    assert texts[3] == "2 A room The room Opened"
    assert texts[4].startswith("3 A room 1 A group 1.1 The number one Why Asked Unfolded")
    for left_out in ("8 min", "Go", "Left out"):
        assert left_out not in texts[4]
    for kept in (
        "\\(kept\\)",
        "left right",
        "Figure 1.1. A caption",
        "1.2 The number two set (1.1)",
    ):
        assert kept in texts[4]
    assert texts[7] == "6 A room 2 The number three Alone"
    assert texts[-1] == "8 Index of terms number 3 rare 2"
    assert pdf.page_labels[:4] == ["i", "ii", "1", "2"]
    texts = read(second)
    assert texts[0].startswith("Numbers: Reference")
    assert texts[1] == "ii Contents Reference 1 1 Code 1 1.1 API 1 2 Claims 2"
    assert texts[2] == "1 Reference 1 Code 1.1 The API See two (Book 1.2)"


def test_a_sheet_names_its_chapter_and_what_is_continued(pdf):
    texts = read(pdf)
    assert " 1 A group" not in texts[4][12:]  # where a chapter begins, its heading is enough
    assert texts[5].startswith("A room 1 A group 4 long.py, continued if so if so")


def test_the_outline_is_the_navigation_with_its_sections(pdf):
    def walk(items, depth):
        for item in items:
            if isinstance(item, list):
                yield from walk(item, depth + 1)
            else:
                yield depth, item.title, pdf.get_destination_page_number(item)

    assert list(walk(pdf.outline, 0)) == [
        *((0, "Home", 2), (0, "A room", 3), (1, "1 A group", 4), (2, "1.1 One", 4), (3, "Why", 4)),
        *((2, "1.2 Two", 4), (3, "Far away", 6), (1, "2 Three", 7)),
        *((0, "Reference", 8), (1, "3 Glossary", 8)),
    ]


def test_links_lead_into_the_book(pdf, second):
    numbers = {page.indirect_reference.idnum: number for number, page in enumerate(pdf.pages)}

    def links(page):
        names = [link.get_object().get("/Dest") for link in page.get("/Annots", ())]
        return [
            numbers[pdf.named_destinations[name]["/Page"].indirect_reference.idnum]
            for name in names
        ]

    assert links(pdf.pages[1]) == [2, 3, 4, 4, 4, 7, 8, 8]
    assert links(pdf.pages[2]) == [6]  # not to the second volume
    assert links(pdf.pages[6]) == [4, 7]
    assert links(pdf.pages[-1]) == [4, 3]
    assert not second.pages[2].get("/Annots")


def test_a_screen_reader_finds_the_parts_of_all_chapters(pdf):
    tags = pdf.root_object["/StructTreeRoot"]
    numbers = tags["/ParentTree"]["/Nums"][::2]
    assert numbers == sorted(set(numbers))
    assert {page["/StructParents"] for page in pdf.pages[2:-1]} <= set(numbers)
    assert len(tags["/K"]) == 5


def test_the_file_says_what_it_is(pdf):
    assert pdf.metadata.title == "Numbers"
    assert pdf.metadata.subject == "Of numbers."
    (author,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["authors"]
    assert pdf.metadata.author == author["name"]
    assert pdf.metadata.creation_date.timestamp() == WRITTEN
    assert pdf.root_object["/Lang"] == "en"
    assert pdf.root_object["/PageMode"] == "/UseOutlines"
    assert pdf.root_object["/MarkInfo"]["/Marked"]


def test_what_is_made_again_is_the_same(made, tiny, browser):
    assert book_pdf.book(tiny(), 1, browser, WRITTEN) == made[1]


def test_what_would_be_wrong_on_paper_is_told(tiny, browser):
    wrong = (
        '<a href="#nothing">a link</a><svg><use href="#nowhere"/></svg>'
        r'<img src="none.png"><p>so \(x\) is</p><p>so $$x$$ is</p>'
    )
    with pytest.raises(ValueError, match=" on paper:\n") as raised:
        book_pdf.book(tiny(home=wrong), 0, browser, WRITTEN)
    for problem in (
        "a link to nothing: #home--nothing",
        "a link to nothing: #home--nowhere",
        "an image that is not there: file:",
        "none.png failed",
        r"a formula that is not set: so \(x\) is",
        "a formula that is not set: so $$x$$ is",
    ):
        assert problem in str(raised.value)
    elsewhere = '<a href="room/one/index.html#nowhere">a link</a>'
    with pytest.raises(ValueError, match="a link to nothing: #room-one--nowhere"):
        book_pdf.book(tiny(home=elsewhere), 0, browser, WRITTEN)


def test_what_would_be_cut_at_the_margin_is_told(tiny, browser, monkeypatch):
    monkeypatch.setattr(book_pdf, "SET", "() => null")
    with pytest.raises(ValueError, match="cut at the margin: left"):
        book_pdf.book(tiny(), 0, browser, WRITTEN)


@pytest.mark.parametrize("language", ["pt", pytest.param("en", marks=pytest.mark.audit)])
def test_the_sections_are_those_of_the_navigation(site, language, tmp_path):
    pages = disk.copy_for_disk(site, language, tmp_path)
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    rooms = told["extra"]["rooms"]
    if language == "en":
        rooms = yaml.safe_load((ROOT / "mkdocs.en.yml").read_text("utf-8"))["extra"]["rooms"]

    def walk(items, above):
        for item in items:
            if isinstance(item, str):
                path = item.rpartition(".")[0].removesuffix("index").rstrip("/")
                yield f"{path}/index.html".lstrip("/"), above
            else:
                ((room, inside),) = item.items()
                yield from walk(inside, (*above, rooms[room]))

    found = book_pdf.sections(pages)
    assert [(section.url, section.rooms) for section in found] == list(walk(told["nav"], ()))
    assert all(section.title for section in found)
