"""The book as a PDF: one of a tiny site, made in a second, and the navigation of the real one."""

import io
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
HOME = '<p>To <a href="two/index.html#far">the second</a>, <a href="../code.py">a path</a></p>'
ONE = (
    HEADING.format(id="why", text="Why")
    + "<details><summary>Asked</summary><p>Unfolded</p></details><form><button>Go</button></form>"
    + '<a href="#program-a">asked</a>'
    + '<details class="programs"><p id="program-a">Left out</p></details>'
    + "<pre><code>"
    + "wide " * 60
    + "\\(kept\\)</code></pre>"
    + '<table><tr><td style="min-width: 1500px">left</td><td>right</td></tr></table>'
)
TWO = (
    "<p>filled</p>" * 90
    + HEADING.format(id="far", text="Far away")
    + '<a href="../one/index.html">1</a>'
)
NEXT = '<link rel="next" href="{}">'
WRITTEN = 1_700_000_000


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Writes a site of three pages, as if it were one that is read from a disk."""
    tmp_path = tmp_path_factory.mktemp("tiny")
    (tmp_path / "style").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "style.css").write_text("", "utf-8")
    icon = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    (tmp_path / "style" / "favicon.svg").write_text(icon, "utf-8")

    def write(home=HOME, one=ONE, two=TWO):
        rooms = '<li class="md-path__item">Home</li><li class="md-path__item"> A room </li>'
        pages = {
            "index.html": ("Home", "", "Numbers", home + NEXT.format("one/index.html")),
            "one/index.html": (
                "One",
                rooms,
                "The number one",
                one + NEXT.format("../two/index.html"),
            ),
            "two/index.html": ("Two", rooms, "The number two", two),
        }
        for url, (menu, path, title, text) in pages.items():
            html = PAGE.format(menu=menu, path=path, title=title, text=text)
            html = html.replace('"/style.css"', f'"{"../" * url.count("/")}style.css"')
            (tmp_path / url).write_text(html, "utf-8")
        return tmp_path

    return write


@pytest.fixture(scope="module")
def made(tiny, browser):
    return book_pdf.book(tiny(), browser, WRITTEN)


@pytest.fixture
def pdf(made):
    return PdfReader(io.BytesIO(made))


def test_title_contents_and_pages_come_in_order(pdf):
    texts = [" ".join(page.extract_text().split()) for page in pdf.pages]
    assert texts[0] == "Numbers Of numbers. attnref 7 (abc) · MIT"
    assert texts[1] == "ii Contents Home 1 A room 2 One 2 Two 3"
    assert texts[2] == "1 Numbers To the second, a path"
    assert texts[3].startswith("2 A room The number one Why Asked Unfolded")
    assert "\\(kept\\)" in texts[3]
    assert "8 min" not in texts[3]
    assert "Go" not in texts[3]
    assert "Left out" not in texts[3]
    assert "left right" in texts[3]
    assert len(texts) > 5
    assert pdf.page_labels[:4] == ["i", "ii", "1", "2"]


def test_the_outline_is_the_navigation_with_its_sections(pdf):
    def walk(items, depth):
        for item in items:
            if isinstance(item, list):
                yield from walk(item, depth + 1)
            else:
                yield depth, item.title, pdf.get_destination_page_number(item)

    last = len(pdf.pages) - 1
    assert list(walk(pdf.outline, 0)) == [
        *((0, "Home", 2), (0, "A room", 3), (1, "One", 3), (2, "Why", 3)),
        *((1, "Two", 4), (2, "Far away", last)),
    ]


def test_links_lead_into_the_book(pdf):
    numbers = {page.indirect_reference.idnum: number for number, page in enumerate(pdf.pages)}

    def links(page):
        names = [link.get_object().get("/Dest") for link in page.get("/Annots", ())]
        return [
            numbers[pdf.named_destinations[name]["/Page"].indirect_reference.idnum]
            for name in names
        ]

    last = len(pdf.pages) - 1
    assert links(pdf.pages[1]) == [2, 3, 3, 4]
    assert links(pdf.pages[2]) == [last]
    assert links(pdf.pages[last]) == [3]


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
    assert book_pdf.book(tiny(), browser, WRITTEN) == made


def test_what_would_be_wrong_on_paper_is_told(tiny, browser):
    wrong = (
        '<a href="one/index.html#nowhere">a link</a><svg><use href="#nowhere"/></svg>'
        r'<img src="none.png"><p>so \(x\) is</p><p>so $$x$$ is</p>'
    )
    with pytest.raises(ValueError, match=" on paper:\n") as raised:
        book_pdf.book(tiny(home=wrong), browser, WRITTEN)
    for problem in (
        "a link to nothing: #one--nowhere",
        "a link to nothing: #home--nowhere",
        "an image that is not there: file:",
        "none.png failed",
        r"a formula that is not set: so \(x\) is",
        "a formula that is not set: so $$x$$ is",
    ):
        assert problem in str(raised.value)


def test_what_would_be_cut_at_the_margin_is_told(tiny, browser, monkeypatch):
    monkeypatch.setattr(book_pdf, "SET", "() => null")
    with pytest.raises(ValueError, match="cut at the margin: left"):
        book_pdf.book(tiny(), browser, WRITTEN)


@pytest.mark.parametrize("language", ["pt", pytest.param("en", marks=pytest.mark.audit)])
def test_the_chapters_are_those_of_the_navigation(site, language, tmp_path):
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

    found = book_pdf.chapters(pages)
    assert [(chapter.url, chapter.rooms) for chapter in found] == list(walk(told["nav"], ()))
    assert all(chapter.title for chapter in found)
