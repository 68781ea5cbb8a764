"""What every explorer owes, asked in a real browser.

A test module of one explorer names it, and says which states its numbers are compared in; the test
modules in this folder ask the rest of all that docs/explorers holds.
"""

import json
import math
import re
from urllib.parse import quote

import explorers

PLACES = explorers.places(explorers.ROOT / "docs" / "en")
NAMES = sorted({name for name, _ in PLACES})
LANGUAGES = ("pt", "en")
AWAKE = "name => !('asleep' in document.getElementById(`explorer-${name}`).dataset)"
# Whether it shows its state: one that has more to load is busy until then.
AT_REST = "name => !document.getElementById(`explorer-${name}`).ariaBusy"
# Each number that is shown, its exact value, and as it is written.
NUMBERS = """name => Array.from(
  document.getElementById(`explorer-${name}`).querySelectorAll("[data-name]"),
  node => [node.dataset.name, Number(node.dataset.value), node.textContent])"""
# As if the reader had gone to a view's address from another one; drawn in the frame that follows.
GO = """address => new Promise(done => {
  history.replaceState(null, "", address)
  dispatchEvent(new PopStateEvent("popstate"))
  requestAnimationFrame(() => requestAnimationFrame(done))
})"""


def page_of(name, is_small=False):
    """The address of an explorer's page below the language, with a slash at its end."""
    return PLACES[name, is_small]


def address_of(name, state):
    """What follows the page's address for a view."""
    return f"?{name}={quote(json.dumps(state))}"


def opened(new_page, address, name, language="en", state=None, is_small=False, **options):
    """A page on which an explorer is awake and in sight."""
    page = new_page(**options)
    query = address_of(name, state) if state is not None else ""
    page.goto(f"{address}/{language}/{page_of(name, is_small)}{query}")
    page.locator(f"#explorer-{name}").scroll_into_view_if_needed()
    page.wait_for_function(AWAKE, arg=name)
    return page


def numbers(page, name):
    page.wait_for_function(AT_REST, arg=name)
    return page.evaluate(NUMBERS, name)


def shown(page, name, state):
    """The numbers of an explorer in a state, which the address names."""
    page.evaluate(GO, address_of(name, state))
    return numbers(page, name)


def wrong(name, state, found, tolerance=1e-5):
    """What an explorer shows in a state that attnref does not say, or the other way round."""
    module = explorers.source(explorers.FOLDER / name)
    expected = module.values({**module.STATE, **state})
    problems = [f"{lost} is not shown" for lost in expected.keys() - {one[0] for one in found}]
    for key, value, text in found:
        if key not in expected:
            problems.append(f"{key} = {value} is shown, and attnref says nothing of it")
        elif not same(value, expected[key], tolerance):
            problems.append(f"{key} = {value}, and attnref says {expected[key]}")
        elif not reads_as(text, value):
            problems.append(f"{key} = {value} is written {text!r}")
    return sorted(set(problems))


def same(value, expected, tolerance):
    """Relative to the number, and to 1e-3 where that is smaller: near 0 it is rounding."""
    if value is None or math.isnan(value):
        return False
    if math.isinf(expected):
        return value == expected
    return abs(value - expected) <= tolerance * max(abs(expected), 1e-3)


def reads_as(text, value):
    """Whether a text begins with the number, rounded to the digits that it has."""
    if math.isinf(value):
        return text.startswith("∞" if value > 0 else "−∞")
    found = re.match(r"(−?)(\d+(?:\.(\d+))?)(?:e(-?\d+))?", text)
    if not found:
        return False
    power = int(found[4] or 0)
    read = float(found[2]) * 10**power * (-1 if found[1] else 1)
    return abs(read - value) <= 0.5001 * 10 ** (power - len(found[3] or ""))


def spoil(page, name, right, wrong, file="numbers.js"):
    """From now on the page gets one of the explorer's scripts with a mistake in it."""
    script = explorers.ROOT / "docs" / "shared" / "explorers" / name / file
    text = script.read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{script}: {right!r} is there {text.count(right)} times"
    body = text.replace(right, wrong)
    page.route(
        f"**/explorers/{name}/{file}",
        lambda route: route.fulfill(body=body, content_type="text/javascript"),
    )
