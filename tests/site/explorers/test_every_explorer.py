"""What holds for every explorer, as docs/hooks/explorers.py finds them on the pages."""

import gzip
import io
import json
import re
from urllib.parse import parse_qs, urlsplit

import contract
import explorers
import pytest
from contract import AWAKE, LANGUAGES, NAMES, address_of, numbers, opened, page_of, wrong
from PIL import Image
from test_every_page import PROBLEMS, listen, violations
from test_weight import SHIFTS

SCRIPTS = explorers.ROOT / "docs" / "shared" / "explorers"
IMPORT = re.compile(r'(?:from|import) ?\(?"(?P<path>\.{1,2}/[^"]+)"')
ONE, ALL = 25_000, 60_000  # bytes of script, compressed as a server sends it
WIDTHS = (360, 1280)
by_name = pytest.mark.parametrize("name", NAMES)


def test_each_explorer_has_a_page_and_a_script():
    folders = {path.name for path in explorers.FOLDER.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(NAMES)
    assert {path.parent.name for path in SCRIPTS.glob("*/view.js")} == set(NAMES)


@pytest.mark.parametrize("language", LANGUAGES)
@by_name
def test_without_javascript_a_figure_and_a_table_stand_there(new_page, address, name, language):
    page = new_page(java_script_enabled=False, viewport={"width": 360, "height": 740})
    page.goto(f"{address}/{language}/{page_of(name)}")
    explorer = page.locator(f"#explorer-{name}")
    for drawing in explorer.locator("svg:not([aria-hidden])").all():  # not a line of a legend
        assert drawing.is_visible()
        assert drawing.bounding_box()["height"] > 40
    for folded in explorer.locator("details:not(.explorer-program) > summary").all():
        folded.click()
    assert explorer.locator("svg").count()
    assert explorer.locator("table").first.is_visible()
    for gone in ("[name]", "button"):
        assert not [one for one in explorer.locator(gone).all() if one.is_visible()]
    problems = wrong(name, {}, numbers(page, name))
    assert not [problem for problem in problems if not problem.endswith("is not shown")]
    assert len(numbers(page, name)) >= 5
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("language", LANGUAGES)
@by_name
def test_it_is_as_high_asleep_as_awake(new_page, address, name, language, width):
    """So that nothing on the page moves when its script has come."""
    page = new_page(viewport={"width": width, "height": 740})
    page.add_init_script(SHIFTS)
    held = []
    page.route("**/explorers/**/view.js", lambda route: held.append(route))
    page.goto(f"{address}/{language}/{page_of(name)}")
    explorer = page.locator(f"#explorer-{name}")
    explorer.scroll_into_view_if_needed()
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(300)
    asleep = explorer.bounding_box()["height"]
    before = page.evaluate("shifted")
    assert held
    for route in held:
        route.continue_()
    page.wait_for_function(AWAKE, arg=name)
    page.wait_for_timeout(300)
    assert explorer.bounding_box()["height"] == pytest.approx(asleep, abs=1)
    assert page.evaluate("shifted") == before


@pytest.mark.parametrize("view", [("light", 1280), ("dark", 360)])
@by_name
def test_it_is_accessible_fits_and_says_nothing_on_the_console(new_page, address, name, view):
    scheme, width = view
    page = new_page(color_scheme=scheme, viewport={"width": width, "height": 740})
    noise = listen(page, address)
    language = LANGUAGES[width == 360]
    page.goto(f"{address}/{language}/{page_of(name)}{address_of(name, {})}")
    page.wait_for_function(AWAKE, arg=name)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_load_state("networkidle")
    assert {about: told for about, told in page.evaluate(PROBLEMS).items() if told} == {}
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert noise == []


def changed_by_keyboard(control):
    """Presses the key that changes a control; whether there is one."""
    kind = control.evaluate("node => node.type")
    keys = {"range": "ArrowRight", "number": "ArrowUp", "checkbox": " ", "select-one": "ArrowDown"}
    if kind == "radio" and not control.is_checked():
        keys["radio"] = " "
    if kind not in keys:
        return False
    if kind == "range":
        at_end = control.evaluate("node => Number(node.value) >= Number(node.max)")
        keys["range"] = "ArrowLeft" if at_end else "ArrowRight"
    control.focus()
    control.page.keyboard.press(keys[kind])
    return True


@by_name
def test_each_control_has_a_label_and_what_it_changes_is_said(new_page, address, name):
    page = opened(new_page, address, name)
    controls = page.locator(f"#explorer-{name} [name]")
    first = page.url
    pressed = 0
    for control in controls.all():
        if not control.is_visible() or control.is_disabled():
            continue
        assert control.evaluate("n => n.getAttribute('aria-label') || n.labels?.[0]?.innerText")
        said = page.locator(f"#explorer-{name} [role=status]")
        said.evaluate("node => node.replaceChildren()")
        if not changed_by_keyboard(control):
            continue
        pressed += 1
        said.filter(has_text=re.compile(r"\w{2}")).wait_for()
        assert page.locator(f"#explorer-{name} .explorer-problem").text_content() == ""
    assert pressed
    assert page.url != first


@by_name
def test_a_view_is_shared_by_its_address(new_page, address, name):
    page = opened(new_page, address, name)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for control in page.locator(f"#explorer-{name} [name]").all():
        if control.is_visible() and changed_by_keyboard(control):
            break
    page.click(f"#explorer-{name} [data-do=share]")
    page.wait_for_function(
        "navigator.clipboard.readText().then(text => text.includes('#explorer-'))"
    )
    link = page.evaluate("navigator.clipboard.readText()")
    before = numbers(page, name)
    there = new_page()
    there.goto(link)
    there.wait_for_function(AWAKE, arg=name)
    assert numbers(there, name) == before
    state = json.loads(parse_qs(urlsplit(link).query)[name][0])
    assert wrong(name, state, before) == []
    page.click(f"#explorer-{name} [data-do=reset]")
    page.wait_for_function("!location.search")


@pytest.mark.parametrize("query", ["%7B", "[]", "%7B%22unheard%22:1%7D", "null"])
@by_name
def test_a_damaged_address_shows_the_first_view_and_says_why(new_page, address, name, query):
    page = new_page()
    page.goto(f"{address}/en/{page_of(name)}?{name}={query}")
    page.wait_for_function(AWAKE, arg=name)
    problem = page.inner_text(f"#explorer-{name} .explorer-problem")
    assert problem.startswith("The address holds a view that cannot be shown")
    assert "{" not in problem
    assert wrong(name, {}, numbers(page, name)) == []


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
def test_it_can_be_seen_in_forced_colours(new_page, address, name):
    """What is transparent stays so, and kinds that differ in colour still do."""
    pictures = []
    for forced in ("none", "active"):
        page = opened(new_page, address, name, forced_colors=forced, color_scheme="dark")
        drawings = page.locator(f"#explorer-{name} svg:not([aria-hidden])").all()
        wide = [one for one in drawings if (one.bounding_box() or {"width": 0})["width"] > 150]
        pictures.append([ground_and_kinds(one.screenshot()) for one in wide])
        assert set(page.evaluate(BORDERS, name)) == {"solid"}
    assert pictures[0]
    for (ground, kinds), (forced_ground, forced_kinds) in zip(*pictures, strict=True):
        assert forced_ground == pytest.approx(ground, abs=0.15)
        assert forced_kinds >= min(kinds, 3)


@by_name
def test_its_sheet_of_rules_has_its_own_alone(name):
    """Shared rules name no explorer, and those of one no other."""
    others = "|".join(set(NAMES) - {name})
    foreign = re.compile(rf"(?:\.|explorer-|explorer=\"?)({others})\b")
    assert not foreign.findall((SCRIPTS / name / "style.css").read_text("utf-8"))
    assert not foreign.findall((SCRIPTS / "explorers.css").read_text("utf-8"))


def test_every_explorer_is_in_both_languages():
    assert explorers.places(explorers.ROOT / "docs" / "pt") == contract.PLACES
