"""The site's own type: it is all that pages are set in, whatever fonts a machine has."""

from itertools import count

import pytest
from fontTools.ttLib import TTFont
from selectolax.lexbor import LexborHTMLParser

from docs.figures import typeface
from tests.site import machines
from tests.site.test_every_page import PROBLEMS_OF_FIGURES, VIEWS, show

FAMILIES = {"attnref Sans", "attnref Mono"}
FORMULAS = ("attnref Formulas", "KaTeX_")
# With text, code, formulas, tables and a chart or a figure.
PATH = "foundations/six-words/"
# Others than the first seldom tell more.
SETUPS = [
    pytest.param(setup, marks=pytest.mark.audit if place else ())
    for place, setup in enumerate(machines.SETUPS)
]


@pytest.fixture(scope="module", params=SETUPS)
def machine(request, launch, tmp_path_factory):
    """A browser on a machine with other fonts."""
    folder = tmp_path_factory.mktemp(request.param)
    browser = launch(env=machines.environment(request.param, folder))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def figures(site):
    """All figures and charts of both languages, each with its page in its id."""
    found, numbers = [], count(1)
    for path in sorted(site.glob("*/**/index.html")):
        page = LexborHTMLParser(path.read_text("utf-8"))
        for figure in page.css("figure.figure"):
            figure.attrs["id"] = f"{path.parent.relative_to(site)} {next(numbers)}"
            found.append(figure.html)
    assert len(found) > 100
    return "".join(found)


def show_figures(page, address, figures):
    """They stand in one page, in the place of its text: to load them all takes one visit."""
    page.goto(f"{address}/en/")
    page.evaluate("html => { document.querySelector('article').innerHTML = html }", figures)
    page.evaluate("document.fonts.ready")


def test_no_label_depends_on_the_machine(machine, address, figures):
    page = machine.new_page(reduced_motion="reduce")
    show_figures(page, address, figures)
    for view in VIEWS:
        show(page, view)
        assert page.evaluate(PROBLEMS_OF_FIGURES) == [], view
    page.close()


# Marks what shows a sign for the first time in a style: to ask of each sign once is enough.
MARK = """() => {
  const seen = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement
    if (node.closest(".katex-mathml, script, style, title, noscript")) continue
    const {fontFamily, fontWeight, fontStyle} = getComputedStyle(node)
    const before = seen.size
    for (const sign of walker.currentNode.data.replace(/[\\s\\u200b]/g, ""))
      seen.add([fontFamily, fontWeight, fontStyle, sign].join())
    if (seen.size > before) node.toggleAttribute("data-signs", true)
  }
}"""


def set_in(page):
    """The fonts that text is set in, as the browser tells, each with an example."""
    page.evaluate(MARK)
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    marked = {"nodeId": root, "selector": "[data-signs]"}
    found = {}
    for node in session.send("DOM.querySelectorAll", marked)["nodeIds"]:
        used = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        for font in used:
            family = font["familyName"], font["isCustomFont"]
            if family not in found:
                html = session.send("DOM.getOuterHTML", {"nodeId": node})["outerHTML"]
                found[family] = html[:200]
    return found


def foreign(used):
    """Those that the site did not bring."""
    return {
        name: example
        for (name, brought), example in used.items()
        if not (brought and (name in FAMILIES or name.startswith(FORMULAS)))
    }


def open_all(page):
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate("document.fonts.ready")


def test_all_text_is_set_in_fonts_of_the_site(machine, address, figures):
    page = machine.new_page()
    show_figures(page, address, figures)
    show_figures(page, address, figures)  # with the fonts that the first visit brought
    used = set_in(page)
    assert ("attnref Sans", True) in used
    assert foreign(used) == {}
    page.goto(f"{address}/pt/{PATH}")
    open_all(page)
    page.reload()  # a font that came too late for what was shown is there the next time
    open_all(page)
    used = set_in(page)
    assert {(name, True) for name in FAMILIES} <= used.keys()
    assert foreign(used) == {}
    page.close()


def test_the_fonts_have_all_that_the_pages_write(site):
    sans, mono = (
        set(TTFont(typeface.SHARED / "fonts" / f"{name}-regular.woff2").getBestCmap())
        for name in ("sans", "mono")
    )
    greek = set(range(0x384, 0x3CF)) & sans  # code takes it from the text
    missing = {}
    for path in sorted(site.rglob("*.html")):
        body = LexborHTMLParser(path.read_text("utf-8")).body
        for node in body.css(".katex, script, style, svg .variable, svg .roman"):
            node.decompose()
        for known, nodes in ((mono | greek, body.css("pre, code, kbd")), (sans, [body])):
            for node in nodes:
                for sign in {*node.text()} - {*map(chr, known)}:
                    if sign.isprintable():
                        missing.setdefault(sign, path.relative_to(site).as_posix())
                node.decompose()
    assert missing == {}


# The text of a page in one line: its width and height in pixels.
LINE = """() => {
  const line = document.createElement("span")
  line.style = "position: absolute; white-space: nowrap; font-size: 100px; line-height: normal"
  line.textContent = [...document.querySelectorAll("article p")].map(p => p.textContent).join(" ")
  document.querySelector("article").append(line)
  const {width, height} = line.getBoundingClientRect()
  line.remove()
  return [width, height]
}"""


@pytest.mark.parametrize("machine", ["dejavu", "liberation"], indirect=True)
def test_until_the_fonts_arrive_the_machines_own_are_as_wide_and_as_high(machine, address):
    page = machine.new_page()
    held, arriving = [], []
    page.route("**/*.woff2", lambda route: route.continue_() if arriving else held.append(route))
    page.goto(f"{address}/pt/{PATH}", wait_until="domcontentloaded")
    page.wait_for_function("document.fonts.size > 0 && document.readyState !== 'loading'")
    width, height = page.evaluate(LINE)
    assert not page.evaluate("document.fonts.check('16px \"attnref Sans\"')")
    arriving.append(True)
    for route in held:
        route.continue_()
    page.wait_for_function("document.fonts.check('16px \"attnref Sans\"')")
    # Browsers round what is above and what is below the line, each to a pixel.
    assert page.evaluate(LINE) == [pytest.approx(width, rel=0.02), pytest.approx(height, abs=2)]
    page.close()
