"""The built pages, read as files: links, anchors, descriptions, nothing left over."""

import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from book.page import blocks
from book.stage import cores, marks

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = ("pt", "en")
# What stands between the marks of a section, in a file of snippets/.
SECTION = re.compile(r"# --8<-- \[start:([\w-]+)\]\n(.*?)# --8<-- \[end:\1\]", re.DOTALL)


@pytest.fixture(scope="session")
def pages(site) -> dict[str, LexborHTMLParser]:
    """Each HTML page by its path from the root of the site."""
    return {
        path.relative_to(site).as_posix(): LexborHTMLParser(path.read_text("utf-8"))
        for path in site.rglob("*.html")
    }


@pytest.fixture(params=LANGUAGES)
def language(request) -> str:
    return request.param


@pytest.fixture
def ours(pages, language) -> dict[str, LexborHTMLParser]:
    """The pages of one language."""
    return {name: page for name, page in pages.items() if name.startswith(f"{language}/")}


@pytest.fixture
def indexed(site, language) -> list[dict]:
    """What the search of one language holds."""
    index, texts = (
        json.loads((site / language / f"search/{name}.json").read_text("utf-8"))
        for name in ("search_index", "search_text")
    )
    return [entry | {"text": text} for entry, text in zip(index["docs"], texts, strict=True)]


def index_ids(page: LexborHTMLParser) -> dict[str, list[LexborNode]]:
    """What has each id: to look it up at once, not in the whole page each time."""
    found: dict[str, list[LexborNode]] = {}
    for tag in page.css("[id]"):
        found.setdefault(tag.id, []).append(tag)
    return found


def find_after(tag: LexborNode, selector: str) -> LexborNode:
    """The first that matches, in or below what follows a tag."""
    while (tag := tag.next) is not None:
        if found := tag.css_first(selector):
            return found
    raise AssertionError(f"nothing matches {selector}")


def language_of(tag: LexborNode) -> str:
    """Of the nearest element around a tag that says it."""
    while "lang" not in tag.attributes:
        tag = tag.parent
    return tag.attributes["lang"].partition("-")[0]


def file_of(site: Path, path: str) -> Path:
    target = site / unquote(path).lstrip("/")
    return target / "index.html" if target.is_dir() or path.endswith("/") else target


def test_no_link_is_dead(site, pages):
    dead = []
    anchors = {
        name: {
            tag.attributes.get(attribute)
            for tag in page.css("[id], [name]")
            for attribute in ("id", "name")
        }
        for name, page in pages.items()
    }
    for name, page in pages.items():
        for tag in page.css("[href], [src]"):
            for attribute in ("href", "src"):
                link = tag.attributes.get(attribute)
                if not link or link.startswith(("data:", "javascript:", "mailto:")):
                    continue
                parts = urlsplit(urljoin(f"http://site/{name}", link))
                if parts.netloc != "site":
                    continue
                target = file_of(site, parts.path)
                if not target.is_file():
                    dead.append(f"{name}: {link}")
                elif parts.fragment and target.suffix == ".html":
                    other = anchors[target.relative_to(site).as_posix()]
                    if unquote(parts.fragment) not in other:
                        dead.append(f"{name}: {link} (no such anchor)")
    assert not dead, "\n".join(dead)


def test_no_two_parts_of_a_page_have_one_id(pages):
    for name, page in pages.items():
        twice = [ident for ident, tags in index_ids(page).items() if len(tags) > 1]
        assert not twice, (name, twice)


@pytest.mark.claim("site-is-self-contained")
def test_nothing_is_loaded_from_elsewhere(pages):
    for name, page in pages.items():
        loaded = [tag.attributes["src"] for tag in page.css("[src]")]
        loaded += [tag.attributes["href"] for tag in page.css("link:not([rel~=canonical])")]
        assert not [link for link in loaded if urlsplit(link).netloc], name


def test_each_page_says_its_language_title_and_description(ours, language):
    assert len(ours) >= 9
    for name, page in ours.items():
        spoken = {"pt": "pt-BR", "en": "en"}[language]
        assert page.css_first("html").attributes["lang"] == spoken, name
        assert page.css_first("title").text().strip(), name
        assert page.css_first("meta[name=description]").attributes["content"], name
        alternates = [tag.attributes for tag in page.css("link[hreflang]")]
        links = {each["hreflang"]: each["href"] for each in alternates}
        rest = name.removeprefix(f"{language}/")
        for other in LANGUAGES:
            target = urlsplit(urljoin(f"http://site/{name}", links[other])).path
            assert target + "index.html" == f"/{other}/{rest}", name


def test_the_foot_of_a_page_says_that_it_leads_to_a_specialist_s(ours, language):
    _, way = ours[f"{language}/foundations/kv-cache/index.html"].css(".md-footer__link")
    said = {"pt": "Próximo · especialista", "en": "Next · specialist"}[language]
    assert " ".join(way.css_first(".md-footer__direction").text().split()) == said
    assert way.attributes["aria-label"].startswith(f"{said}: ")
    among = ours[f"{language}/scale/factors-compared/index.html"].css(".md-footer__direction")
    assert not [one for one in among if "·" in one.text()]  # the reader is there already


def text_without_formulas(tag: LexborNode) -> Iterator[str]:
    """The text of a tag, without going into formulas, which are most of its nodes."""
    for child in tag.iter(include_text=True):
        if child.tag == "-text":
            yield child.text(deep=False)
        elif "formula" not in (child.attributes.get("class") or "").split():
            yield from text_without_formulas(child)


def test_no_marker_and_no_raw_formula_is_left(pages):
    for name, page in pages.items():
        if "/" not in name:  # a page that chooses a language
            continue
        article = page.css_first("article")
        text = "".join(text_without_formulas(article))
        for leftover in ("8<", "$$", "\\(", "\\[", "](", "{#", "claim:", "[@"):
            # These pages show code of tests, and how all that is written.
            if "/claims/" not in name and not name.endswith("contributing/index.html"):
                assert leftover not in text, (name, leftover)
        assert not article.css(".arithmatex"), name


def test_the_code_that_can_be_copied_is_the_tested_code(ours):
    count = 0
    for name, page in ours.items():
        for block in page.css("div.language-python:has(.filename)"):
            count += 1
            path = block.css_first(".filename").text()
            if path.startswith(cores.PACKAGE):
                tested = {"\n".join(core.code) for core in cores.cores(markdown_of(name), ROOT)}
            else:
                sections = SECTION.findall((ROOT / path).read_text("utf-8"))
                tested = {textwrap.dedent(text).rstrip("\n") for _, text in sections}
            assert block.css_first("code").text().rstrip("\n") in tested, (name, path)
    assert count > 250


def test_the_marked_lines_are_those_that_the_page_quotes(ours, language):
    quoted, marked = 0, 0
    for path in (ROOT / "docs" / language).rglob("*.md"):
        quoted += sum(len(marks.marks_of(block)) for block in blocks(path.read_text("utf-8")))
    for name, page in ours.items():
        if shown := page.css("[data-marks]"):
            asked = [found for one in blocks(markdown_of(name)) if (found := marks.marks_of(one))]
            for block, expected in zip(shown, asked, strict=True):
                for line, mark in zip(block.css("mark"), expected, strict=True):
                    assert mark.code in line.text(), (name, mark)
                    assert "\n" not in line.text(), (name, mark)
                    marked += 1
    assert marked == quoted > 100


def markdown_of(name):
    """The Markdown of a page of the site."""
    folder = (ROOT / "docs" / name).parent
    page = folder.with_suffix(".md")
    return (page if page.is_file() else folder / "index.md").read_text("utf-8")


def test_no_header_of_a_table_is_empty(pages):
    for name, page in pages.items():
        assert all(header.text().strip() for header in page.css("th")), name


def test_formulas_are_rendered_when_the_site_is_built(pages):
    page = pages["en/scale/variance-proof/index.html"]
    assert len(page.css(".formula math")) > 40
    assert not page.css("script[src*=katex]")


def test_formulas_are_valid_mathml(pages):
    """As https://www.w3.org/TR/mathml-core/ has it: so many children, or text alone."""
    children = dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2)
    children |= dict.fromkeys(("msubsup", "munderover"), 3)
    children |= dict.fromkeys(("mi", "mn", "mo", "ms", "mtext"), 0)
    seen = set()
    for name, page in pages.items():
        for tag in page.css(", ".join(f"math {each}" for each in children)):
            seen.add(tag.tag)
            assert len(list(tag.iter())) == children[tag.tag], (name, tag.html)
    assert {"mfrac", "msub", "msup", "msubsup", "munderover", "mo"} <= seen


def test_each_claim_links_to_its_test(ours):
    count = 0
    for name, page in ours.items():
        ids = index_ids(page)
        for claim in page.css(".claim"):
            count += 1
            link = claim.css_first("a.claim-test")
            assert link.attributes["title"].startswith("tests/")
            path, _, ident = link.attributes["href"].partition("#")
            assert ids[f"claim-{ident}"]  # the first that says it
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            (entry,) = index_ids(ours[f"{there}/index.html"])[ident]
            code = entry.css_first("details pre").text()
            assert f'pytest.mark.claim("{ident}")' in code
    assert count >= 30


def test_figures_stand_in_the_page_and_have_a_name(ours):
    count = 0
    for name, page in ours.items():
        assert not page.css('img[src^="figure:"], img[src^="chart:"], img[src^="cell:"]'), name
        for drawing in page.css("figure.figure > .drawing"):
            count += 1
            assert drawing.attributes["role"] == "img"
            label = drawing.attributes["aria-label"]
            assert len(label) > 60, (name, label)
            (svg,) = (child for child in drawing.iter() if child.tag == "svg")
            assert svg.css("path"), name
    assert count >= 5


def test_the_search_index_holds_no_labels_of_figures(site, language):
    index = (site / language / "search/search_text.json").read_text("utf-8")
    page = (site / language / "foundations/six-words/index.html").read_text("utf-8")
    label = {"pt": "Cada linha soma 1; em negrito", "en": "Each row sums to 1; in bold"}[language]
    assert label in page
    assert label not in index


def test_each_marked_term_has_its_meaning_beside_it_and_in_the_glossary(ours, language):
    listed = ours[f"{language}/reference/glossary/index.html"]
    assert not listed.css(".term")
    entries = index_ids(listed)
    count = 0
    for name, page in ours.items():
        ids = index_ids(page)
        for term in page.css(".term"):
            count += 1
            word, meaning = term.css_first("[tabindex]"), term.css_first("[role=tooltip]")
            (described,) = ids[word.attributes["aria-describedby"]]
            assert described == meaning, (name, word.text())
            (entry,) = entries[meaning.id.removeprefix("term-")]
            while entry.tag != "dt":
                entry = entry.parent
            assert find_after(entry, "dd").text().strip() == meaning.text()
    assert count > 50


def test_the_search_index_holds_each_meaning_once(indexed, ours):
    texts = [" ".join(entry["text"].split()) for entry in indexed]
    marked = {tip.text() for page in ours.values() for tip in page.css(".term-meaning")}
    assert marked
    for meaning in marked:
        assert sum(meaning in text for text in texts) == 1, meaning


def test_each_public_name_has_an_entry_that_the_search_finds(indexed, ours, language):
    listed = ours[f"{language}/reference/api/index.html"]
    titles = {entry["location"]: entry["title"] for entry in indexed}
    links = listed.css('article li > a:first-child[href*="#"]')
    assert len(links) > 100
    for link in links:
        place = urljoin("reference/api/", link.attributes["href"])
        assert link.text() in titles[place], place


def test_what_is_said_in_english_is_marked_as_english(ours, language):
    page = ours[f"{language}/reference/api/masks/index.html"]
    texts = page.css(".api-text")
    assert len(texts) > 14
    assert {text.attributes["lang"] for text in texts} == {"en"}
    labels = page.css(".api-text .doc-section-title")
    assert len(labels) > 40
    told = {"pt": {"Argumentos:", "Devolve:", "Erros:", "Exemplos:"}}
    told["en"] = {"Parameters:", "Returns:", "Raises:", "Examples:"}
    assert {label.text(strip=True) for label in labels} == told[language]
    for label in labels:
        assert language_of(label.css_first("span[lang]") or label) == language, label.html
    assert not page.css(".api-text .term")


def test_pages_and_entries_lead_to_each_other(ours, language):
    theory = f"{language}/foundations/masks/index.html"
    entry = "../../reference/api/masks/#attnref.masks.dilated"
    link = ours[theory].css_first(f'article p a[href="{entry}"] > code')
    assert link.text() == "masks.dilated"
    page = ours[f"{language}/reference/api/masks/index.html"]
    foot = find_after(page.css_first('[id="attnref.masks.dilated"]'), ".api-foot")
    assert "tests/masks/test_patterns.py" in foot.text()
    assert foot.css_first('a[href="../../../foundations/masks/"]')
    shorter = find_after(page.css_first('[id="attnref.masks.causal"]'), ".api-foot")
    assert "attnref copy masks" in shorter.text()


def test_an_entry_shows_types_defaults_formula_example_and_code(indexed, ours, language):
    page = ours[f"{language}/reference/api/masks/index.html"]
    entry = page.css_first('[id="attnref.masks.sliding_window"]').parent
    assert entry.css_first(".doc-signature").text().startswith("sliding_window(\n    n: int,")
    default = {"pt": "padrão:", "en": "default:"}[language]
    items = [" ".join(item.text().split()) for item in entry.css("li.doc-section-item")]
    assert any(item.startswith(f"is_causal (bool, {default} False") for item in items)
    assert entry.css(".api-text .formula")
    assert ">>> print(sliding_window(4, window=2, is_causal=True).picture())" in entry.text()
    code = entry.css_first("details.api-code")
    assert "back, ahead = window_reach(" in code.text()
    assert '"""' not in code.text()
    # Code is for those who look at the entry: the search finds what is said of it.
    found = [each for each in indexed if "back, ahead = window_reach(" in each["text"]]
    assert [each["location"] for each in found] == ["foundations/masks/#code"]
