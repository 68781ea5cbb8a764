"""The site in a real browser: no foreign request, formulas without JavaScript, copying, search."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parent.parent.parent
PATHS = sorted(
    f"{page.relative_to(ROOT / 'docs/en').with_suffix('').as_posix()}/".removesuffix("index/")
    for page in (ROOT / "docs/en").rglob("*.*")
    if page.suffix in (".md", ".ipynb")
)
LANGUAGES = ("pt", "en")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}


@pytest.fixture
def new_page(browser):
    """Makes pages with options of their own, and closes them."""
    contexts = []

    def make(**options):
        options.setdefault("viewport", WIDE)
        contexts.append(browser.new_context(**options))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


def test_every_page_of_the_site_is_listed_here(site):
    built = {
        path.parent.relative_to(site / "en").as_posix().replace(".", "")
        for path in (site / "en").rglob("index.html")
    }
    assert built == {path.rstrip("/") for path in PATHS}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_request_leaves_the_site_and_the_console_is_silent(new_page, address, language):
    page = new_page()
    foreign, errors = [], []
    page.on("request", lambda r: foreign.append(r.url) if not r.url.startswith(address) else None)
    page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", lambda r: errors.append(f"failed: {r.url}"))
    page.on("response", lambda r: errors.append(f"{r.status} {r.url}") if r.status > 399 else None)
    for path in PATHS:
        page.goto(f"{address}/{language}/{path}", wait_until="networkidle")
    assert foreign == []
    assert errors == []


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
def test_the_language_switch_keeps_the_page(new_page, address, javascript, path):
    page = new_page(java_script_enabled=javascript)
    page.goto(f"{address}/pt/{path}")
    page.hover(".md-select")
    page.click(".md-select__link[hreflang=en]")
    page.wait_for_url(f"{address}/en/{path}")
    page.hover(".md-select")
    page.click(".md-select__link[hreflang=pt]")
    page.wait_for_url(f"{address}/pt/{path}")


def test_formulas_can_be_read_without_javascript(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/en/scale/variance-proof/")
    formula = page.locator("div.formula").nth(1)
    box = formula.bounding_box()
    assert box["width"] > 200
    assert box["height"] > 20
    assert page.locator("div.formula math").first.count() == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_copying_yields_exactly_the_tested_code(new_page, address, language):
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sections = {
        path.name: path.read_text("utf-8")
        .split("# --8<-- [start:example]\n")[1]
        .split("# --8<-- [end:example]")[0]
        for path in (ROOT / "snippets").glob("*.py")
    }
    copied = set()
    for path in PATHS:
        page.goto(f"{address}/{language}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        # The page of claims shows tests, which have no file to be copied to.
        for block in page.locator("div.language-python:has(.filename)").all():
            title = block.locator(".filename").inner_text()
            block.locator("pre").hover()
            block.locator("button[title], .md-code__button").first.click()
            page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
            text = page.evaluate("navigator.clipboard.readText()")
            assert text.rstrip("\n") == sections[Path(title).name].rstrip("\n"), title
            copied.add(Path(title).name)
            page.evaluate("navigator.clipboard.writeText('')")
    assert copied == set(sections)


@pytest.mark.parametrize(
    ("language", "query", "found"),
    [
        ("pt", "variancia", "Variância"),
        ("pt", "variância", "Variância"),
        ("pt", "atencao", "Atenção"),
        ("pt", "mascara", "Máscaras"),
        ("en", "variance", "variance"),
    ],
)
def test_search_finds_words_with_and_without_accents(new_page, address, language, query, found):
    page = new_page()
    page.goto(f"{address}/{language}/")
    page.click("input.md-search__input")
    page.keyboard.type(query)
    result = page.locator(".md-search-result__item").first
    result.wait_for()
    assert found.lower() in page.locator(".md-search-result__list").inner_text().lower()


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_wider_than_a_small_screen(new_page, address, language):
    page = new_page(viewport=NARROW)
    for path in PATHS:
        page.goto(f"{address}/{language}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], (path, width)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("scheme", "viewport"), [("light", WIDE), ("dark", NARROW)], ids=["light-wide", "dark-narrow"]
)
def test_accessibility(new_page, address, language, scheme, viewport):
    page = new_page(color_scheme=scheme, viewport=viewport)
    # What KaTeX draws is hidden from assistive technology, which reads the MathML beside it.
    context = {"include": [["html"]], "exclude": [[".katex-html"]]}
    for path in PATHS:
        page.goto(f"{address}/{language}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        page.wait_for_function(
            "[...document.querySelectorAll('nav.md-code__nav')].every(n => n.ariaLabel)"
        )
        if page.locator(".term").count():
            page.locator(".term-word").first.focus()
            page.wait_for_timeout(400)  # until its meaning has its full colour
        violations = Axe().run(page, context=context).response["violations"]
        told = [
            f"{violation['id']}: {node['target']} {node['html'][:150]}"
            for violation in violations
            for node in violation["nodes"][:3]
        ]
        assert not told, f"{language}/{path}\n" + "\n".join(told)


# What is wrong with the text of each figure, and its colour: {name: [colour, problem, …]}.
LOOK_AT_FIGURES = """() => Object.fromEntries(Array.from(
    document.querySelectorAll(".figure"), figure => {
  const svg = figure.querySelector("svg"), frame = svg.getBoundingClientRect()
  const scale = frame.width / svg.viewBox.baseVal.width
  const texts = [...svg.querySelectorAll("text")].map(node => ({
    words: node.textContent, box: node.getBoundingClientRect(), style: getComputedStyle(node)}))
  const found = [texts[0].style.fill]
  texts.forEach(({words, box, style}, index) => {
    const size = parseFloat(style.fontSize) * scale
    if (size < 9) found.push(`${words}: ${size} pixels`)
    if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
        box.top < frame.top - 1 || box.bottom > frame.bottom + 1) found.push(`${words}: cut off`)
    for (const other of texts.slice(index + 1)) {
      const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left)
      const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top)
      // The box of a text is higher than its letters.
      if (across > 1 && down > box.height / 3) found.push(`${words}: runs into ${other.words}`)
    }
  })
  return [figure.id, found]
}))"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_can_be_read_and_follow_the_scheme(new_page, site, address, language):
    paths = [
        path.parent.relative_to(site).as_posix()
        for path in (site / language).rglob("index.html")
        if 'class="figure"' in path.read_text("utf-8")
    ]
    assert len(paths) >= 3
    light = new_page(color_scheme="light", viewport=NARROW)
    dark = new_page(color_scheme="dark", viewport=WIDE)
    for path in paths:
        looks = []
        for page in (light, dark):
            page.goto(f"{address}/{path}/")
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            page.evaluate("document.fonts.ready")
            looks.append(page.evaluate(LOOK_AT_FIGURES))
        for name, (colour, *problems) in looks[0].items():
            assert not problems + looks[1][name][1:], (path, name)
            assert colour != looks[1][name][0], (path, name)


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


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tab_key_reaches_a_term_and_its_meaning_shows(new_page, address, language, javascript):
    page = new_page(java_script_enabled=javascript)
    page.goto(f"{address}/{language}/scale/scale-factor/")
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


def test_the_meaning_stays_under_the_pointer_and_goes_with_escape(new_page, address):
    page = new_page()
    page.goto(f"{address}/en/scale/scale-factor/")
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


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_meaning_is_seen_whole(new_page, address, language, viewport):
    """Below its word, inside the screen, and with nothing over it."""
    page = new_page(viewport=viewport, reduced_motion="reduce")
    for path in PATHS:
        page.goto(f"{address}/{language}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        told = page.evaluate(
            """() => [...document.querySelectorAll(".term")].flatMap(term => {
                const [word, meaning] = term.children;
                word.scrollIntoView({block: "center"});
                word.focus();
                const box = meaning.getBoundingClientRect();
                const last = [...word.getClientRects()].pop();
                const seen = [0.02, 0.5, 0.98].every(share => meaning === document.elementFromPoint(
                    box.left + share * box.width, box.top + box.height / 2));
                const wide = document.documentElement.scrollWidth > innerWidth;
                const apart = box.top > last.bottom || box.bottom < last.top + last.height / 2;
                return seen && !wide && !apart && box.width > 150 ? [] : [word.textContent];
            })"""
        )
        assert not told, (path, told)
