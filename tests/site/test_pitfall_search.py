"""An error message, pasted into the search of the site, finds the entry on its fault."""

import json
import re

import pytest

from tests.book import pitfall_messages

LANGUAGES = ("pt", "en")
# Whether the page is one of the first three found, and the entry among what is shown of it.
FOUND = """([page, anchor]) => {
  const links = [...document.querySelectorAll(".md-search-result__link")]
  return links.filter(link => !link.hash).slice(0, 3).some(link => link.pathname.endsWith(page)) &&
    links.some(link => link.pathname.endsWith(page) && link.hash === anchor)
}"""


def with_other_numbers(message):
    """The message as a terminal shows it to somebody else."""
    return "RuntimeError: " + re.sub(r"\b\d+\b", lambda size: f"{size[0]}1", message)


@pytest.mark.parametrize("language", LANGUAGES)
def test_search_results_show_formulas_as_text(site, language):
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    whole = json.loads((site / language / "search/search_text.json").read_text("utf-8"))
    places = [entry["location"] for entry in index["docs"]]
    texts = dict(zip(places, whole, strict=True))
    assert "1/√(d_k)" in texts["scale/scale-factor/"]
    for place, text in texts.items():
        assert not re.search(r"\\[(\[]", text), place


@pytest.mark.parametrize(
    ("language", "count"),
    [("en", 2), *(pytest.param(one, 99, marks=pytest.mark.audit) for one in LANGUAGES)],
)
def test_a_pasted_message_finds_its_entry(new_page, address, language, count):
    """What all of them find is asked in test_search.py, without pasting."""
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/{language}/")
    field = page.locator("input.md-search__input")
    field.click()
    for place, message, _ in pitfall_messages.QUOTED[:count]:
        path, anchor = place.split("#")
        for text in (message, with_other_numbers(message)):
            field.fill("")
            page.locator(".md-search-result__item").first.wait_for(state="detached")
            page.evaluate("text => navigator.clipboard.writeText(text)", text)
            page.keyboard.press("Control+V")
            page.wait_for_function(FOUND, arg=[f"/pitfalls/{path}", f"#{anchor}"])


def test_the_box_of_the_home_page_finds_the_entry_of_a_message(new_page, address):
    page = new_page()
    page.goto(f"{address}/pt/")
    for place, message, _ in pitfall_messages.QUOTED[:2]:
        path, anchor = place.split("#")
        page.keyboard.press("Escape")
        page.fill("form.find input", with_other_numbers(message))
        page.press("form.find input", "Enter")
        page.wait_for_function(FOUND, arg=[f"/pitfalls/{path}", f"#{anchor}"])


def test_without_javascript_the_box_leads_to_the_page_on_errors(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/en/")
    page.fill("form.find input", "RuntimeError")
    page.click("form.find button")
    page.wait_for_url(f"{address}/en/pitfalls/?q=RuntimeError")
