"""What every explorer owes, asked in a real browser.

A test module of one explorer names it, and says which states its numbers are compared in; the test
modules in this folder ask the rest of all that docs/explorers holds.
"""

import contextlib
import io
import json
import math
import re
from functools import cache
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from selectolax.lexbor import LexborHTMLParser

from book.stage import explorers

PLACES = explorers.places(explorers.ROOT / "docs" / "en")
NAMES = sorted({name for name, _ in PLACES})
LANGUAGES = ("pt", "en")
SHARED = ("assets", "explorers", "fonts", "math", "style")  # the folders that all pages load from
WIDE, NARROW = {"width": 1280, "height": 1400}, {"width": 360, "height": 1400}
AWAKE = "name => !('asleep' in document.getElementById(`explorer-${name}`).dataset)"
# Nothing is to come any more: it says what is due, and is busy while it loads what it needs.
AT_REST = """name => {
  const { dataset, ariaBusy } = document.getElementById(`explorer-${name}`)
  return !("asleep" in dataset || dataset.due || ariaBusy)
}"""
# Each number that is shown, its exact value, and as it is written; once none is due.
NUMBERS = """name => {
  const root = document.getElementById(`explorer-${name}`)
  return root.dataset.due !== "numbers" && !root.ariaBusy && Array.from(
    root.querySelectorAll("[data-name]"),
    node => [node.dataset.name, Number(node.dataset.value), node.textContent])
}"""
# The explorer as if the reader had just come to a view's address.
BEGIN = """([name, address]) => {
  const root = document.getElementById(`explorer-${name}`)
  document.activeElement?.blur()
  for (const folded of root.querySelectorAll("details[open]")) folded.open = false
  root.querySelector("[role=status]").textContent = ""
  history.replaceState(null, "", address)
  dispatchEvent(new PopStateEvent("popstate"))
}"""
# As if the reader had gone from each address to the next: of each its numbers, and what else is
# asked of the explorer. What is not seen takes no time to be laid out and painted.
WALK = """async ([name, addresses, isSeen, numbers, also]) => {
  const shown = eval(numbers), asked = eval(also), all = []
  const root = document.getElementById(`explorer-${name}`)
  if (!isSeen) root.style.contentVisibility = "hidden"
  const frame = () => new Promise(done => requestAnimationFrame(done))
  for (const address of addresses) {
    history.replaceState(null, "", address)
    dispatchEvent(new PopStateEvent("popstate"))
    let found, frames = 0
    while (!(found = shown(name))) {
      if (frames++ > 600) throw new Error(`nothing is shown at ${address}`)
      await frame()
    }
    all.push([found, asked(root)])
  }
  root.style.contentVisibility = ""
  return all
}"""
# Of what stands in the address.
NOTED = """name => JSON.parse(new URL(location.href).searchParams.get(name) ?? "{}")"""
BECOMES = """([name, key, value, within]) => {
  const found = document.querySelector(`#explorer-${name} [data-name="${key}"]`)?.dataset.value
  return Number(found) === value || Math.abs(Number(found) - value) <= within
}"""


def first_and_more(first, *more):
    """What parametrizes a test: the first at each landing, and the others in an audit."""
    return [first, *(pytest.param(*one, marks=pytest.mark.audit) for one in more)]


def page_of(name, is_small=False):
    """The address of an explorer's page below the language, with a slash at its end."""
    return PLACES[name, is_small]


def module_of(name):
    return explorers.source(explorers.FOLDER / name)


def address_of(name, state):
    """What follows the page's address for a view."""
    return f"?{name}={quote(json.dumps(state))}"


def strip_page(html, name):
    """A page with no text but the explorer, and no scripts but its own."""
    tree = LexborHTMLParser(html)
    kept = tree.css_first(f"#explorer-{name}").html
    for script in tree.css("script"):
        if "explorers/start.js" not in script.attributes.get("src", ""):
            script.decompose()
    article = tree.css_first("article")
    for node in list(article.iter(include_text=True)):
        node.decompose()
    return tree.html.replace("</article>", f"{kept}</article>", 1)


def wake(page, name):
    page.locator(f"#explorer-{name}").scroll_into_view_if_needed()
    page.wait_for_function(AWAKE, arg=name)


def begin(page, name, state):
    """The page as it is when one comes to a view, whatever was done to it before."""
    page.mouse.up()
    page.mouse.move(0, 0)
    page.wait_for_function(AT_REST, arg=name)
    page.evaluate(BEGIN, [name, address_of(name, state)])
    page.wait_for_function(AT_REST, arg=name)


def numbers(page, name):
    return page.wait_for_function(NUMBERS, arg=name).json_value()


def walk(page, name, states, also="root => null", is_seen=False):
    """Each state with the numbers of the explorer in it, and what else is asked in JavaScript."""
    states = list(states)
    addresses = [address_of(name, state) for state in states]
    found = page.evaluate(WALK, [name, addresses, is_seen, f"({NUMBERS})", f"({also})"])
    return [(state, *one) for state, one in zip(states, found, strict=True)]


def shown_numbers(page, name, state):
    """The numbers of an explorer in a state, which the address names."""
    return walk(page, name, [state])[0][1]


def settle(page, name):
    """What is noted in the address, once there is something, and nothing is to come any more."""
    page.wait_for_function(f"name => location.search && ({AT_REST})(name)", arg=name)
    return page.evaluate(NOTED, name)


def becomes(page, name, key, value, within=1e-9):
    """Waits until a number is shown that is so large."""
    page.wait_for_function(BECOMES, arg=[name, key, value, within])


def problem(page, name):
    """Where it says what is wrong."""
    return page.locator(f"#explorer-{name} .explorer-problem")


def assert_refused(page, name, views):
    """Each state of an address is refused for its reason, and the first view is shown."""
    for state, why in views:
        page.evaluate(BEGIN, [name, address_of(name, state)])
        expect(problem(page, name)).to_contain_text(f"so this is the first one. {why}")
        assert find_wrong(name, {}, numbers(page, name)) == [], state


def walk_programs(page, name, states, also="root => null"):
    """Each state with its numbers, what its program prints, and what else is asked."""
    page.click(f"#explorer-{name} .explorer-program summary")
    asked = (
        f"""root => [root.querySelector(".explorer-program code").textContent, ({also})(root)]"""
    )
    for state, found, (code, more) in walk(page, name, states, asked):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "program", "exec"), {})
        yield state, {key: value for key, value, _ in found}, printed.getvalue(), more


@cache
def expected_numbers(name, state):
    """The numbers that attnref says of a state, as JSON: to reckon them may take long."""
    module = module_of(name)
    return module.values({**module.STATE, **json.loads(state)})


def find_wrong(name, state, found, tolerance=1e-5):
    """What an explorer shows in a state that attnref does not say, or the other way round."""
    expected = expected_numbers(name, json.dumps(state))
    problems = [f"{lost} is not shown" for lost in expected.keys() - {one[0] for one in found}]
    for key, value, text in found:
        if key not in expected:
            problems.append(f"{key} = {value} is shown, and attnref says nothing of it")
        elif not is_close(value, expected[key], tolerance):
            problems.append(f"{key} = {value}, and attnref says {expected[key]}")
        elif not reads_as(text, value):
            problems.append(f"{key} = {value} is written {text!r}")
    return sorted(set(problems))


def is_close(value, expected, tolerance):
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
        lambda route: route.fulfill(
            body=body, content_type="text/javascript", headers={"Cache-Control": "no-store"}
        ),
    )
