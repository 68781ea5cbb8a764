"""The small Transformer: what it says of a text is what PyTorch says with attnref's attention."""

import itertools
import random
import re

import pytest
from playwright.sync_api import expect

from book.stage import explorers
from docs.explorers import small_model
from tests.site.explorers.contract import (
    AT_REST,
    address_of,
    assert_refused,
    find_wrong,
    first_and_more,
    numbers,
    problem,
    shown_numbers,
    walk,
)

NAME = "transformer"
VALUES = explorers.source(explorers.FOLDER / NAME)
LETTERS = small_model.unpack(small_model.WEIGHTS.read_bytes())[0]["letters"]
TEXTS = (
    "The weights of the quer",
    "    Raises:\n        ValueError: expected a ",  # longer than what the model reads
    "abcabcabcabc",
    "ação ZZ é 你",  # most of it unknown
    "x",
    "",
)
ROOM = f"#explorer-{NAME}"
LOADED = f"document.querySelector('{ROOM} [data-do=load]').disabled"


def states_at_random(count):
    draw = random.Random(8)
    for _ in range(count):
        length = draw.randint(0, 40)
        yield {
            "text": "".join(draw.choice(LETTERS) for _ in range(length)),
            "factor": draw.choice(list(VALUES.FACTORS)),
            "mask": draw.choice(["causal", "none"]),
            "head": f"{draw.randint(1, 2)}-{draw.randint(1, 2)}",
            "at": -draw.randint(0, 31),
        }


# Each text, and each factor with each mask.
GRID = [
    {"text": text, "factor": factor, "mask": mask}
    for text, (factor, mask) in zip(
        TEXTS, itertools.product(VALUES.FACTORS, ("causal", "none")), strict=True
    )
]


@pytest.mark.parametrize("count", first_and_more(6, (96,)))
def test_its_numbers_are_those_of_pytorch(page, count):
    for state, found, _ in walk(page, NAME, [*GRID, *states_at_random(count)]):
        assert find_wrong(NAME, state, found) == [], state


@pytest.mark.parametrize(
    ("right", "mistaken"),
    first_and_more(
        ("step * view.getInt8", "step * view.getUint8"),
        ("inverse: 1 / HEAD_DIM", "inverse: 1 / WIDTH"),
        ("isCausal ? i + 1 : count", "isCausal ? i : count"),
        ("row[j] = factor * score", "row[j] = score"),
        ("out[i + 1] = row[i] * sin +", "out[i + 1] = row[i] * sin -"),
        ("(i % HEAD_DIM) / HEAD_DIM", "i / HEAD_DIM"),
        ("squares / row.length", "squares / (row.length - 1)"),
        ("0.5 * x * (1 + erf(x / Math.SQRT2))", "x / (1 + Math.exp(-1.702 * x))"),
        ("logit / Math.sqrt(WIDTH)", "logit"),
        ("linear(rows.map(normalised), `${name}.up`)", "linear(rows, `${name}.up`)"),
        ("tokens.slice(-WINDOW)", "tokens.slice(0, WINDOW)"),
        ("(tokens.length - 1);", "tokens.length;"),
        ("chances[key - 1]", "chances[key]"),
    ),
)
def test_a_mistake_is_noticed(spoiled, right, mistaken):
    state = {"text": TEXTS[1], "factor": "inverse"}
    page = spoiled(NAME, right, mistaken, state)
    page.wait_for_function(LOADED)
    assert find_wrong(NAME, state, numbers(page, NAME))


DRAWN = """root => {
  const all = s => [...root.querySelectorAll(s)]
  const seen = nodes => nodes.filter(node => !node.hasAttribute("display"))
  const texts = nodes => seen(nodes).map(node => node.textContent)
  return {
    keys: texts(all(".key")), queries: texts(all(".query")),
    given: texts(all(".given > g")), likely: texts(all(".transformer-next .letter")),
    chosen: seen(all(".query")).findIndex(node => node.classList.contains("chosen")),
    row: ["y", "width"].map(x => Number(root.querySelector(".row").getAttribute(x))),
    use: root.querySelector("use").getAttribute("href"),
    maps: all("g.shades").map(g => [...g.children].map(path => path.getAttribute("d"))),
    bars: seen(all(".given > g")).map(g => Number(g.lastElementChild.getAttribute("width"))),
    letters: all("tbody th").map(th => th.textContent),
  }
}"""


def test_what_is_drawn_is_what_the_numbers_say(page):
    states = [
        {"text": TEXTS[1], "mask": "none", "head": "2-1", "at": -5},
        {"text": 'a <b> & "c"', "factor": "unscaled"},
        {"text": "", "head": "1-2"},
        {},  # again, by the script
    ]
    for state, _, view in walk(page, NAME, states, DRAWN):
        whole = {**VALUES.STATE, **state}
        expected, found = VALUES.drawing(whole), VALUES.values(whole)
        glyphs, count = expected["glyphs"], len(expected["glyphs"])
        assert view["keys"] == view["queries"] == glyphs
        assert view["given"] == glyphs[1:]
        assert view["likely"] == expected["likely"]
        assert view["chosen"] == view["row"][0] == expected["query"]
        assert view["row"][1] == count
        assert view["use"] == f"#transformer-{whole['head']}"
        assert view["maps"] == list(expected["maps"].values())
        names = {" ": "space", "\n": "new line"}
        assert view["letters"] == [names.get(one, one) for one in expected["letters"]]
        widest = 0.18 * max(count, 16)
        chances = [found[f"given-{key}"] for key in range(2, count + 1)]
        assert view["bars"] == pytest.approx([widest * chance for chance in chances], abs=1e-4)


def asked_for_weights(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if ".bin" in request.url else None)
    return asked


@pytest.mark.parametrize("way", first_and_more("typing", ("address",), ("button",)))
def test_the_weights_come_only_when_they_are_wanted(new_page, bare, way):
    page = new_page()
    asked = asked_for_weights(page)
    state = {"text": "def f"} if way == "address" else {}
    bare(page, NAME, query=address_of(NAME, state))
    if way != "address":
        page.wait_for_load_state("networkidle")
        assert asked == []
        assert find_wrong(NAME, {}, numbers(page, NAME)) == []
    if way == "button":
        page.click(f"{ROOM} [data-do=load]")
    if way == "typing":
        page.locator(f"{ROOM} textarea").press_sequentially("y o")
        state = {"text": page.input_value(f"{ROOM} textarea")}
        assert "y o" in state["text"]
    page.wait_for_function(LOADED)
    page.wait_for_function(AT_REST, arg=NAME)
    assert find_wrong(NAME, state, numbers(page, NAME)) == []
    assert len(asked) == 1
    expect(page.locator(f"{ROOM} [data-do=load]")).to_have_text("The model is loaded")


def test_weights_that_do_not_come_are_told_and_asked_for_again(new_page, bare):
    page = bare(new_page(), NAME)
    page.route("**/weights.bin", lambda route: route.abort())
    page.fill(f"{ROOM} textarea", "import torch")
    told = problem(page, NAME)
    expect(told).to_have_text(
        "The model could not be loaded, so the picture still shows the first text. Check the "
        "connection and press “Load the model”; what you typed is kept."
    )
    assert find_wrong(NAME, {}, numbers(page, NAME)) == []
    assert page.input_value(f"{ROOM} textarea") == "import torch"
    button = page.locator(f"{ROOM} [data-do=load]").bounding_box()
    assert 0 <= told.bounding_box()["y"] - button["y"] - button["height"] < 60
    page.unroute("**/weights.bin")
    page.click(f"{ROOM} [data-do=load]")
    page.wait_for_function(LOADED)
    assert find_wrong(NAME, {"text": "import torch"}, numbers(page, NAME)) == []
    expect(told).to_have_text("")


def test_characters_that_it_does_not_know_are_named_and_kept(page):
    area = page.locator(f"{ROOM} textarea")
    area.fill("a Zona é")
    alphabet = "".join(letter for letter in LETTERS if letter.strip())
    expect(problem(page, NAME)).to_have_text(
        "The model does not know “Z”, “é” and reads the text without. Its alphabet, that of the "
        f"code it learned from: space, new line and {alphabet}"
    )
    expect(area).to_have_attribute("aria-invalid", "true")
    before = {name: value for name, value, _ in numbers(page, NAME)}
    page.check(f"{ROOM} [name=mask][value=none]")  # what was typed stays there
    assert find_wrong(NAME, {"text": "a Zona é", "mask": "none"}, numbers(page, NAME)) == []
    expect(area).to_have_value("a Zona é")
    page.check(f"{ROOM} [name=mask][value=causal]")
    area.fill("a ona ")
    expect(problem(page, NAME)).to_have_text("")
    assert {name: value for name, value, _ in numbers(page, NAME)} == before
    expect(area).not_to_have_attribute("aria-invalid", "true")


def test_a_long_text_is_kept_and_its_end_is_read(page):
    text = "The softmax of each row of scores is " * 30
    assert find_wrong(NAME, {"text": text}, shown_numbers(page, NAME, {"text": text})) == []
    assert page.input_value(f"{ROOM} textarea") == text
    assert page.locator(f"{ROOM} tbody tr").count() == VALUES.WINDOW


def test_an_empty_text_has_no_loss(page):
    shown_numbers(page, NAME, {"text": ""})
    expect(page.locator(f"{ROOM} .transformer-loss strong")).to_have_text("–")
    page.fill(f"{ROOM} textarea", "ab")
    page.wait_for_function(f"document.querySelector('{ROOM} [data-name=loss]')")
    assert find_wrong(NAME, {"text": "ab"}, numbers(page, NAME)) == []


def test_it_writes_what_it_finds_likeliest(page):
    shown_numbers(page, NAME, {"at": -7})
    text = VALUES.STATE["text"]
    for _ in range(6):
        page.click(f"{ROOM} [data-do=write]")
        chances, _ = VALUES.run(VALUES.read(text), "inverse_sqrt", "causal")
        text += LETTERS[int(chances[-1].argmax())]
        expect(page.locator(f"{ROOM} textarea")).to_have_value(text)
    assert text.startswith("The weights of the query")
    # It goes on from the end, where the next one is shown.
    assert find_wrong(NAME, {"text": text}, numbers(page, NAME)) == []


def test_the_character_that_looks_is_chosen_by_mouse_finger_and_keys(visit):
    page = visit(NAME)
    count = len(VALUES.read(VALUES.STATE["text"]))
    page.locator(f"{ROOM} .transformer-map").scroll_into_view_if_needed()
    slider = page.locator(f"{ROOM} [name=at]")

    def point(row):
        """The middle of a row, measured anew: what stands above may still settle."""
        box = page.locator(f"{ROOM} .seen").bounding_box()
        return box["x"] + 3, box["y"] + (row + 0.5) * box["height"] / count

    def looks(at):
        expect(slider).to_have_value(str(at))
        page.wait_for_function(LOADED)
        page.wait_for_function(AT_REST, arg=NAME)
        assert find_wrong(NAME, {"at": at}, numbers(page, NAME)) == []

    page.mouse.move(*point(4))
    page.mouse.down()
    looks(5 - count)
    page.mouse.move(*point(9))
    looks(10 - count)
    page.mouse.move(*point(-3))  # beyond the map it stays
    page.mouse.up()
    looks(10 - count)
    page.touchscreen.tap(*point(2))
    looks(3 - count)
    for key, at, told in (
        ("ArrowRight", 4 - count, "e, character 4 of 24"),
        ("Home", 1 - count, "new line, character 1 of 24"),
        ("End", 0, "r, character 24 of 24"),
    ):
        slider.press(key)
        looks(at)
        expect(slider).to_have_attribute("aria-valuetext", told)


def test_the_last_character_goes_on_looking_while_one_types(page):
    area = page.locator(f"{ROOM} textarea")
    area.press("Control+End")
    area.press_sequentially("y and")
    expect(page.locator(f"{ROOM} .explorer-said")).to_have_text(re.compile("From “d”"))
    assert find_wrong(NAME, {"text": "The weights of the query and"}, numbers(page, NAME)) == []


def test_an_address_that_cannot_be_shown_says_what_is_wrong(page):
    views = [
        ({"text": 3}, "Text: a text is expected here."),
        ({"at": 1}, "Character that looks: 1 is outside the range from -31 to 0."),
    ]
    assert_refused(page, NAME, views)


def test_what_comes_out_is_said(page):
    page.check(f"{ROOM} [name=factor][value=inverse]")
    state = {**VALUES.STATE, "factor": "inverse"}
    found, likely = VALUES.values(state), VALUES.drawing(state)["likely"][0]
    likely = {"·": "space", "¶": "new line"}.get(likely, likely)
    expect(page.locator(f"{ROOM} .explorer-said")).to_have_text(
        f"From “r”, layer 1, head 1 looks most at “q”, with weight {found['weight-1-1-21']:.2f}. "
        f"The likeliest next character is “{likely}”, with probability {found['next-1']:.2f}. "
        f"The loss on the text is {found['loss']:.2f} nats per character."
    )


def test_the_page_says_what_is_so():
    """The page speaks of the first text, with other factors and without the mask."""

    def seen(**state):
        state = {**VALUES.STATE, **state}
        return VALUES.values(state), VALUES.drawing(state)

    first, drawn = seen()
    assert drawn["likely"][0] == "y"
    assert drawn["glyphs"][-4] == "q"
    assert first[f"weight-1-1-{len(drawn['glyphs']) - 3}"] > 0.9  # nearly all
    softer, drawn = seen(factor="inverse")
    assert drawn["likely"][0] != "y"
    unscaled, _ = seen(factor="unscaled")
    assert first["loss"] < unscaled["loss"] < softer["loss"]
    assert seen(mask="none")[0]["loss"] > first["loss"]
    assert seen(text="abcabcabcabc")[0]["loss"] > small_model.notebook()["guessing"]
    assert "Z" not in LETTERS
    assert "é" not in LETTERS


def test_the_file_is_light_and_its_size_is_told():
    size = small_model.WEIGHTS.stat().st_size
    assert size <= 150_000
    assert VALUES.values(VALUES.STATE)["kilobytes"] == pytest.approx(size / 1000)
