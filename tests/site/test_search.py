"""What readers type finds the page they want, named with its place in the book."""

import re
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.book import pitfall_messages
from tests.site.test_pitfall_search import with_other_numbers

LANGUAGES = ("pt", "en")
GOLDEN = yaml.safe_load(Path(__file__).with_name("golden_queries.yml").read_text("utf-8"))
# What the worker of a search answers, without a page around it: for each query the places of each
# page that is found, in their order. Messages have the numbers that the theme gives them.
ASK = """async ([root, first, queries]) => {
  const index = await (await fetch(`${root}/search/search_index.json`)).json()
  const worker = new Worker(`${root}/style/search-worker.js${first}`), found = {}
  const answer = (type, data, awaited) => new Promise(done => {
    worker.onmessage = ({ data: { type, data } }) => type === awaited && done(data)
    worker.postMessage({ type, data })
  })
  await answer(0, index, 4)  // when it has the texts as well
  for (const query of queries)
    found[query] = (await answer(2, query, 3)).items.map(places => places.map(one => one.location))
  worker.terminate()
  return found
}"""

SCORES = """items => items.map(item =>
  Math.max(...Array.from(item.querySelectorAll("article"), place => place.dataset.mdScore)))"""


@pytest.fixture
def searching(new_page, address):
    """Opens the search on a page, the front page unless one is named."""

    def start(language, place=""):
        page = new_page()
        page.goto(f"{address}/{language}/{place}")
        page.locator("input.md-search__input").click()
        return page

    return start


@pytest.fixture
def ask(new_page, address):
    """The places that each of many queries finds."""

    def ask(language, queries, first=""):
        page = new_page()
        page.goto(f"{address}/404.html")
        return page.evaluate(ASK, [f"/{language}", first, list(queries)])

    return ask


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_readers_type_finds_the_page_they_want(ask, language):
    wanted = {
        query: [f"/{page}/".replace("/index/", "/")[1:] for page in pages.split()]
        for query, pages in GOLDEN[language].items()
    }
    found = {
        query: [places[0].partition("#")[0] for places in pages[:3]]
        for query, pages in ask(language, wanted).items()
    }
    first = [query for query in wanted if set(found[query][:1]) & set(wanted[query])]
    three = [query for query in wanted if set(found[query]) & set(wanted[query])]
    missed = {query: found[query] for query in wanted if query not in first}
    assert len(wanted) >= 70
    assert len(three) >= 0.95 * len(wanted), (len(three), len(wanted), missed)
    assert len(first) >= 0.80 * len(wanted), (len(first), len(wanted), missed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_reference_answers_first_where_it_is_asked(ask, searching, language):
    wanted = GOLDEN["reference"][language]
    found = ask(language, wanted, "?first=reference/api/")
    missed = {
        query: [places[:3] for places in found[query][:3]]
        for query, entry in wanted.items()
        if not any(
            place.endswith(f"#attnref.{entry}") for page in found[query][:3] for place in page[:3]
        )
    }
    assert not missed
    page = searching(language, "reference/api/positions/")
    page.keyboard.type(list(wanted)[3])
    three = page.locator(".md-search-result__item:nth-child(-n+3)")
    expect(three.locator('a[href*="/reference/api/masks/#attnref.masks.padding"]')).to_be_attached()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_finds_its_entry(ask, language):
    """With other numbers, and as somebody remembers it who types no quotes, no brackets and not the
    end of the sentence.
    """
    wanted = {}
    for place, message, _ in pitfall_messages.QUOTED:
        bare = message.translate(str.maketrans("", "", "'`\"()[]")).split(". ")[0]
        wanted |= dict.fromkeys((with_other_numbers(message), bare), f"pitfalls/{place}")
    found = ask(language, wanted)
    missed = {
        text: found[text][:3]
        for text, place in wanted.items()
        if not any(place in places for places in found[text][:3])
    }
    assert not missed


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("pt", "mascara causal"),
        ("en", "-causal masks"),
        pytest.param("en", "causl mask", marks=pytest.mark.audit),
    ],
)
def test_a_result_names_its_place_and_leads_there_by_a_clean_address(searching, language, query):
    page = searching(language)
    page.keyboard.type(query)
    result = page.locator(".md-search-result__link").first
    place = {
        "en": "Learn › From the formula to a layer ›",
        "pt": "Aprender › Da fórmula a uma camada ›",
    }[language]
    expect(result).to_have_text(re.compile(f"^{place} (Masks|Máscaras)"))  # when all is typed
    expect(result.locator("mark").first).to_be_visible()
    expect(page.locator(".md-search-result__unknown")).to_be_empty()
    scores = page.locator(".md-search-result__item").evaluate_all(SCORES)
    assert len(scores) > 5
    assert scores == sorted(scores, reverse=True)  # the highest is where Enter leads
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.split("#")[0].endswith(f"/{language}/foundations/masks/"))


def test_a_result_says_by_which_name_it_was_found_and_what_is_not_in_the_book(searching):
    page = searching("pt")
    page.keyboard.type("mapa de atenção xylofonista")
    expect(page.locator(".md-search-result__unknown")).to_have_text(
        "Não está neste livro: xylofonista"
    )
    page.locator("input.md-search__input").fill("MQA")
    named = page.locator(".md-search-result__item").first.locator(".md-search-result__called")
    expect(named.first).to_have_text("(MQA)")


def test_a_pasted_traceback_is_asked_by_the_error_that_ends_it(searching):
    page = searching("en")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 12, in <module>\n'
        "    loss = model(masks, positions)\n"
        "RuntimeError: mat1 and mat2 shapes cannot be\nmultiplied (30x8 and 24x24)\n"
    )
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")
    page.locator(".md-search-result__item").first.wait_for()
    field = page.locator("input.md-search__input")
    message = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (30x8 and 24x24)"
    expect(field).to_have_value(message)
    found = page.locator('.md-search-result__link[href*="shapes/#width"]')
    expect(found.first).to_be_attached()


def test_before_anything_is_typed_it_says_what_can_be(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/en/")
    page.keyboard.press("f")
    hint = page.locator(".md-search-result__unknown")
    expect(hint).to_contain_text("A term, a name from code or a whole error message")
    page.keyboard.type("softmax")
    expect(hint).to_have_text("")
    page.close()
