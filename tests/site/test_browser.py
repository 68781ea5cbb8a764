"""The site in a real browser: languages, formulas without JavaScript, search, terms."""

import pytest

LANGUAGES = ("pt", "en")


@pytest.mark.parametrize("tag", ["pt-BR", "en-GB", "de-DE"])
def test_the_root_chooses_by_the_browsers_language(new_page, address, tag):
    page = new_page(locale=tag)
    page.goto(address + "/")
    page.wait_for_url(f"{address}/{'pt' if tag == 'pt-BR' else 'en'}/")


def test_the_root_links_both_languages_without_javascript(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(address + "/")
    for language in LANGUAGES:
        page.goto(address + "/")
        page.click(f"a[hreflang={language}]")
        assert page.url == f"{address}/{language}/"


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("path", ["", "scale/variance-proof/"])
def test_the_language_switch_keeps_the_page(new_page, quiet_address, javascript, path):
    page = new_page(java_script_enabled=javascript)
    page.goto(f"{quiet_address}/pt/{path}")
    page.hover(".md-select")
    page.click(".md-select__link[hreflang=en]")
    page.wait_for_url(f"{quiet_address}/en/{path}")
    page.hover(".md-select")
    page.click(".md-select__link[hreflang=pt]")
    page.wait_for_url(f"{quiet_address}/pt/{path}")


def test_a_wrong_address_leads_back_to_each_language(new_page, address):
    page = new_page()
    answer = page.goto(f"{address}/pt/scale/no-such-page/")
    assert answer.status == 404
    page.click("a[hreflang=pt]")
    page.wait_for_url(f"{address}/pt/")
    page.goto(f"{address}/en/no-such-page/")
    page.click("a[hreflang=en]")
    page.wait_for_url(f"{address}/en/")


def test_formulas_can_be_read_without_javascript(new_page, quiet_address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{quiet_address}/en/scale/variance-proof/")
    formula = page.locator("div.formula").nth(1)
    box = formula.bounding_box()
    assert box["width"] > 200
    assert box["height"] > 20
    assert page.locator("div.formula math").first.count() == 1


QUERIES = {
    "pt": {
        "variancia": "Variância",
        "variância": "Variância",
        "atencao": "Atenção",
        "mascara": "Máscaras",
    },
    "en": {"variance": "variance"},
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_search_finds_words_with_and_without_accents(new_page, address, language):
    """In one visit, since to read the index is what takes time."""
    page = new_page()
    page.goto(f"{address}/{language}/")
    field, result = page.locator("input.md-search__input"), page.locator(".md-search-result__item")
    field.click()
    for query, found in QUERIES[language].items():
        field.fill("")
        result.first.wait_for(state="detached")
        page.keyboard.type(query)
        result.first.wait_for()
        told = page.locator(".md-search-result__list").inner_text().lower()
        assert found.lower() in told, query


def test_a_figure_wider_than_the_screen_scrolls_in_its_frame_by_keyboard(new_page, quiet_address):
    page = new_page(viewport={"width": 280, "height": 700})
    page.goto(f"{quiet_address}/en/foundations/six-words/")
    drawing = page.locator(".drawing").first
    drawing.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.drawing').scrollLeft > 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 280


# Terms: their meaning shows on hover and on focus, and can be dismissed (WCAG 1.4.13).


def word_and_meaning(page, number=0):
    term = page.locator(".term").nth(number)
    return term.locator(".term-word"), term.locator(".term-meaning")


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tab_key_reaches_a_term_and_its_meaning_shows(
    new_page, quiet_address, language, javascript
):
    page = new_page(java_script_enabled=javascript)
    page.goto(f"{quiet_address}/{language}/scale/scale-factor/")
    word, meaning = word_and_meaning(page)
    assert not meaning.is_visible()
    page.locator("article h1").click()  # the next Tab goes on from here
    for _ in range(5):
        page.keyboard.press("Tab")
        if meaning.is_visible():
            break
    assert meaning.is_visible()
    assert word.evaluate("word => word === document.activeElement")
    assert len(meaning.inner_text()) > 20
    page.keyboard.press("Tab")
    assert not meaning.is_visible()


def test_the_meaning_stays_under_the_pointer_and_goes_with_escape(new_page, quiet_address):
    page = new_page()
    page.goto(f"{quiet_address}/en/scale/scale-factor/")
    word, meaning = word_and_meaning(page)
    word.hover()
    assert meaning.is_visible()
    here, there = word.bounding_box(), meaning.bounding_box()
    x = here["x"] + here["width"] / 2
    page.mouse.move(x, here["y"] + here["height"] / 2)
    page.mouse.move(x, there["y"] + there["height"] / 2, steps=20)  # over every pixel between
    assert meaning.is_visible()
    page.keyboard.press("Escape")
    assert not meaning.is_visible()
    page.mouse.move(0, 0)
    word.hover()
    assert meaning.is_visible()
    word.focus()
    page.mouse.move(0, 0)
    assert meaning.is_visible()  # the focus holds it
    page.keyboard.press("Escape")
    assert not meaning.is_visible()
    assert word.evaluate("word => word === document.activeElement")
