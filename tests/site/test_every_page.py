"""Each page in a real browser, in both languages: wide in light, and narrow in dark."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parent.parent.parent
TEXTS = {
    f"{page.relative_to(ROOT / 'docs/en').with_suffix('').as_posix()}/".removesuffix("index/"): (
        page.read_text(encoding="utf-8")
    )
    for page in sorted((ROOT / "docs/en").rglob("*.*"))
    if page.suffix in (".md", ".ipynb")
}
PATHS = sorted(TEXTS)
WITH_SNIPPETS = [path for path in PATHS if '```python title="snippets/' in TEXTS[path]]
VIEWS = {
    "light-wide": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark-narrow": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
}
# What stands between the marks of a section, in a file of snippets/.
SECTION = re.compile(r"# --8<-- \[start:(\w+)\]\n(.*?)# --8<-- \[end:\1\]", re.DOTALL)
every_page = pytest.mark.parametrize("path", PATHS)
in_both_languages = pytest.mark.parametrize("language", ["pt", "en"])


def test_every_page_of_the_site_is_listed_here(site):
    built = {
        path.parent.relative_to(site / "en").as_posix().replace(".", ""): path.read_text("utf-8")
        for path in (site / "en").rglob("index.html")
    }
    assert built.keys() == {path.rstrip("/") for path in PATHS}
    showing = {path for path, html in built.items() if 'class="filename"' in html}
    assert showing == {path.rstrip("/") for path in WITH_SNIPPETS}


@every_page
@in_both_languages
@pytest.mark.parametrize("view", VIEWS)
def test_page(new_page, address, path, language, view):
    """One visit for all that is asked of each page, since loading is what takes time."""
    page = new_page(**VIEWS[view])
    noise = listen(page, address)
    page.goto(f"{address}/{language}/{path}")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate("document.fonts.ready")
    problems = {
        "wider than the screen": wider_than_the_screen(page),
        "figures": page.evaluate(PROBLEMS_OF_FIGURES),
        "meanings of terms": page.evaluate(MEANINGS_NOT_SEEN_WHOLE),
    }
    # Both languages have the same structure, so axe, which is slow, sees one in each view.
    if (PATHS.index(path) + (language == "pt") + (view == "light-wide")) % 2:
        problems["accessibility"] = violations(page)
    page.wait_for_load_state("networkidle")
    problems["console and network"] = noise
    assert not {about: told for about, told in problems.items() if told}


def listen(page, address):
    """A list that fills with what a page says on the console, and with requests that are wrong."""
    noise = []
    page.on("request", lambda r: noise.append(r.url) if not r.url.startswith(address) else None)
    page.on("console", lambda m: noise.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("requestfailed", lambda r: noise.append(f"failed: {r.url}"))
    page.on("response", lambda r: noise.append(f"{r.status} {r.url}") if r.status > 399 else None)
    return noise


def wider_than_the_screen(page):
    width = page.evaluate("document.documentElement.scrollWidth")
    return width if width > page.viewport_size["width"] else None


# Too small, cut off, run into one another, or not in a colour that stands out from the page.
PROBLEMS_OF_FIGURES = """() => {
  const brightness = colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b, 0) / 765
  const page = brightness(getComputedStyle(document.body).backgroundColor)
  return [...document.querySelectorAll(".figure")].flatMap(figure => {
    const svg = figure.querySelector("svg"), frame = svg.getBoundingClientRect()
    const scale = frame.width / svg.viewBox.baseVal.width
    const texts = [...svg.querySelectorAll("text")].map(node => ({
      words: node.textContent, box: node.getBoundingClientRect(), style: getComputedStyle(node)}))
    const found = []
    if (!texts.some(({style}) => Math.abs(brightness(style.fill) - page) > 0.6))
      found.push(`no text stands out: ${texts[0].style.fill}`)
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
    return found.map(problem => `${figure.id}: ${problem}`)
  })
}"""

# Not below its word, not inside the screen, or with something over it.
MEANINGS_NOT_SEEN_WHOLE = """() => [...document.querySelectorAll(".term")].flatMap(term => {
  const [word, meaning] = term.children
  word.scrollIntoView({block: "center"})
  word.focus()
  const box = meaning.getBoundingClientRect()
  const last = [...word.getClientRects()].pop()
  const over = [0.02, 0.5, 0.98].map(share => document.elementFromPoint(
    box.left + share * box.width, box.top + box.height / 2)).find(seen => seen !== meaning)
  const found = []
  if (over !== undefined) found.push(`under ${over?.outerHTML.slice(0, 80)}`)
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen")
  // From the word down to its meaning, the pointer never leaves both.
  for (let y = last.top + last.height / 2; y < box.top + 2; y += 0.5)
    if (document.elementFromPoint(last.left + last.width / 2, y)?.closest(".term") !== term) {
      found.push(`a gap of ${box.top - last.bottom} above it`)
      break
    }
  if (box.top < last.top + last.height / 2) found.push("over its word")
  if (box.width <= 150) found.push(`narrow: ${box.width}`)
  return found.map(problem => `${word.textContent}: ${problem}`)
})"""


def violations(page):
    """What axe finds, with the meaning of the first term shown."""
    page.wait_for_function(
        "[...document.querySelectorAll('nav.md-code__nav')].every(n => n.ariaLabel)"
    )
    if page.locator(".term").count():
        page.locator(".term-word").first.focus()
        page.wait_for_timeout(400)  # until its meaning has its full colour
    # What KaTeX draws is hidden from assistive technology, which reads the MathML beside it. Of
    # that axe knows nothing: it takes a header that is a formula for empty (see test_html.py).
    context = {"include": [["html"]], "exclude": [[".katex-html"]]}
    options = {
        "resultTypes": ["violations"],  # half the time, since it need not tell what is right
        "rules": {"empty-table-header": {"enabled": False}},
    }
    return [
        f"{violation['id']}: {node['target']} {node['html'][:150]}"
        for violation in Axe().run(page, context=context, options=options).response["violations"]
        for node in violation["nodes"][:3]
    ]


@pytest.mark.parametrize("path", WITH_SNIPPETS)
@in_both_languages
def test_copying_yields_exactly_the_tested_code(new_page, address, path, language):
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/{language}/{path}")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    # The page of claims shows tests, which have no file to be copied to.
    for block in page.locator("div.language-python:has(.filename)").all():
        title = block.locator(".filename").inner_text()
        block.locator("pre").hover()
        block.locator("button[title], .md-code__button").first.click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
        text = page.evaluate("navigator.clipboard.readText()")
        tested = SECTION.search((ROOT / title).read_text("utf-8"))[2]
        assert text.rstrip("\n") == tested.rstrip("\n"), title
        page.evaluate("navigator.clipboard.writeText('')")
