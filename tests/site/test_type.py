"""The site's own type: it is all that pages are set in, whatever fonts a machine has."""

from itertools import count

import fonts
import pytest
import typeface
from fontTools.ttLib import TTFont
from selectolax.lexbor import LexborHTMLParser
from test_every_page import PROBLEMS_OF_FIGURES

LANGUAGES = ("pt", "en")
FAMILIES = {"attnref Sans", "attnref Mono"}
# Each with text, code, formulas, tables and a chart or a figure.
PATHS = ("foundations/six-words/", "variants/sliding-window/")
VIEWS = {
    "light-wide": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark-narrow": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
}


@pytest.fixture(scope="module", params=fonts.SETUPS)
def machine(request, launch, tmp_path_factory):
    """A browser on a machine with other fonts."""
    folder = tmp_path_factory.mktemp(request.param)
    browser = launch(env=fonts.environment(request.param, folder))
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


@pytest.mark.parametrize("view", VIEWS)
def test_no_label_depends_on_the_machine(machine, address, figures, view):
    page = machine.new_page(**VIEWS[view])
    show_figures(page, address, figures)
    assert page.evaluate(PROBLEMS_OF_FIGURES) == []
    page.close()


def set_in(page, selector):
    """The fonts that text is set in, as the browser tells: with the site's marked, by an example.

    It tells so of the text in an element and in its children.
    """
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    nodes = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": selector})
    found = {}
    for node in nodes["nodeIds"]:
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
        if not (brought and (name in FAMILIES or name.startswith("KaTeX_")))
    }


def test_all_text_is_set_in_fonts_of_the_site(machine, address, figures):
    page = machine.new_page()
    show_figures(page, address, figures)
    used = set_in(page, "svg text")
    assert ("attnref Sans", True) in used
    assert foreign(used) == {}
    for language in LANGUAGES:
        for path in PATHS:
            page.goto(f"{address}/{language}/{path}")
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            page.evaluate("document.fonts.ready")
            used = set_in(page, "body *:not(.katex-mathml *, svg, svg *, script, style, title)")
            assert {(name, True) for name in FAMILIES} <= used.keys()
            assert foreign(used) == {}, path
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


# Moved by what comes late: 0.1 is held for good, 0.001 is half a line of a paragraph.
SHIFTS = """() => new Promise(tell => new PerformanceObserver(list => tell(
  list.getEntries().reduce((sum, entry) => sum + entry.value, 0)
)).observe({type: "layout-shift", buffered: true}))"""


@pytest.mark.parametrize("path", PATHS)
def test_nothing_moves_when_the_fonts_arrive(machine, address, path):
    page = machine.new_page(viewport={"width": 1280, "height": 800})
    held = []
    page.route("**/*.woff2", held.append)
    page.goto(f"{address}/pt/{path}", wait_until="domcontentloaded")
    page.wait_for_timeout(1000)
    before = page.evaluate(SHIFTS)
