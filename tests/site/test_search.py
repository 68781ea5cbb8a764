"""What readers type finds the page they want, named with its place in the book."""

import re
from pathlib import Path

import pitfall_messages
import pytest
import yaml
from playwright.sync_api import expect

LANGUAGES = ("pt", "en")
GOLDEN = yaml.safe_load(Path(__file__).with_name("golden_queries.yml").read_text("utf-8"))
# The paths of the pages found, in their order, for each of the queries; a search for nothing comes
# before each, so that what is read is its own result.
ASK = """async queries => {
  const said = JSON.parse(document.querySelector("#__config").textContent).translations
  const field = document.querySelector(".md-search__input")
  const told = () => document.querySelector(".md-search-result__meta").textContent
  const ask = async (text, done) => {
    field.value = text
    field.dispatchEvent(new Event("input", {bubbles: true}))
    for (const start = performance.now(); !done(); ) {
      if (performance.now() - start > 30000) throw Error(`no answer to "${text}": ${told()}`)
      await new Promise(again => setTimeout(again, 5))
    }
  }
  const empty = said["search.result.placeholder"]
  const found = {}
  for (const query of queries) {
    await ask("", () => told() === empty && !document.querySelector(".md-search-result__item"))
    await ask(query, () => told() !== empty)
    found[query] = [...document.querySelectorAll(".md-search-result__link")]
      .filter(link => !link.hash).map(link => link.pathname)
  }
  return found
}"""

SCORES = """items => items.map(item =>
  Math.max(...Array.from(item.querySelectorAll("article"), place => place.dataset.mdScore)))"""


@pytest.fixture
def searching(new_page, address):
    """Opens the search on a front page."""

    def start(language):
        page = new_page()
        page.goto(f"{address}/{language}/")
        page.locator("input.md-search__input").click()
        return page

    return start


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_readers_type_finds_the_page_they_want(searching, language):
    wanted = {
        query: [f"/{language}/{page}/".replace("/index/", "/") for page in pages.split()]
        for query, pages in GOLDEN[language].items()
    }
    found = searching(language).evaluate(ASK, list(wanted))
    first = [query for query in wanted if found[query][:1] and found[query][0] in wanted[query]]
    three = [query for query in wanted if set(found[query][:3]) & set(wanted[query])]
    missed = {query: found[query][:3] for query in wanted if query not in first}
    assert len(wanted) >= 70
    assert len(three) >= 0.95 * len(wanted), (len(three), len(wanted), missed)
    assert len(first) >= 0.80 * len(wanted), (len(first), len(wanted), missed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_typed_message_finds_its_entry_without_its_quotes(searching, language):
    """Typed as somebody remembers it: no quotes, no brackets, no end of the sentence."""
    typed = {
        message.translate(str.maketrans("", "", "'`\"()[]")).split(". ")[0]: place.split("#")[0]
        for place, message, _ in pitfall_messages.QUOTED
    }
    found = searching(language).evaluate(ASK, list(typed))
    missed = [
        (text, found[text][:3])
        for text, page in typed.items()
        if f"/{language}/pitfalls/{page}" not in found[text][:3]
    ]
    assert not missed


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("en", "causal mask"),
        ("pt", "mascara causal"),
        ("en", "causl mask"),
        ("en", "-causal masks"),
    ],
)
def test_a_result_names_its_place_and_leads_there_by_a_clean_address(searching, language, query):
    page = searching(language)
    page.keyboard.type(query)
    result = page.locator(".md-search-result__link").first
    place = {"en": "Learn › Foundations ›", "pt": "Aprender › Fundamentos ›"}[language]
    expect(result).to_have_text(re.compile(f"^{place} (Masks|Máscaras)"))  # when all is typed
    expect(result.locator("mark").first).to_be_visible()
    scores = page.locator(".md-search-result__item").evaluate_all(SCORES)
    assert len(scores) > 5
    assert scores == sorted(scores, reverse=True)  # the highest is where Enter leads
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.split("#")[0].endswith(f"/{language}/foundations/masks/"))


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
