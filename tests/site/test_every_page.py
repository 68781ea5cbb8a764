"""Each page in a real browser, in one language and one view; some in both, and seen by axe."""

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
SIZES = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 360, "height": 740}}
VIEWS = ("light-wide", "dark-narrow")
LANGUAGES = ("pt", "en")
KINDS = re.compile(r'<([a-z]\w*)|\bclass="([^"]*)"')


@pytest.fixture(scope="module")
def page(browser, address):
    """One for all visits, so that what the pages share is loaded once; and what it says."""
    context = browser.new_context(base_url=address, reduced_motion="reduce", color_scheme="light")
    page = context.new_page()
    page.noise = listen(page, address)
    yield page
    context.close()


@pytest.fixture(scope="module")
def telling(request, site):
    """The pages which together have all tags and classes that there are; in an audit, all pages."""
    if request.config.getoption("--audit"):
        return set(PATHS)
    kinds = {
        path: {kind for tag, names in KINDS.findall(html) for kind in (tag, *names.split())}
        for path in PATHS
        for html in [(site / "en" / path / "index.html").read_text("utf-8")]
    }
    left, chosen = set().union(*kinds.values()), set()
    while left:
        chosen.add(most := max(PATHS, key=lambda path: len(kinds[path] & left)))
        left -= kinds[most]
    return chosen


def test_every_page_of_the_site_is_listed_here(site):
    built = {
        path.parent.relative_to(site / "en").as_posix().replace(".", ""): path.read_text("utf-8")
        for path in (site / "en").rglob("index.html")
    }
    assert built.keys() == {path.rstrip("/") for path in PATHS}
    showing = {path for path, html in built.items() if 'class="filename"' in html}
    assert showing == {path.rstrip("/") for path in WITH_SNIPPETS}


# Both languages have one skeleton, so each page is visited in one of them; in an audit, in both.
FIRST = {path: LANGUAGES[number // 2 % 2] for number, path in enumerate(PATHS)}
VISITS = [
    pytest.param(
        path,
        language,
        marks=() if language == FIRST[path] else pytest.mark.audit,
        id=f"{language}-{path}",
    )
    for path in PATHS
    for language in LANGUAGES
]


@pytest.mark.parametrize(("path", "language"), VISITS)
def test_page(page, telling, path, language):
    """One visit for all that is asked of each page, since loading is what takes time."""
    page.noise.clear()
    page.goto(f"/{language}/{path}")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate("document.fonts.ready")
    for explorer in page.locator(".explorer").all():  # its script comes when it is near
        explorer.scroll_into_view_if_needed()
    page.wait_for_function("!document.querySelector('.explorer[data-asleep]')")
    # The theme keeps the chosen colours, so pages that follow one another have the same.
    turn = PATHS.index(path) // 4 % 2
    views = (
        VIEWS[:: -1 if turn else 1] if path in telling else [f"{('light', 'dark')[turn]}-narrow"]
    )
    problems = {}
    for view in views:
        show(page, view)
        found = page.evaluate(PROBLEMS)
        problems |= {f"{view}, {about}": told for about, told in found.items()}
    # Axe is slow, so it sees a page once, in one view; the rules that depend on the view are asked
    # without it.
    if path in telling and language == FIRST[path]:
        problems[f"{view}, accessibility"] = violations(page)
    page.wait_for_load_state("networkidle")
    problems["console and network"] = page.noise
    assert not {about: told for about, told in problems.items() if told}


def test_the_theme_follows_the_system(new_page, address):
    page = new_page(color_scheme="dark")  # it is light where all else is tested
    page.goto(f"{address}/en/")
    page.wait_for_function("document.body.dataset.mdColorScheme === 'slate'")


def show(page, view):
    """The page in a view: the window as large, and the colours by the theme's own switch."""
    scheme, size = view.split("-")
    if page.viewport_size != SIZES[size]:
        page.set_viewport_size(SIZES[size])
    page.evaluate(IN_COLOURS, {"light": "default", "dark": "slate"}[scheme])


def listen(page, address):
    """A list that fills with what a page says on the console, and with requests that are wrong.

    What is still on its way when the reader goes to another page is aborted: that is no fault.
    """
    noise = []
    page.on("request", lambda r: noise.append(r.url) if not r.url.startswith(address) else None)
    page.on("console", lambda m: noise.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on(
        "requestfailed",
        lambda r: None if r.failure == "net::ERR_ABORTED" else noise.append(f"failed: {r.url}"),
    )
    page.on("response", lambda r: noise.append(f"{r.status} {r.url}") if r.status > 399 else None)
    return noise


AT_REST = "document.getAnimations().forEach(animation => animation.finish())"
# What observes sizes is told of them in the frame that follows; colours that change do so at once.
IN_COLOURS = """async theme => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)))
  const shown = () => document.body.dataset.mdColorScheme === theme &&
    !("mdColorSwitching" in document.body.dataset)
  if (!shown()) document.querySelector("label[for^=__palette]:not([hidden])").click()
  do await frame(); while (!shown())
  document.getAnimations().forEach(animation => animation.finish())
}"""

WIDER_THAN_THE_SCREEN = """() => {
  const {scrollWidth} = document.documentElement
  return scrollWidth > innerWidth ? scrollWidth : null
}"""

# As WCAG reckons it: 4.5 for text, 3 for large text. Formulas and figures have colours of the text.
TOO_LITTLE_CONTRAST = """() => {
  const parts = colour => {
    const [r, g, b, alpha = 1] = colour.match(/[\\d.]+/g).map(Number)
    const whole = colour.startsWith("color(srgb") ? 255 : 1  // as a mixed colour is told
    return [r * whole, g * whole, b * whole, alpha]
  }
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i])
  const luminance = colour => {
    const [r, g, b] = colour.map(c => c / 255).map(
      c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const known = new Map()
  const ground = node => {  // null behind an image, which may have any colour
    if (!node) return [255, 255, 255]
    if (!known.has(node)) {
      const style = getComputedStyle(node), below = ground(node.parentElement)
      const image = style.backgroundImage !== "none" || style.maskImage !== "none"
      known.set(node, below && !image ? over(parts(style.backgroundColor), below) : null)
    }
    return known.get(node)
  }
  const share = new Map()
  const opacity = node => {  // with that of all around it
    if (!node) return 1
    if (!share.has(node))
      share.set(node, getComputedStyle(node).opacity * opacity(node.parentElement))
    return share.get(node)
  }
  const found = new Set(), seen = new Set()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement
    if (seen.has(node) || !walker.currentNode.data.trim()) continue
    seen.add(node)
    if (node.closest("svg, .katex, script, style, noscript, [inert]")) continue
    if (!node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue
    const style = getComputedStyle(node), below = ground(node)
    if (!below) continue
    const [r, g, b, alpha] = parts(style.color)
    const ink = over([r, g, b, alpha * opacity(node)], below)
    const pair = [luminance(ink), luminance(below)]
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)
    const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700
    const enough = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5
    if (ratio < enough - 0.005)
      found.add(`${node.outerHTML.slice(0, 100)}: ${ratio.toFixed(2)}, not ${enough}`)
  }
  return [...found]
}"""

# What scrolls must be reached by the Tab key: itself, or something in it.
SCROLLED_BY_POINTER_ONLY = """() => [...document.querySelectorAll("article, article *")].filter(
  node => /auto|scroll/.test(getComputedStyle(node).overflowX) &&
    node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0 && node.tabIndex < 0 &&
    !node.querySelector("a[href], button, input, [tabindex='0']")
).map(node => node.outerHTML.slice(0, 100))"""

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


PROBLEMS = f"""() => ({{
  "wider than the screen": ({WIDER_THAN_THE_SCREEN})(),
  "figures": ({PROBLEMS_OF_FIGURES})(),
  "contrast": ({TOO_LITTLE_CONTRAST})(),
  "out of the keyboard's reach": ({SCROLLED_BY_POINTER_ONLY})(),
  "meanings of terms": ({MEANINGS_NOT_SEEN_WHOLE})(),
}})"""


# Half of the nodes of a page are letters that KaTeX places and words of code that have a colour.
# What KaTeX draws is hidden from assistive technology, which reads the MathML beside it; of neither
# axe knows a thing, and takes a header that is a formula for empty (see test_html.py). Contrast is
# asked of each view, and takes axe most of its time: links in text are told by their style alone.
VIOLATIONS = """async () => {
  for (const formula of document.querySelectorAll(".katex")) formula.textContent = "formula"
  for (const word of document.querySelectorAll("pre code span")) {
    const onlyColoured = word.getAttributeNames().every(name => name === "class")
    if (onlyColoured) word.replaceWith(...word.childNodes)
  }
  axe.configure({rules: [{id: "link-in-text-block", any: ["link-in-text-block-style"]}]})
  const {violations} = await axe.run({include: ["html"], exclude: [".katex"]}, {
    reporter: "no-passes",
    rules: {
      "empty-table-header": {enabled: false}, "color-contrast": {enabled: false},
      "target-size": {enabled: true},
    },
  })
  return violations.flatMap(({id, nodes}) =>
    nodes.slice(0, 3).map(({target, html}) => `${id}: ${target} ${html.slice(0, 150)}`))
}"""


def violations(page):
    """What axe finds, with the meaning of the first term shown. It leaves the page changed."""
    if page.locator(".term").count():
        page.locator(".term-word").first.focus()
        page.evaluate(AT_REST)  # with its full colour
    page.evaluate(Axe().axe_script)
    return page.evaluate(VIOLATIONS)


@pytest.mark.parametrize(
    ("language", "path"),
    [
        ("pt", "foundations/six-words/"),
        pytest.param("en", "foundations/masks/", marks=pytest.mark.audit),
    ],
)
def test_the_button_copies_what_the_page_shows(new_page, address, path, language):
    """That this is the tested code is asked of all pages in test_html.py."""
    page = new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/{language}/{path}")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    blocks = page.locator("div.language-python:has(.filename)").all()
    assert len(blocks) > 1
    for block in blocks:
        block.locator("pre").hover()
        block.locator(".md-code__button").click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.rstrip("\n") == block.locator("code").text_content().rstrip("\n")
        page.evaluate("navigator.clipboard.writeText('')")
