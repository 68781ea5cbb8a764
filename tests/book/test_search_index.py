"""What the search knows of a page besides its text."""

import json

import pytest
import yaml

from book import page as pages
from book.edition import Edition
from book.finish import search_index
from book.page import Page

CALLED = yaml.safe_load(search_index.ALSO_CALLED.read_text(encoding="utf-8"))


def test_another_name_leads_to_a_place_that_is_there():
    lost = []
    for place in CALLED:
        path, _, anchor = place.partition("#")
        for language in ("pt", "en"):
            page = pages.ROOT / "docs" / language / path
            text = page.read_text(encoding="utf-8") if page.is_file() else ""
            if not text or (anchor and anchor not in [h.id for h in pages.headings(text)]):
                lost.append(f"{language}/{place}")
    assert not lost


def test_a_place_is_called_by_a_name_once():
    twice = {}
    for place, names in CALLED.items():
        texts = [pages.strip_accents(text).lower() for text in names]
        if len(texts) > len(set(texts)):
            twice[place] = names
    assert not twice


def test_a_page_is_called_what_the_glossary_calls_it_in_both_languages():
    names = search_index.names()
    assert {"RoPE", "embedding rotativo"} <= set(names["foundations/positions/#rotary"])
    assert {"causal mask", "máscara causal"} <= set(names["foundations/masks/"])
    assert "FAQ" in names["practice/questions/"]
    assert "errors" in names["pitfalls/"]


def test_a_list_weighs_less_than_a_chapter():
    weights = {
        "": 1,
        "variants/lsh/": 1,
        "variants/benchmark/": 0.8,
        "reference/claims/scale/": 0.35,
    }
    assert {place: search_index.weight(place) for place in weights} == weights


@pytest.fixture
def indexed(tmp_path, monkeypatch):
    """Indexes a page; gives what the index then holds."""
    monkeypatch.setattr(search_index, "_entries", {})
    uri = "foundations/masks.md"
    edition = Edition("en", tmp_path, nav=[{"learn": [{"foundations": [uri]}]}])
    edition.rooms = {"learn": "Learn", "foundations": "Foundations"}

    def index(html, **told):
        matter = json.dumps({"title": "Masks", "search": told})
        page = Page(uri, tmp_path / uri, f"---\n{matter}\n---\n")
        edition.pages = {uri: page}
        assert search_index.content(html, page, edition) == html
        path = tmp_path / "search/search_index.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"docs": ["the theme's"]}), encoding="utf-8")
        search_index.after(tmp_path, edition)
        docs = json.loads(path.read_text(encoding="utf-8"))["docs"]
        texts = json.loads(path.with_name(search_index.TEXTS).read_text(encoding="utf-8"))
        assert [doc["text"] for doc in docs] == [search_index.beginning(text) for text in texts]
        return docs

    return index


def test_each_entry_is_plain_and_a_page_has_its_place_and_weight(indexed):
    html = r"<p>a</p><h2 id=x><em>n</em><a class=headerlink>¶</a></h2><p>\(d_k\) &lt; 1</p>"
    page, section = indexed(html, boost=0.5)
    assert (page["where"], page["weight"], page["text"]) == ("Learn › Foundations", 0.5, "a")
    assert page["title"] == "Masks"
    assert "causal mask" in page["names"]
    assert section == {"location": "foundations/masks/#x", "title": "n", "text": "d_k < 1"}


def test_what_is_not_for_the_search_is_left_out(indexed):
    (page,) = indexed(
        r"<p data-search-exclude>a</p>b<code>\(c\)</code><script>d</script><svg>e</svg>"
    )
    assert page["text"] == r"b \(c\)"
    assert indexed("a", exclude=True) == []


def test_what_follows_a_box_belongs_to_what_is_before_it(indexed):
    page, inside = indexed("<h1 id=t>T</h1>a<div><h3 id=i>I</h3>b</div>c")
    assert (page["title"], page["text"]) == ("T", "ac")
    assert (inside["location"], inside["text"]) == ("foundations/masks/#i", "b")
