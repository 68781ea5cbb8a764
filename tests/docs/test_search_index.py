"""What the search knows of a page besides its text."""

import json
from types import SimpleNamespace

import pages
import pytest
import search_index
import yaml

CALLED = yaml.safe_load(search_index.ALSO_CALLED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", ["pt", "en"])
@pytest.mark.parametrize("place", CALLED)
def test_another_name_leads_to_a_place_that_is_there(place, language):
    path, _, anchor = place.partition("#")
    text = (pages.ROOT / "docs" / language / path).read_text(encoding="utf-8")
    assert not anchor or anchor in [heading.id for heading in pages.headings(text)]


@pytest.mark.parametrize("place", CALLED)
def test_a_place_is_called_by_a_name_once(place):
    texts = [pages.without_accents(text).lower() for text in CALLED[place]]
    assert [text for text in texts if texts.count(text) > 1] == []


def test_a_page_is_called_what_the_glossary_calls_it_in_both_languages():
    names = search_index.names()
    assert {"RoPE", "embedding rotativo"} <= set(names["foundations/positions/#rotary"])
    assert {"causal mask", "máscara causal"} <= set(names["foundations/masks/"])
    assert "FAQ" in names["practice/questions/"]
    assert "errors" in names["pitfalls/"]


@pytest.mark.parametrize(
    ("place", "weight"),
    [
        ("", 1),
        ("variants/lsh/", 1),
        ("variants/benchmark/", 0.8),
        ("reference/claims/scale/", 0.35),
    ],
)
def test_a_list_weighs_less_than_a_chapter(place, weight):
    assert search_index.weight(place) == weight


def test_each_entry_is_plain_and_a_page_has_its_place_and_weight(tmp_path, monkeypatch):
    monkeypatch.setitem(search_index._places, "foundations/masks/", "Learn › Foundations")
    (tmp_path / "search").mkdir()
    path = tmp_path / "search/search_index.json"
    docs = [
        {"location": "foundations/masks/", "title": "Masks", "text": "<p>a</p>", "boost": 0.5},
        {
            "location": "foundations/masks/#x",
            "title": "<em>n</em>",
            "text": r"<p>\(d_k\) &lt; 1</p>",
        },
    ]
    path.write_text(json.dumps({"docs": docs}), encoding="utf-8")
    search_index.on_post_build(SimpleNamespace(site_dir=tmp_path))
    page, section = json.loads(path.read_text(encoding="utf-8"))["docs"]
    assert (page["where"], page["weight"], page["text"]) == ("Learn › Foundations", 0.5, "a")
    assert "causal mask" in page["names"]
    assert section == {"location": "foundations/masks/#x", "title": "n", "text": "d_k < 1"}


def test_a_theme_that_names_its_worker_otherwise_stops_the_build():
    with pytest.raises(search_index.PluginError, match="names its search worker otherwise"):
        search_index.on_post_page('<script>{"search": "other.js"}</script>', None, None)
