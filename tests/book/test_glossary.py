"""Where terms are marked on a page, and how the glossary is written out."""

import re

import pytest
from bs4 import BeautifulSoup

from book.finish import terms
from book.stage import glossary


def marked(html: str, language: str = "en") -> list[str]:
    soup = BeautifulSoup(terms.mark(html, language), "html.parser")
    return [word.text for word in soup.select(".term-word")]


def meaning(name: str, language: str = "en") -> str:
    return glossary.read_glossary(glossary.ROOT)[name][language]["meaning"]


def test_the_first_occurrence_of_each_term_is_marked_with_its_meaning():
    html = "<h1>Query</h1><p>A <em>query</em> meets a key. The Queries, the keys.</p><p>A key.</p>"
    found = terms.mark(html, "en")
    assert marked(html) == ["query", "key"]
    soup = BeautifulSoup(found, "html.parser")
    word, tip = soup.select_one(".term-word"), soup.select_one(".term-meaning")
    assert word["tabindex"] == "0"
    assert word["aria-describedby"] == tip["id"] == "term-query"
    assert tip["role"] == "tooltip"
    assert tip.text == meaning("query")
    assert tip.has_attr("data-search-exclude")
    for tip in soup.select(".term-meaning"):
        tip.decompose()
    assert soup.text == BeautifulSoup(html, "html.parser").text


def test_nothing_but_running_text_is_marked():
    for html in (
        "<h2>The softmax</h2>",
        '<p><a href="#x">the <em>softmax</em></a></p>',
        "<p><code>softmax</code></p>",
        "<pre><code>softmax</code></pre>",
        '<p><span class="arithmatex">\\(softmax\\)</span></p>',
        '<p><span class="claim"><span class="claim-statement">softmax</span></span></p>',
        "<table><tr><td><p>softmax</p></td></tr></table>",
        "<details><summary>softmax</summary></details>",
        '<div class="admonition"><p class="admonition-title">softmax</p></div>',
        "<div>softmax</div>",
        "<p><!-- softmax --></p>",
        "<p>softmax-like, unsoftmax, softmaxes</p>",
    ):
        assert terms.mark(html, "en") == html
        assert marked(html + "<p>softmax</p>") == ["softmax"], html


def test_the_longest_term_counts_in_the_words_of_the_page():
    for language, html, words in (
        ("en", "<p>attention weights and attention</p>", ["attention weights", "attention"]),
        ("en", "<p>attention, attention weights</p>", ["attention", "attention weights"]),
        ("en", "<p>dot\nproducts</p>", ["dot\nproducts"]),
        ("pt", "<p>Máscaras causais, a <b>máscara</b></p>", ["Máscaras causais", "máscara"]),
        ("pt", "<li>consulta</li><li>a consulta</li>", ["consulta"]),
        ("en", "<p>a &lt; b &amp; a key</p>", ["key"]),
        ("en", "<p>the value and the mean</p>", []),
    ):
        assert marked(html, language) == words
    assert "a &lt; b &amp; a " in terms.mark("<p>a &lt; b &amp; a key</p>", "en")


def test_a_page_without_terms_stays_as_it_was():
    html = "<p>Nothing to <br> explain &quot;here&quot;.</p>"
    assert terms.mark(html, "en") == html


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_glossary_lists_every_term_in_alphabetical_order(language):
    entries, other = glossary.read_glossary(glossary.ROOT), glossary.OTHER[language]
    listed = re.findall(
        rf'^\[(.+)\]\((.+)\){{ #([\w-]+) }} · <span lang="{other}">(.+)</span>\n:   (.+)$',
        glossary._list(language),
        re.MULTILINE,
    )
    assert len(listed) == len(entries) > 100
    for term, target, name, translation, text in listed:
        entry = entries[name]
        assert (term, text) == (entry[language]["term"], entry[language]["meaning"])
        assert translation == entry[other]["term"]
        assert target.split("/")[-1] == entry["page"].split("/")[-1]
    first = [glossary.strip_accents(term).lower() for term, *_ in listed]
    assert first == sorted(first)
    assert first.index("ablacao" if language == "pt" else "ablation") == 0
