"""The site in a real browser: languages, formulas without JavaScript, search, terms, paper."""

import io
import re
from itertools import product

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

LANGUAGES = ("pt", "en")


@pytest.mark.parametrize("tag", ["pt-BR", "de-DE"])
def test_the_root_chooses_by_the_browsers_language(new_page, address, tag):
    page = new_page(locale=tag)
    page.route("**/??/", lambda route: route.fulfill(body=""))  # where it leads is enough
    page.goto(address + "/")
    page.wait_for_url(f"{address}/{'pt' if tag == 'pt-BR' else 'en'}/")


def test_the_root_and_a_wrong_address_lead_to_both_languages_without_javascript(new_page, address):
    page = new_page(java_script_enabled=False)
    for start, status in (("/", 200), ("/pt/scale/no-such-page/", 404), ("/en/no-such-page/", 404)):
        assert page.goto(address + start).status == status
        found = [page.locator(f"a[hreflang={language}]") for language in LANGUAGES]
        assert [link.evaluate("link => link.pathname") for link in found] == ["/pt/", "/en/"]
        assert all(link.is_visible() for link in found)


def switch(page, language):
    page.hover(".md-select")
    page.click(f".md-select__link[hreflang={language}]")


def test_the_language_switch_keeps_the_page_without_javascript(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/pt/scale/variance-proof/")
    for language in ("en", "pt"):
        switch(page, language)
        page.wait_for_url(f"{address}/{language}/scale/variance-proof/")


AT_THE_TOP = """id => {
  const {top} = document.getElementById(id).getBoundingClientRect()
  return top > -innerHeight / 10 && top < innerHeight / 4
}"""


def test_the_language_switch_keeps_the_section(new_page, address):
    page = new_page()
    page.goto(f"{address}/pt/scale/variance-proof/")
    section = page.locator("article h2[id]").nth(2)
    ident = section.get_attribute("id")
    page.evaluate("id => document.getElementById(id).scrollIntoView()", ident)
    page.wait_for_function(AT_THE_TOP, arg=ident)
    switch(page, "en")
    page.wait_for_url(f"{address}/en/scale/variance-proof/#{ident}")


def test_the_site_opens_in_the_language_that_was_chosen_last(new_page, address):
    page = new_page(locale="en-GB")
    page.goto(f"{address}/en/")
    switch(page, "pt")
    page.wait_for_url(f"{address}/pt/")
    page.route("**/pt/", lambda route: route.fulfill(body=""))  # where it leads is enough
    page.goto(f"{address}/")
    page.wait_for_url(f"{address}/pt/")


def test_the_colours_that_were_chosen_hold_in_both_languages(new_page, address):
    page = new_page(color_scheme="light")
    page.goto(f"{address}/en/")
    page.click("label[for^=__palette]:not([hidden])")
    page.wait_for_function("document.body.dataset.mdColorScheme === 'slate'")
    page.goto(f"{address}/pt/scale/entropy/")
    page.wait_for_function("document.body.dataset.mdColorScheme === 'slate'")


def test_the_file_of_a_name_is_copied_by_its_button(new_page, address, site):
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/en/variants/blockwise/")
    page.click(".take button")
    status = page.locator(".take [role=status]")
    expect(status).to_have_text("Copied: blockwise.py")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (site / "en/code/blockwise.py").read_text(encoding="utf-8")
    page.context.route("**/code/*", lambda route: route.abort())
    page.click(".take button")
    expect(status).to_contain_text("Copying failed")


def test_a_claim_opens_its_test_in_place(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/begin/how-to-read/")
    mark = page.locator("a.claim-test").first
    mark.click()
    dialog = page.locator("dialog.claim-dialog")
    dialog.wait_for()
    assert '@pytest.mark.claim("rows-sum-to-one")' in dialog.inner_text()
    assert "Each row of weights sums to 1." in dialog.inner_text()
    link = dialog.locator("a").first.get_attribute("href")
    assert page.request.get(link).ok
    assert page.url == f"{address}/en/begin/how-to-read/"
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    mark.click()
    dialog.locator("button").first.click()
    dialog.wait_for(state="detached")


def test_without_javascript_the_mark_of_a_claim_is_a_link(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/pt/begin/how-to-read/")
    page.locator("a.claim-test").first.click()
    page.wait_for_url(f"{address}/pt/reference/claims/**#rows-sum-to-one")


def test_a_claim_that_cannot_be_shown_in_place_is_gone_to(new_page, address):
    page, asked = new_page(), []

    def once(route):
        asked.append(route.request.url)
        route.fulfill(status=500) if len(asked) == 1 else route.continue_()

    page.route("**/reference/claims/**", once)
    page.goto(f"{address}/en/begin/how-to-read/")
    page.locator("a.claim-test").first.click()
    page.wait_for_url(f"{address}/en/reference/claims/**#rows-sum-to-one")


def test_formulas_can_be_read_without_javascript(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/en/scale/variance-proof/")
    formula = page.locator("div.formula").nth(1)
    box = formula.bounding_box()
    assert box["width"] > 200
    assert box["height"] > 20
    assert page.locator("div.formula math").first.count() == 1


def test_the_index_is_loaded_when_the_search_is_opened(new_page, address):
    page, asked = new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/en/scale/entropy/")
    page.wait_for_load_state("networkidle")
    assert not [url for url in asked if "search_index" in url]
    with page.expect_request("**/search_index.json"):
        page.keyboard.press("/")
    with page.expect_request("**/search_index.json"):
        page.goto(f"{address}/en/scale/entropy/?q=entropy")
    page.locator(".md-search-result__item").first.wait_for()


def test_a_figure_wider_than_the_screen_scrolls_in_its_frame_by_keyboard(new_page, address):
    page = new_page(viewport={"width": 280, "height": 700})
    page.goto(f"{address}/en/foundations/six-words/")
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


@pytest.mark.parametrize(("language", "javascript"), [("pt", True), ("en", False)])
def test_the_tab_key_reaches_a_term_and_its_meaning_shows(new_page, address, language, javascript):
    page = new_page(java_script_enabled=javascript)
    page.goto(f"{address}/{language}/scale/scale-factor/")
    word, meaning = word_and_meaning(page)
    expect(meaning).to_be_hidden()
    page.locator("article h1").click()  # the next Tab goes on from here
    for _ in range(15):  # past what can be done with the page
        page.keyboard.press("Tab")
        if word.evaluate("word => word === document.activeElement"):
            break
    expect(word).to_be_focused()
    expect(meaning).to_be_visible()
    assert len(meaning.inner_text()) > 20
    page.keyboard.press("Tab")
    expect(meaning).to_be_hidden()


def test_the_meaning_stays_under_the_pointer_and_goes_with_escape(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/scale/scale-factor/")
    word, meaning = word_and_meaning(page)
    word.hover()
    expect(meaning).to_be_visible()
    here, there = word.bounding_box(), meaning.bounding_box()
    x = here["x"] + here["width"] / 2
    page.mouse.move(x, here["y"] + here["height"] / 2)
    page.mouse.move(x, there["y"] + there["height"] / 2, steps=20)  # over every pixel between
    expect(meaning).to_be_visible()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    page.mouse.move(0, 0)
    word.hover()
    expect(meaning).to_be_visible()
    word.focus()
    page.mouse.move(0, 0)
    expect(meaning).to_be_visible()  # the focus holds it
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    assert word.evaluate("word => word === document.activeElement")


# What a program takes up, and what one copies who selects it: with its marks, and without them.
WITH_MARKS_AND_WITHOUT = """() => Array.from(document.querySelectorAll("pre:has(mark)"), pre => {
  const code = pre.querySelector("code")
  const measured = () => {
    getSelection().selectAllChildren(code)
    const words = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), places = []
    while (words.nextNode()) {
      const range = new Range()
      range.selectNode(words.currentNode)
      places.push(range.getBoundingClientRect().toJSON())
    }
    return [places, code.innerText, getSelection().toString()]
  }
  const marked = measured()
  for (const mark of code.querySelectorAll("mark")) mark.replaceWith(...mark.childNodes)
  return [marked, measured()]
})"""


@pytest.mark.parametrize(
    ("path", "width"),
    [
        ("foundations/softmax-or-sum/", 360),
        pytest.param("variants/blockwise/", 1280, marks=pytest.mark.audit),
    ],
)
def test_a_mark_takes_no_room_and_is_not_copied(new_page, address, path, width):
    page = new_page(viewport={"width": width, "height": 800})
    page.goto(f"{address}/en/{path}")
    page.evaluate("document.fonts.ready")
    pairs = page.evaluate(WITH_MARKS_AND_WITHOUT)
    assert pairs
    for marked, bare in pairs:
        assert marked == bare


BARS = """() => [...document.querySelectorAll(".highlight mark")].map(mark => {
  const bar = getComputedStyle(mark, "::before"), {borderLeftStyle, borderLeftWidth} = bar
  const ground = getComputedStyle(mark.closest("pre").parentElement).backgroundColor
  return {style: borderLeftStyle, width: parseFloat(borderLeftWidth),
          seen: bar.borderLeftColor !== ground && bar.borderLeftColor !== bar.backgroundColor}
})"""


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.audit)])
def test_a_marked_line_has_a_bar_whatever_the_colours(new_page, address, scheme):
    page = new_page(color_scheme=scheme)
    page.goto(f"{address}/en/variants/blockwise/")
    for media, forced in product(("screen", "print"), ("none", "active")):
        page.emulate_media(media=media, forced_colors=forced)
        bars = page.evaluate(BARS)
        assert bars
        for bar in bars:
            assert bar == {"style": "solid", "width": bar["width"], "seen": True}, (media, forced)
            assert bar["width"] >= 3


# The button that leads to the top shows while the page is scrolled up. Scrolls up until the middle
# of a node is where the button is, and tells what lies there; or until a heading is read.
UP = """async ([selector, index]) => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)))
  const button = document.querySelector(".md-top")
  const all = [...document.querySelectorAll(selector)]
  const node = all.filter(each => each.checkVisibility())[index]
  const middle = box => box.top + box.height / 2
  const heading = node.matches("h2"), room = heading ? 90 : middle(button.getBoundingClientRect())
  node.scrollIntoView({block: "start"})  // what is far away gets its height
  await frame()
  scrollBy(0, 2 * innerHeight)
  await frame()
  const start = performance.now()
  do {
    scrollBy(0, 40)
    await frame()
    const box = node.getBoundingClientRect()
    scrollBy(0, (heading ? box.top : middle(box)) - room)
    await frame()
    if (scrollY < 100) return "beside it"  // it is never so low
    if (performance.now() - start > 20000) throw Error("the button does not show")
  } while (button.hidden)
  const [own, box] = [button.getBoundingClientRect(), node.getBoundingClientRect()]
  const left = Math.max(own.left, box.left), right = Math.min(own.right, box.right)
  if (left >= right || own.bottom <= box.top || own.top >= box.bottom) return "beside it"
  const there = document.elementFromPoint((left + right) / 2, middle(heading ? own : box))
  return button.contains(there) ? "the button" : "what is read"
}"""


def test_the_button_that_leads_to_the_top_covers_no_field_and_no_heading(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/complexity/calculator/")
    fields = ".explorer :is(input, select, button)"
    page.locator(".explorer").scroll_into_view_if_needed()
    page.locator(".explorer:not([data-asleep])").wait_for()  # its script comes when it is near
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate(UP, ["article h2[id]", 1]) == "beside it"
        number = page.locator(fields).locator("visible=true").count()
        assert number > 3
        found = {page.evaluate(UP, [fields, each]) for each in range(number)}
        assert "the button" not in found
    assert "what is read" in found


BLANK = re.compile(r"[\s\u2060]")


def test_a_printed_page_reads_in_its_order_and_has_nothing_of_the_screen(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/foundations/softmax-or-sum/")
    page.evaluate("document.fonts.ready")
    assert page.locator(".md-code__button").count()
    page.emulate_media(media="print")
    assert not page.locator(".md-code__button:visible, .md-top:visible").count()
    formulas = page.locator("div.formula").evaluate_all(
        "all => all.map(each => getComputedStyle(each).backgroundImage)"
    )
    assert set(formulas) == {"none"}
    said = page.locator("article > p:has(.term):not(:has(.katex))").all_inner_texts()
    assert said
    pdf = PdfReader(io.BytesIO(page.pdf(format="A4", print_background=True)))
    sheets = [sheet.extract_text().strip() for sheet in pdf.pages]
    written = BLANK.sub("", "".join(sheets))
    assert [text for text in said if BLANK.sub("", text) not in written] == []
    # The title of a program is on the sheet of its first lines.
    assert [
        sheet for sheet in sheets if re.search(r"^(attnref|snippets)/\S+$", sheet.split("\n")[-1])
    ] == []
