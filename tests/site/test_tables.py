"""Tables of results: sorted by their buttons, sifted by name, and whole without JavaScript."""

import re

import pytest
from playwright.sync_api import expect

PATH = "variants/benchmark/"
# The second cells of a table's rows, in the order in which they are seen, one list for each length.
TIMES = """box => [...box.querySelectorAll("tbody")].map(part =>
  [...part.querySelectorAll("tr:has(td)")].filter(row => row.checkVisibility())
    .map(row => parseFloat(row.cells[1].textContent)))"""


@pytest.mark.parametrize("language", ["pt", pytest.param("en", marks=pytest.mark.audit)])
def test_a_table_is_sorted_within_each_length_by_keyboard(new_page, address, language):
    page = new_page()
    page.goto(f"{address}/{language}/{PATH}")
    box = page.locator(".results").first
    head = box.locator("thead th").nth(1)
    before = box.evaluate(TIMES)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert box.evaluate(TIMES) == [sorted(times) for times in before] != before
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert box.evaluate(TIMES) == [sorted(times, reverse=True) for times in before]
    box.locator("thead th button").first.click()
    expect(head).not_to_have_attribute("aria-sort", re.compile(""))
    names = box.locator("tbody").first.locator("th[scope=row]").all_inner_texts()
    assert names == sorted(names, key=str.lower)


def test_a_table_is_sifted_by_the_name_of_a_method(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/{PATH}")
    box = page.locator(".results:has(.sift)").first
    every = box.locator("tbody tr:has(td)").count()
    box.get_by_label("Only methods with").fill("SDPA")
    seen = box.locator("tbody tr:has(td):visible")
    expect(box.get_by_role("status")).to_contain_text(f" of {every} rows")  # when all is sifted
    names = seen.locator("th").all_inner_texts()
    assert 0 < len(names) < every
    assert all("sdpa" in name for name in names)
    expect(box.get_by_role("status")).to_have_text(f"{len(names)} of {every} rows")
    box.get_by_label("Only methods with").fill("")
    expect(seen).to_have_count(every)
    expect(box.get_by_role("status")).to_be_empty()


def test_without_javascript_a_table_is_whole(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/en/{PATH}")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    rows = page.locator(".results tbody tr")
    assert rows.locator("visible=true").count() == rows.count() > 100
    assert not page.locator(".results button").count()
