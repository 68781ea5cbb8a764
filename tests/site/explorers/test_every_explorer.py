"""What holds for every explorer, as book/stage/explorers.py finds them on the pages."""

import gzip
import io
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import expect

from book.stage import explorers
from tests.site.explorers import contract
from tests.site.explorers.contract import (
    AT_REST,
    LANGUAGES,
    NAMES,
    NARROW,
    WIDE,
    address_of,
    begin,
    find_wrong,
    module_of,
    numbers,
    page_of,
    problem,
    wake,
)
from tests.site.test_weight import SHIFTS

SCRIPTS = explorers.ROOT / "docs" / "shared" / "explorers"
IMPORT = re.compile(r'(?:from|import) ?\(?"(?P<path>\.{1,2}/[^"]+)"')
ONE, ALL = 25_000, 60_000  # bytes of script, compressed as a server sends it
by_name = pytest.mark.parametrize("name", NAMES)


def test_each_explorer_has_a_page_and_a_script_in_both_languages():
    folders = {path.name for path in explorers.FOLDER.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(NAMES)
    assert {path.parent.name for path in SCRIPTS.glob("*/view.js")} == set(NAMES)
    assert explorers.places(explorers.ROOT / "docs" / "pt") == contract.PLACES


# The explorers in Portuguese, in which English may have been left; in an audit, in both languages.
both_languages = pytest.mark.parametrize(
    "language", [LANGUAGES[0], pytest.param(LANGUAGES[1], marks=pytest.mark.audit)]
)


@both_languages
@by_name
def test_without_javascript_a_figure_and_a_table_stand_there(still, name, language):
    page = still(name, language, viewport=NARROW)
    explorer = page.locator(f"#explorer-{name}")
    for drawing in explorer.locator("svg:not([aria-hidden])").all():  # not a line of a legend
        assert drawing.is_visible()
        assert drawing.bounding_box()["height"] > 40
    for folded in explorer.locator("details:not(.explorer-program) > summary").all():
        folded.click()
    assert explorer.locator("svg").count()
    assert explorer.locator("table").first.is_visible()
    assert not explorer.locator(":is([name], button):visible").count()
    found = numbers(page, name)
    problems = find_wrong(name, {}, found)
    assert not [problem for problem in problems if not problem.endswith("is not shown")]
    assert len(found) >= 5
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


# What is drawn and can be seen: of each node its kind, places, sizes and text.
DRAWN = """root => Array.from(root.querySelectorAll("svg :not(tspan)"))
  .filter(node => node.getClientRects().length && node.checkVisibility({visibilityProperty: true}))
  .map(node => [node.tagName, ...["d", "x", "y", "cx", "cy", "width", "height", "transform",
    "stroke-width", "text-anchor"].map(name => `${name} ${node.getAttribute(name)}`),
    node.matches("text") ? node.textContent : ""].join(" "))"""
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def drawn(page, name):
    """Each node without its numbers, and these; in an order that does not depend on the script."""
    nodes = page.locator(f"#explorer-{name}").evaluate(DRAWN)
    found = [("".join(NUMBER.sub("#", one).split()), NUMBER.findall(one)) for one in nodes]
    return sorted(found, key=lambda node: (node[0], [float(number) for number in node[1]]))


def is_near(one, other):
    """Whether two written numbers differ by one unit of their last digit at most."""
    digits = max(len(each.partition(".")[2]) for each in (one, other))
    return abs(float(one) - float(other)) <= 1.001 * 10**-digits


@pytest.mark.parametrize(("name", "is_small"), contract.PLACES)
def test_the_drawing_is_the_same_before_and_after_the_script(still, visit, name, is_small):
    """The template and the script draw it each in its own way: neither may differ."""
    before = drawn(still(name, is_small=is_small, viewport=WIDE), name)
    after = drawn(visit(name, is_small=is_small), name)
    assert [kind for kind, _ in before] == [kind for kind, _ in after]
    assert len(before) >= (6 if is_small else 30)
    for (kind, one), (_, other) in zip(before, after, strict=True):
        assert all(map(is_near, one, other)), (kind, one, other)


HEIGHT = "name => document.getElementById(`explorer-${name}`).getBoundingClientRect().height"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Laying it out asks for fonts that nothing asked for before, and their letters lay it out again.
LETTERS = f"{FRAMES}.then(() => document.fonts.ready).then(() => {FRAMES})"
# What a reader of the explorer sees and hears, but for what is typed and for programs.
WORDS = """name => {
  const root = document.getElementById(`explorer-${name}`), found = new Set()
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode
    if (!parentElement.closest("script, code, pre, textarea")) found.add(data)
  }
  const said = ["aria-label", "aria-valuetext", "title"]
  for (const node of root.querySelectorAll(said.map(one => `[${one}]`).join()))
    for (const one of said) found.add(node.getAttribute(one) ?? "")
  return [...found].filter(text => /[a-z]{2}/i.test(text))
}"""


def heights(page, name):
    """How high it is in each width; the page keeps the last one."""
    found = []
    for size in (WIDE, NARROW)[:: 1 if page.viewport_size == WIDE else -1]:
        page.set_viewport_size(size)
        page.evaluate(LETTERS)
        found.append(page.evaluate(HEIGHT, name))
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    return found


def spoken(name, language):
    """The texts of an explorer in a language, and the words that it shows first."""
    folder, module = explorers.FOLDER / name, module_of(name)
    for path in (explorers.FOLDER / "texts.yml", folder / "texts.yml"):
        yield from explorers.read_texts(path, language).values()
    first = {**module.STATE, **getattr(module, "SPOKEN", {}).get(language, {})}
    yield from (word for word in first.get("words", ()))


def english(name, words):
    """Those of the words in which a text of the explorer is that Portuguese does not have."""
    texts, others = (set(spoken(name, language)) for language in ("en", "pt"))

    def found(texts):
        wholes = (re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in texts)
        some = re.compile(rf"(?<![\w-])(?:{'|'.join(wholes)})(?![\w-])")
        return {word for word in words if some.search(word)}

    return found(texts - others) - found(others - texts)


@both_languages
@by_name
def test_its_page(first_page, address, name, language):
    """Nothing moves when the script comes; it fits, and speaks the language of the page.

    What else is asked of a page is asked with the explorer awake in test_every_page.py.
    """
    turn = NAMES.index(name) % 2
    page = first_page()
    page.set_viewport_size((WIDE, NARROW)[turn])
    page.add_init_script(SHIFTS)
    held = []
    page.route("**/explorers/**/view.js", lambda route: held.append(route))
    page.goto(f"{address}/{language}/{page_of(name)}")
    for _ in range(300):  # it may have been asked for while the page was loading, or the explorer
        if held:  # have moved away again as the parts above it took their height
            break
        page.locator(f"#explorer-{name}").scroll_into_view_if_needed()
        page.evaluate(FRAMES)
    assert held, "the script of the explorer is not asked for"
    asleep = heights(page, name)
    before = page.evaluate("shifted")
    for route in held:
        route.continue_()
    wake(page, name)
    page.wait_for_function(AT_REST, arg=name)
    page.evaluate(FRAMES)
    assert page.evaluate("shifted") == before
    awake = heights(page, name)
    for _ in range(20):  # what observes sizes may answer a change of width some frames later
        if awake == pytest.approx(asleep[::-1], abs=1):
            break
        awake = heights(page, name)[::-1]
        page.set_viewport_size((WIDE, NARROW)[turn])
    assert awake == pytest.approx(asleep[::-1], abs=1)

    assert next(pressed(page, name))
    words = page.evaluate(WORDS, name)
    assert len(words) > 10
    if language == "pt":
        assert english(name, words) == set()


# Gets ready to press the key that changes a control: its label, its kind, and that key if any.
KEY = """([name, place]) => {
  const root = document.getElementById(`explorer-${name}`)
  const node = root.querySelectorAll("[name]")[place]
  if (!node?.checkVisibility({visibilityProperty: true}) || node.disabled) return null
  root.querySelector("[role=status]").replaceChildren()
  node.focus()
  const isAtEnd = Number(node.value) >= Number(node.max)
  const keys = {
    range: isAtEnd ? "ArrowLeft" : "ArrowRight", number: "ArrowUp", checkbox: " ",
    "select-one": "ArrowDown", radio: node.checked ? null : " ",
  }
  return [node.ariaLabel ?? node.labels?.[0]?.innerText, node.type, keys[node.type]]
}"""
SAID = """name => {
  const root = document.getElementById(`explorer-${name}`)
  return /\\w{2}/.test(root.querySelector("[role=status]").textContent)
}"""


def pressed(page, name, is_each=False):
    """Changes a control of each kind, or each control, by a key: its label, when that is said."""
    seen = set()
    for place in range(page.locator(f"#explorer-{name} [name]").count()):
        page.wait_for_function(AT_REST, arg=name)
        label, kind, key = page.evaluate(KEY, [name, place]) or ("not to be changed", None, None)
        assert label
        if key and (is_each or kind not in seen):
            seen.add(kind)
            page.keyboard.press(key)
            page.wait_for_function(SAID, arg=name)
            yield label


@pytest.mark.parametrize(("name", "is_small"), contract.PLACES)
def test_each_control_has_a_label_and_what_it_changes_is_said(request, visit, name, is_small):
    page = visit(name, is_small=is_small)
    first = page.url
    for label in pressed(page, name, is_each=request.config.getoption("--audit")):
        assert problem(page, name).text_content() == "", label
    assert page.url != first
    if is_small:  # what was changed is seen in the whole one, too
        page.wait_for_function(AT_REST, arg=name)
        page.evaluate("addEventListener('click', event => event.preventDefault(), {once: true})")
        whole = page.locator(f"#explorer-{name} .explorer-whole")
        whole.click()
        _, _, path, query, _ = urlsplit(whole.evaluate("link => link.href"))
        assert path.endswith(f"/en/{page_of(name)}")
        assert query == urlsplit(page.url).query


# Of a field and what is said to be wrong with it, and whether both are in sight.
PLACES = """field => {
  const root = field.closest(".explorer")
  const [typed, told] = [field, root.querySelector(".explorer-problem")]
    .map(node => node.getBoundingClientRect())
  return [told.top - typed.bottom, told.left >= 0 && told.right <= innerWidth]
}"""


@by_name
def test_what_is_wrong_is_said_beside_the_field(visit, name):
    page = visit(name)
    fields = page.locator(f"#explorer-{name} :is(input:is([type=number], [type=text]), textarea)")
    fields = fields.locator("visible=true")
    told = 0
    for field in fields.all():
        if field.is_disabled():
            continue
        field.fill("99999999" if field.get_attribute("type") == "number" else "é " * 12)
        expect(problem(page, name)).not_to_have_text("")
        expect(field).to_have_attribute("aria-invalid", "true")
        for size in (NARROW, WIDE):
            page.set_viewport_size(size)
            below, is_in_sight = field.evaluate(PLACES)
            assert 0 <= below < 60, (field.evaluate("node => node.outerHTML"), size)
            assert is_in_sight, size
        begin(page, name, {})
        expect(problem(page, name)).to_have_text("")
        expect(field).not_to_have_attribute("aria-invalid", "true")
        told += 1
    assert told


@by_name
def test_a_view_is_shared_by_its_address(visit, new_page, bare, name):
    page = visit(name)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert next(pressed(page, name))
    page.wait_for_function(AT_REST, arg=name)
    page.click(f"#explorer-{name} [data-do=share]")
    page.wait_for_function(
        "navigator.clipboard.readText().then(text => text.includes('#explorer-'))"
    )
    link = page.evaluate("navigator.clipboard.readText()")
    before = numbers(page, name)
    assert link.partition("?")[0] == page.url.partition("?")[0]
    there = bare(new_page(), name, query=f"?{urlsplit(link).query}#{urlsplit(link).fragment}")
    assert numbers(there, name) == before
    state = json.loads(parse_qs(urlsplit(link).query)[name][0])
    assert find_wrong(name, state, before) == []
    page.click(f"#explorer-{name} [data-do=reset]")
    page.wait_for_function("!location.search")


FRACTIONS = (
    "bandwidth",
    "own",
    "parameters",
    "shift",
    "speed",
    "temperature",
)  # need not be whole numbers


@by_name
def test_a_damaged_address_shows_the_first_view_and_says_why(visit, name):
    page = visit(name)

    def told(query):
        begins = "The address holds a view that cannot be shown, so this is the first one. "
        expect(problem(page, name)).to_have_text(re.compile(re.escape(begins) + ".+"))
        assert find_wrong(name, {}, numbers(page, name)) == [], query
        return problem(page, name).inner_text().removeprefix(begins)

    for query in ("[]", "%7B%22unheard%22:1%7D", "null"):
        page.evaluate(contract.BEGIN, [name, f"?{name}={query}"])
        assert "{" not in told(query)
    whys = []
    for key, value in module_of(name).STATE.items():
        wrongs = [None]
        if isinstance(value, int | float) and not isinstance(value, bool):
            wrongs += [1e9, -1e9] if key in FRACTIONS else [1e9, -1e9, value + 0.5]
        for each in wrongs:
            page.evaluate(contract.BEGIN, [name, address_of(name, {key: each})])
            whys.append(told(key))
            assert not re.search(r"undefined|\{", whys[-1])
    assert len(set(whys)) == len(whys)
    labels = {why.partition(":")[0] for why in whys}
    # Each names what is wrong; the scores of the blockwise explorer are chosen and edited.
    assert len(labels) >= len(module_of(name).STATE) - (name == "blockwise"), labels
    if name == NAMES[0]:  # the scripts that all begin with are the same
        page.goto(page.url.partition("?")[0] + address_of(name, {key: None}))  # from the beginning
        wake(page, name)
        told(key)


def scripts_of(name):
    """The files that an explorer loads."""
    found, more = set(), [SCRIPTS / "start.js", SCRIPTS / name / "view.js"]
    while more:
        path = more.pop().resolve()
        if path not in found:
            found.add(path)
            text = path.read_text(encoding="utf-8")
            more += [path.parent / match["path"] for match in IMPORT.finditer(text)]
    return found


def test_the_scripts_are_light(site):
    def compressed(paths):
        served = [site / "en" / "explorers" / path.relative_to(SCRIPTS) for path in paths]
        return sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in served)

    sizes = {name: compressed(scripts_of(name)) for name in NAMES}
    assert max(sizes.values()) <= ONE, sizes
    everything = set(SCRIPTS.rglob("*.js"))
    assert compressed(everything) <= ALL
    assert everything == set().union(*map(scripts_of, NAMES)), "no explorer loads these"


BORDERS = """name => Array.from(document.querySelectorAll(`#explorer-${name} button`),
  node => getComputedStyle(node).borderTopStyle)"""


def ground_and_kinds(picture):
    """The share of the commonest colour, and how many cover at least one pixel in two hundred."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    counts = [count for count, _ in image.getcolors(image.width * image.height)]
    return max(counts) / sum(counts), sum(count > sum(counts) / 200 for count in counts)


@by_name
def test_it_can_be_seen_in_forced_colours(visit, name):
    """What is transparent stays so, and kinds that differ in colour still do."""
    page, pictures = visit(name), []
    for forced in ("none", "active"):
        page.emulate_media(forced_colors=forced)
        page.evaluate(FRAMES)
        drawings = page.locator(f"#explorer-{name} svg:not([aria-hidden])").all()
        wide = [one for one in drawings if (one.bounding_box() or {"width": 0})["width"] > 150]
        pictures.append([ground_and_kinds(one.screenshot()) for one in wide])
        assert set(page.evaluate(BORDERS, name)) == {"solid"}
    page.emulate_media(forced_colors="none")
    assert pictures[0]
    for (ground, kinds), (forced_ground, forced_kinds) in zip(*pictures, strict=True):
        assert forced_ground == pytest.approx(ground, abs=0.15)
        assert forced_kinds >= min(kinds, 3)


def test_its_sheet_of_rules_has_its_own_alone():
    """Shared rules name no explorer, and those of one no other."""
    for sheet in SCRIPTS.rglob("*.css"):
        others = "|".join(set(NAMES) - {sheet.parent.name})
        foreign = re.compile(rf"(?:\.|explorer-|explorer=\"?)({others})\b")
        assert not foreign.findall(sheet.read_text("utf-8")), sheet
