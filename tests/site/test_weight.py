"""What a first visit loads, compressed as servers send it; and that the page then holds still."""

import gzip
import re

import pytest

LANGUAGES = ("pt", "en")
# Thousands of bytes of a first view: formulas want fonts, and the claims quote their tests.
FIRST_VIEW = {
    "": 125,
    "variants/benchmark/": 120,
    "notebooks/variance/": 120,
    "reference/api/attention/": 125,
    "scale/saturation/": 150,
    "variants/blockwise/": 150,
    "reference/claims/foundations/": 150,
}
HTML, NOTEBOOK = 60, 100
ELEMENT = re.compile(rb"<[a-z]")
MOST = 5000  # elements of a page


def compressed(path):
    """The size as it is sent: what is compressed already is not compressed again."""
    content = path.read_bytes()
    return len(content if path.suffix == ".woff2" else gzip.compress(content, mtime=0))


@pytest.mark.parametrize(
    ("path", "language"),
    [
        pytest.param(path, language, marks=() if place % 4 == 3 * turn else pytest.mark.audit)
        for place, path in enumerate(FIRST_VIEW)
        for turn, language in enumerate(LANGUAGES)
    ],
)
def test_a_first_view_is_light(first_page, address, site, path, language):
    """With at most 120 kB of type for text and code, and no font twice, though the page asks for it
    early.
    """
    page, asked = first_page(), []
    page.on("request", lambda request: asked.append(request.url.removeprefix(f"{address}/")))
    page.goto(f"{address}/{language}/{path}")
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("networkidle")
    files = {site / name / "index.html" if name.endswith("/") else site / name for name in asked}
    sizes = {file.relative_to(site).as_posix(): compressed(file) for file in files}
    assert sum(sizes.values()) <= FIRST_VIEW[path] * 1000, sizes
    fonts = [name for name in asked if name.endswith(".woff2")]
    assert len(fonts) == len(set(fonts))
    type_ = [sizes[name] for name in fonts if "KaTeX" not in name]
    assert len(type_) >= 2
    assert sum(type_) <= 120_000


def test_no_page_is_heavy(site):
    pages = {path.relative_to(site).as_posix(): compressed(path) for path in site.rglob("*.html")}
    assert len(pages) > 150
    heavy = {
        path: size
        for path, size in pages.items()
        if size > 1000 * (NOTEBOOK if "/notebooks/" in path else HTML)
    }
    assert heavy == {}


def test_no_page_has_very_many_elements(site):
    found = {
        path.relative_to(site).as_posix(): len(ELEMENT.findall(path.read_bytes()))
        for path in site.rglob("*.html")
    }
    assert max(found.values()) > 3000
    assert {path: number for path, number in found.items() if number > MOST} == {}


# Sums what has moved without a reader's doing.
SHIFTS = """
  window.shifted = 0
  const add = entries => {
    for (const {value, hadRecentInput} of entries) if (!hadRecentInput) shifted += value
  }
  const observer = new PerformanceObserver(list => add(list.getEntries()))
  observer.observe({type: "layout-shift", buffered: true})
  window.painted = () => new Promise(
    done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))
  window.moved = async () => {
    await document.fonts.ready
    await painted()
    add(observer.takeRecords())
    return shifted
  }
"""


@pytest.mark.parametrize(
    ("path", "width"),
    [
        ("", 360),
        ("foundations/masks/", 1280),
        *(
            pytest.param(*one, marks=pytest.mark.audit)
            for one in [("", 1280), ("foundations/masks/", 360), ("scale/variance-proof/", 360)]
        ),
    ],
)
def test_nothing_moves_when_the_fonts_arrive_late(first_page, address, path, width):
    page, held, late = first_page(), [], []
    page.set_viewport_size({"width": width, "height": 740})
    page.add_init_script(SHIFTS)
    page.route("**/*.woff2", lambda route: route.continue_() if late else held.append(route))
    page.goto(f"{address}/en/{path}", wait_until="domcontentloaded")
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    for _ in range(600):
        if len(held) >= 3:
            break
        page.wait_for_timeout(50)
    assert len(held) >= 3
    page.wait_for_timeout(1200)  # for what is shown while they are not there
    page.evaluate("painted()")
    late.append(True)
    for route in held:
        route.continue_()
    assert page.evaluate("moved()") <= 0.02
