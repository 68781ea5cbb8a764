"""The built pages, read as files: links, anchors, descriptions, nothing left over."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup, NavigableString, Tag

LANGUAGES = ("pt", "en")


@pytest.fixture(scope="session")
def pages(site) -> dict[str, BeautifulSoup]:
    """Each HTML page by its path from the root of the site."""
    return {
        path.relative_to(site).as_posix(): BeautifulSoup(path.read_text("utf-8"), "html.parser")
        for path in site.rglob("*.html")
    }


def by_id(page: BeautifulSoup) -> dict[str, list[Tag]]:
    """What has each id: to look it up at once, not in the whole page each time."""
    found: dict[str, list[Tag]] = {}
    for tag in page.find_all(id=True):
        found.setdefault(tag["id"], []).append(tag)
    return found


def file_of(site: Path, path: str) -> Path:
    target = site / unquote(path).lstrip("/")
    return target / "index.html" if target.is_dir() or path.endswith("/") else target


def test_no_link_is_dead(site, pages):
    dead = []
    anchors = {
        name: {tag.get(attribute) for tag in page.find_all(True) for attribute in ("id", "name")}
        for name, page in pages.items()
    }
    for name, page in pages.items():
        for tag in page.find_all(True):
            for attribute in ("href", "src"):
                link = tag.get(attribute)
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


@pytest.mark.claim("site-is-self-contained")
def test_nothing_is_loaded_from_elsewhere(pages):
    for name, page in pages.items():
        loaded = [tag["src"] for tag in page.find_all(src=True)]
        loaded += [
            tag["href"] for tag in page.find_all("link") if "canonical" not in tag.get("rel", [])
        ]
        assert not [link for link in loaded if urlsplit(link).netloc], name


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_page_says_its_language_title_and_description(pages, language):
    ours = {name: page for name, page in pages.items() if name.startswith(f"{language}/")}
    assert len(ours) >= 9
    for name, page in ours.items():
        assert page.html["lang"] == language, name
        assert page.title.text.strip(), name
        assert page.find("meta", attrs={"name": "description"})["content"], name
        links = {tag["hreflang"]: tag["href"] for tag in page.find_all("link", hreflang=True)}
        rest = name.removeprefix(f"{language}/")
        for other in LANGUAGES:
            target = urlsplit(urljoin(f"http://site/{name}", links[other])).path
            assert target + "index.html" == f"/{other}/{rest}", name


def beside_formulas(tag: Tag) -> Iterator[str]:
    """The text of a tag, without going into formulas, which are most of its nodes."""
    for child in tag.children:
        if type(child) is NavigableString:
            yield child
        elif isinstance(child, Tag) and "formula" not in child.get("class", ()):
            yield from beside_formulas(child)


def test_no_marker_and_no_raw_formula_is_left(pages):
    for name, page in pages.items():
        if "/" not in name:  # a page that chooses a language
            continue
        article = page.find("article")
        text = "".join(beside_formulas(article))
        for leftover in ("8<", "$$", "\\(", "\\[", "](", "{#", "claim:", "[@"):
            # These pages show code of tests, and how all that is written.
            if not name.endswith(("claims/index.html", "contributing/index.html")):
                assert leftover not in text, (name, leftover)
        assert not article.select(".arithmatex"), name


def test_no_header_of_a_table_is_empty(pages):
    for name, page in pages.items():
        assert all(header.get_text(strip=True) for header in page.select("th")), name


def test_formulas_are_rendered_when_the_site_is_built(pages):
    page = pages["en/scale/variance-proof/index.html"]
    assert len(page.select(".formula math")) > 40
    assert not [tag for tag in page.find_all("script", src=True) if "katex" in tag["src"]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_claim_links_to_its_test(site, pages, language):
    catalogue = by_id(pages[f"{language}/reference/claims/index.html"])
    count = 0
    for name, page in pages.items():
        if not name.startswith(f"{language}/"):
            continue
        for claim in page.select(".claim"):
            count += 1
            link = claim.select_one("a.claim-test")
            ident = urlsplit(link["href"]).fragment
            assert claim["id"] == f"claim-{ident}"
            assert link.text.startswith("tests/")
            (heading,) = catalogue[ident]
            code = heading.find_next("pre").text
            assert f'pytest.mark.claim("{ident}")' in code
    assert count >= 30


def test_the_search_index_holds_words_without_accents(site):
    index = json.loads((site / "pt/search/search_index.json").read_text("utf-8"))
    assert any("atencao" in entry["plain"].split() for entry in index["docs"])
    assert "plain" in index["config"]["fields"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_stand_in_the_page_and_have_a_name(pages, language):
    count = 0
    for name, page in pages.items():
        if not name.startswith(f"{language}/"):
            continue
        assert not page.select('img[src^="figure:"], img[src^="chart:"], img[src^="cell:"]'), name
        for drawing in page.select("figure.figure > .drawing"):
            count += 1
            assert drawing["role"] == "img"
            assert len(drawing["aria-label"]) > 60, (name, drawing["aria-label"])
            assert drawing.find("svg", recursive=False).find("path"), name
        names = [tag["id"] for tag in page.select("figure.figure [id]")]
        assert len(names) == len(set(names)), name
    assert count >= 5


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_search_index_holds_no_labels_of_figures(site, language):
    index = (site / language / "search/search_index.json").read_text("utf-8")
    page = (site / language / "foundations/six-words/index.html").read_text("utf-8")
    label = {"pt": "Cada linha soma 1; em negrito", "en": "Each row sums to 1; in bold"}[language]
    assert label in page
    assert label not in index


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_marked_term_has_its_meaning_beside_it_and_in_the_glossary(pages, language):
    listed = pages[f"{language}/reference/glossary/index.html"]
    assert not listed.select(".term")
    entries = by_id(listed)
    count = 0
    for name, page in pages.items():
        if not name.startswith(f"{language}/"):
            continue
        ids = by_id(page)
        for term in page.select(".term"):
            count += 1
            word, meaning = term.select_one("[tabindex]"), term.select_one("[role=tooltip]")
            (described,) = ids[word["aria-describedby"]]
            assert described is meaning, (name, word.text)
            (entry,) = entries[meaning["id"].removeprefix("term-")]
            assert entry.find_parent("dt").find_next_sibling("dd").text.strip() == meaning.text
    assert count > 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_search_index_holds_each_meaning_once(site, pages, language):
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    texts = [" ".join(entry["text"].split()) for entry in index["docs"]]
    marked = {
        meaning.text
        for name, page in pages.items()
        if name.startswith(f"{language}/")
        for meaning in page.select(".term-meaning")
    }
    assert marked
    for meaning in marked:
        assert sum(meaning in text for text in texts) == 1, meaning


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_public_name_has_an_entry_that_the_search_finds(site, pages, language):
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    listed = pages[f"{language}/reference/api/index.html"]
    titles = {entry["location"]: entry["title"] for entry in index["docs"]}
    links = [link for link in listed.select("article li > a:first-child") if "#" in link["href"]]
    assert len(links) > 100
    for link in links:
        place = urljoin("reference/api/", link["href"])
        assert link.text in titles[place], place


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_said_in_english_is_marked_as_english(pages, language):
    page = pages[f"{language}/reference/api/masks/index.html"]
    texts = page.select(".api-text")
    assert len(texts) > 14
    assert {text["lang"] for text in texts} == {"en"}
    labels = page.select(".api-text .doc-section-title")
    assert len(labels) > 40
    told = {"pt": {"Argumentos:", "Devolve:", "Erros:", "Exemplos:"}}
    told["en"] = {"Parameters:", "Returns:", "Raises:", "Examples:"}
    assert {label.get_text(strip=True) for label in labels} == told[language]
    for label in labels:
        marked = label.find("span", attrs={"lang": True}) or label.find_parent(lang=True)
        assert marked["lang"] == language, label
    assert not page.select(".api-text .term")


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_and_entries_lead_to_each_other(pages, language):
    theory = f"{language}/foundations/masks/index.html"
    entry = "../../reference/api/masks/#attnref.masks.dilated"
    assert pages[theory].select_one(f'article p a[href="{entry}"] > code').text == "masks.dilated"
    heading = pages[f"{language}/reference/api/masks/index.html"].find(id="attnref.masks.dilated")
    foot = heading.find_next(class_="api-foot")
    assert "attnref copy dilated" in foot.text
    assert "tests/test_masks.py" in foot.text
    assert foot.select_one('a[href="../../../foundations/masks/"]')


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_entry_shows_types_defaults_formula_example_and_code(site, pages, language):
    page = pages[f"{language}/reference/api/masks/index.html"]
    entry = page.find(id="attnref.masks.sliding_window").parent
    assert entry.select_one(".doc-signature").text.startswith("sliding_window(\n    n: int,")
    default = {"pt": "padrão:", "en": "default:"}[language]
    items = [" ".join(item.text.split()) for item in entry.select("li.doc-section-item")]
    assert any(item.startswith(f"causal (bool, {default} True") for item in items)
    assert entry.select(".api-text .formula")
    assert ">>> print(sliding_window(4, window=2).picture())" in entry.text
    code = entry.select_one("details.api-code")
    assert "back, ahead = _reach(" in code.text
    assert '"""' not in code.text
    # Code is for those who look at the entry: the search finds what is said of it.
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    assert not [
        each["location"] for each in index["docs"] if "back, ahead = _reach(" in each["text"]
    ]
