"""An error message, pasted into the search of the site, finds the entry on its fault."""

import json
import re

import pitfall_messages
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import TimeoutError

LANGUAGES = ("pt", "en")
FOUND = """([page, anchor]) => {
    const titles = ".md-search-result__item > .md-search-result__link";
    const articles = [...document.querySelectorAll(titles)].slice(0, 3);
    const links = [...document.querySelectorAll(".md-search-result__link")];
    return articles.some(link => link.pathname.endsWith(page)) &&
        links.some(link => link.pathname.endsWith(page) && link.hash === anchor);
}"""


def pasted(message):
    """The message as a terminal shows it to somebody with other sizes."""
    return "RuntimeError: " + re.sub(r"\b\d+\b", lambda size: f"{size[0]}1", message)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_search_index_holds_each_message_in_its_entry(site, language):
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    texts = {
        entry["location"]: BeautifulSoup(entry["text"], "html.parser").get_text()
        for entry in index["docs"]
    }
    for place, message, _ in pitfall_messages.QUOTED:
        assert message in " ".join(texts[f"pitfalls/{place}"].split()), place


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pasted_message_finds_its_entry(browser, address, language):
    """The page is one of the first three, and the entry is among what is shown of it."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{address}/{language}/")
    page.click("input.md-search__input")
    for place, message, _ in pitfall_messages.QUOTED:
        path, anchor = place.split("#")
        for text in (message, pasted(message)):
            page.keyboard.press("Control+A")
            page.keyboard.press("Delete")
            page.locator(".md-search-result__item").first.wait_for(state="detached")
            page.evaluate("text => navigator.clipboard.writeText(text)", text)
            page.keyboard.press("Control+V")
            try:
                where = [f"/pitfalls/{path}", f"#{anchor}"]
                page.wait_for_function(FOUND, arg=where, timeout=10_000)
            except TimeoutError:
                pytest.fail(f"{place} is not found by {text!r}")
    context.close()
