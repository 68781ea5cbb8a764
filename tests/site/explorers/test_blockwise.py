"""The explorer of online softmax over blocks: each step is as attnref merges it."""

import random
import re

import pytest
from playwright.sync_api import expect

from attnref.cost import Sizes
from book.stage import explorers
from tests.site.explorers.contract import (
    AT_REST,
    NARROW,
    WIDE,
    assert_refused,
    becomes,
    find_wrong,
    first_and_more,
    numbers,
    problem,
    shown_numbers,
    walk,
    walk_programs,
)

NAME = "blockwise"
BLOCKWISE = explorers.source(explorers.FOLDER / NAME)
ROOT = f"#explorer-{NAME}"
# The rows and cells of tables, and the labels of drawings, that are cut off at a side.
CUT = """root => {
  const { left, right } = root.getBoundingClientRect()
  const wide = node => node.scrollWidth > node.clientWidth
  const outside = node => {
    const box = node.getBoundingClientRect()
    return box.width && (box.left < left || box.right > right)
  }
  return [...root.querySelectorAll("div, figure, table")].filter(wide)
    .concat([...root.querySelectorAll("td, th, svg text")].filter(outside))
    .map(node => node.outerHTML.slice(0, 200))
}"""


def random_states(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        keys = rng.randint(2, 16)
        row = rng.randint(1, 16)
        yield {
            "preset": rng.choice(["mixed", "last", "equal", "masked"]),
            # Of the row that is shown, which is the last one for a row beyond the keys.
            "edits": {
                f"{min(row, keys)}-{rng.randint(1, keys)}": rng.choice(
                    [None, round(rng.uniform(-4, 8), 1)]
                )
                for _ in range(rng.choice([0, 2, 6]))
            },
            # Around 88 the exponentials of float32 end.
            "shift": rng.choice([0, 0, rng.randint(80, 95), rng.randint(0, 1000)]),
            "keys": keys,
            "block": rng.randint(1, 16),
            "row": row,
            "causal": rng.random() < 0.5,
            "backward": rng.random() < 0.4,
            "step": rng.randint(0, 16),
        }


GRID = [
    {"preset": preset, "causal": causal, "backward": backward, "step": step}
    for preset in ("mixed", "last", "equal", "masked")
    for causal in (False, True)
    for backward in (False, True)
    for step in (0, 1, 3, 16)
]


@pytest.fixture
def page(page):
    page.focus(f"{ROOT} [data-key='1']")  # which the field is about
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function(AT_REST, arg=NAME)
    return page


@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=pytest.mark.audit)])
def test_its_numbers_are_those_of_attnref(page, seed):
    states = [*(GRID[::3] if seed == 1 else GRID), *random_states(seed, 30)]
    for state, found, _ in walk(page, NAME, states):
        assert find_wrong(NAME, state, found) == [], state


def test_random_states_reach_what_is_special():
    """A skipped block, a row without keys, an overflow: each is among those that are compared."""
    found = [BLOCKWISE.values({**BLOCKWISE.STATE, **state}) for state in random_states(1, 30)]
    assert any(
        values["mu-0"] == max(v for k, v in values.items() if "mu-" in k) for values in found
    )
    assert any("block-ell" not in values and "mu-2" in values for values in found)
    assert any("naive-output" not in values for values in found)


@pytest.mark.parametrize(
    ("right", "mistake"),
    first_and_more(
        ("a / (ell || 1)", "a / ell"),  # 0/0
        ("fround(Math.exp(fround(s)))", "Math.exp(s)"),  # which ends only at 709
        ("factor = power(mu, maximum)", "factor = 1"),  # nothing is rescaled
        ("a: factor * a + own.a", "a: a + own.a"),  # one of both sums is not
        ("power(s, maximum);", "Math.exp(s);"),
        ("Math.max(mu, ...block)", "Math.max(...block)"),
        ("first > strip.last", "first >= strip.first"),  # the block on the diagonal
        ("index + 1 > i ?", "index + 1 >= i ?"),
        ("blocks.toReversed()", "blocks"),
        ("VALUES[first - 1 + index]", "VALUES[index]"),
    ),
)
def test_a_mistake_is_noticed(spoiled, right, mistake):
    page = spoiled(NAME, right, mistake, {})
    states = [*random_states(2, 25), {"causal": True, "preset": "masked", "row": 2, "step": 1}]
    assert any(find_wrong(NAME, state, found) for state, found, _ in walk(page, NAME, states))


def test_the_program_prints_what_is_shown(page):
    states = [{}, {"shift": 1000}, *random_states(3, 12)]
    for state, _, printed, _ in walk_programs(page, NAME, states):
        *lines, blocks, whole, naive = printed.splitlines()
        values = BLOCKWISE.values({**BLOCKWISE.STATE, **state, "step": 16})
        computed = [int(name[7:]) for name in values if name.startswith("factor-")]
        for line, index in zip(lines, computed, strict=True):
            found = dict(re.findall(r"(factor|mu|ell|a) (\S+?)(?:,|$)", line))
            expected = {name: values[f"{name}-{index}"] for name in ("factor", "mu", "ell", "a")}
            assert {name: float(text) for name, text in found.items()} == pytest.approx(expected)
        for line, name in [(blocks, "output"), (whole, "whole"), (naive, "naive-output")]:
            number = float(line.split(": ")[1])
            assert number == pytest.approx(values.get(name, float("nan")), nan_ok=True)


def test_nothing_is_cut_off_where_numbers_are_long(page):
    states = [{"keys": keys, "shift": 1000, "step": 16} for keys in (12, 16)]
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for state, _, cut in walk(page, NAME, states, CUT, is_seen=True):
            assert cut == [], (state, size)


def middle(page, key):
    handle = page.locator(f"{ROOT} [data-key='{key}']")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    return box["x"] + box["width"] / 2, box["y"], box["height"]


def becomes_infinite(page, name):
    becomes(page, NAME, name, float("-inf"))


def test_a_score_is_dragged_by_the_mouse(page):
    x, y, height = middle(page, 5)
    page.mouse.move(x, y + 0.5 * height)
    page.mouse.down()
    page.mouse.move(x, y + 0.2 * height, steps=3)
    # The top of the handle is 17, 115 high; the score 0 is at 84, and 8 units are one.
    high = round((84 - 17 - 0.2 * 115) / 8, 1)
    becomes(page, NAME, "score-5", high, within=0.11)
    found = {name: value for name, value, _ in numbers(page, NAME)}
    assert found["mu-2"] == found["score-5"]
    page.mouse.move(x, y + height, steps=3)
    page.mouse.up()
    becomes_infinite(page, "score-5")
    becomes(page, NAME, "power-5", 0)
    page.mouse.move(x, y)  # which has been let go
    page.wait_for_function(AT_REST, arg=NAME)
    becomes_infinite(page, "score-5")


def test_a_score_is_dragged_by_a_finger(visit):
    page = visit(NAME, viewport=NARROW)
    x, y, height = middle(page, 2)
    session = page.context.new_cdp_session(page)
    for kind, share in (("touchStart", 0.5), ("touchMove", 0.3), ("touchMove", 0.1)):
        points = [{"x": x, "y": y + share * height}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    becomes(page, NAME, "score-2", (84 - 17 - 0.1 * 115) / 8, within=0.2)
    becomes(page, NAME, "score-1", 0.4)


def test_a_score_is_changed_by_keys(page):
    page.focus(f"{ROOT} [data-key='1']")
    steps = [("ArrowUp", 0.5), ("Shift+ArrowUp", 1.5), ("PageDown", 0.5), ("ArrowDown", 0.4)]
    for key, score in (*steps, ("End", 8), ("Home", float("-inf"))):
        page.keyboard.press(key)
        becomes(page, NAME, "score-1", score)
    expect(page.locator(f"{ROOT} [data-key='1']")).to_have_attribute("aria-valuetext", "−∞")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    becomes(page, NAME, "score-1", -4)
    becomes(page, NAME, "score-2", 1.1)
    expect(page.locator(f"{ROOT} [tabindex='0'][data-key]")).to_have_count(1)


def test_a_forbidden_score_is_left_alone(visit):
    page = visit(NAME, state={"causal": True})
    handle = page.locator(f"{ROOT} [data-key='9']")
    expect(handle).to_have_attribute("aria-disabled", "true")
    handle.click(force=True)
    handle.press("ArrowUp")
    expect(page.locator(f"{ROOT} .blockwise-score")).to_be_disabled()
    page.uncheck(f"{ROOT} [name=causal]")
    becomes(page, NAME, "score-9", BLOCKWISE.values(BLOCKWISE.STATE)["score-9"])


def test_a_score_that_cannot_be_is_refused(page):
    field, told = page.locator(f"{ROOT} .blockwise-score"), problem(page, NAME)
    for typed, message in (
        ("9", "score of key 1: 9 is outside the range from -4 to 8."),
        ("much", "score of key 1: a number is expected here, for example -4."),
        ("", "score of key 1: a number is expected here, for example -4."),
    ):
        field.fill(typed)
        expect(told).to_have_text(message)
        expect(field).to_have_attribute("aria-invalid", "true")
        becomes(page, NAME, "score-1", 0.4)
    field.fill("−1,5")
    becomes(page, NAME, "score-1", -1.5)
    expect(told).to_have_text("")
    field.fill("-inf")
    becomes_infinite(page, "score-1")


def test_a_score_is_typed_as_it_is_shown(page):
    """With what is added to all."""
    shown_numbers(page, NAME, {"shift": 1000})
    field = page.locator(f"{ROOT} .blockwise-score")
    expect(field).to_have_value("1000.4")
    field.fill("1002.7")
    becomes(page, NAME, "score-1", 1002.7)
    field.fill("3")
    expect(problem(page, NAME)).to_contain_text("3 is outside the range from 996 to 1008")


def test_an_address_that_cannot_be_says_why(page):
    views = [
        ({"edits": {"7": 1}}, "Scores: “7” names no query and key; “7-3” is query 7 and key 3."),
        ({"edits": {"7-17": 1}}, "Scores: “7-17” names no query and key"),
        ({"edits": [1]}, "Scores: “0” names no query and key"),
        ({"edits": {"7-3": 20}}, "score of key 3: 20 is outside the range from -4 to 8."),
        ({"keys": 17}, "keys: 17 is outside the range from 2 to 16."),
    ]
    assert_refused(page, NAME, views)


def test_the_steps_go_forward_and_back(page):
    shown_numbers(page, NAME, {"step": 1})
    back, forward = (page.locator(f"{ROOT} [data-step='{by}']") for by in (-1, 1))
    step = page.locator(f"{ROOT} [name=step]")
    for seen in ("2", "3", "4"):
        expect(forward).to_be_enabled()
        forward.click()
        expect(step).to_have_value(seen)
    expect(forward).to_be_disabled()
    back.click()
    expect(page.locator(f"{ROOT} [data-name='mu-4']")).to_have_count(0)
    step.press("Home")
    expect(back).to_be_disabled()
    expect(page.locator(f"{ROOT} [data-name='factor-1']")).to_have_count(0)
    expect(step).to_have_value("0")


def test_it_plays_to_the_end_where_motion_is_welcome(visit, page):
    expect(page.locator(f"{ROOT} .blockwise-play")).to_be_hidden()
    page.emulate_media(reduced_motion="no-preference")
    shown_numbers(page, NAME, {"step": 16, "block": 6})
    play, step = page.locator(f"{ROOT} .blockwise-play"), page.locator(f"{ROOT} [name=step]")
    play.click()
    expect(step).to_have_value("0")
    expect(play).to_have_text("Pause")
    expect(play).to_have_text("Play")
    expect(step).to_have_value("2")
    page.emulate_media(reduced_motion="reduce")


def test_a_query_is_chosen_in_the_table(page):
    table = page.locator(f"{ROOT} .blockwise-whole")
    box = table.bounding_box()
    # Row 2 of 12 in a table 144 high from 22 on, in a drawing 172 high.
    table.click(position={"x": box["width"] / 2, "y": (22 + 1.5 * 12) / 172 * box["height"]})
    expect(page.locator(f"{ROOT} [name=row]")).to_have_value("2")
    becomes(page, NAME, "score-1", BLOCKWISE.values({**BLOCKWISE.STATE, "row": 2})["score-1"])


def test_a_button_gives_new_scores(page):
    shown_numbers(page, NAME, {"edits": {"7-1": 3}})
    pressed = page.locator(f"{ROOT} [aria-pressed=true]")
    expect(pressed).to_have_count(0)
    page.click(f"{ROOT} [data-preset=overflow]")
    becomes(page, NAME, "score-1", 1000.4)
    becomes(page, NAME, "naive-ell", float("inf"))
    expect(page.locator(f"{ROOT} .blockwise-results")).to_contain_text("NaN")
    page.click(f"{ROOT} [data-preset=equal]")
    becomes(page, NAME, "score-1", 1)
    expect(pressed).to_have_attribute("data-preset", "equal")


def test_it_says_what_came_out(page):
    for state, said in (
        ({"step": 2}, "the maximum rises from 1.00 to 2.10, so what has been summed is multiplied"),
        ({"step": 3}, "Block 3 of 4, keys 7–9: the maximum stays at 2.10"),
        ({"step": 4, "causal": True}, "so it is skipped and costs no product. ℓ is 2.2472"),
        ({"step": 1, "preset": "masked"}, "every score is −∞, so nothing is added"),
        ({"step": 2, "preset": "masked"}, "the first scores to count. μ is 2.10"),
        ({"step": 4}, "After the last block a/ℓ is 6.5154, as in one go."),
        ({"step": 4, "row": 1, "causal": True, "edits": {"1-1": None}}, "0 instead of 0/0"),
        ({"step": 0}, "Before the first block μ is −∞"),
        ({"shift": 1000}, "gives ∞/∞ in float32, and no output"),
    ):
        shown_numbers(page, NAME, {**state, "keys": 11})
        page.fill(f"{ROOT} [name=keys]", "12")
        expect(page.locator(f"{ROOT} .explorer-said")).to_contain_text(said)


def test_what_the_page_says_of_it_is_so():
    """The numbers in the list below the explorer, in both languages."""
    texts = [
        (explorers.ROOT / "docs" / language / "variants/blockwise.md").read_text("utf-8")
        for language in explorers.LANGUAGES
    ]

    def at(**changed):
        return BLOCKWISE.values({**BLOCKWISE.STATE, "step": 4, **changed})

    mixed, last, causal = at(), at(preset="last"), at(causal=True)
    for value, digits in (
        *((mixed["mu-1"], 1), (mixed["mu-2"], 1), (mixed["factor-2"], 4), (mixed["output"], 4)),
        *((last["factor-4"], 4), (last["output"], 4), (causal["computed-blocks"], 0)),
        *((at(step=3)["held-scores"], 0), (causal["whole-scores"], 0)),
    ):
        assert all(f" {value:.{digits}f}" in text for text in texts), value
    assert mixed["factor-3"] == 1
    assert mixed["output"] == pytest.approx(mixed["whole"])
    reversed_ = at(preset="last", backward=True)
    assert [reversed_[f"factor-{index}"] for index in (2, 3, 4)] == [1, 1, 1]
    assert reversed_["output"] == pytest.approx(last["output"])
    shifted = at(shift=1000)
    assert shifted["naive-ell"] == float("inf")
    assert "naive-output" not in shifted
    for name in ("ell-4", "a-4", "output"):
        assert shifted[name] == pytest.approx(mixed[name])
    assert list(BLOCKWISE.strip_of(BLOCKWISE.STATE)) == [7, 8, 9]
    assert "factor-4" not in causal
    long = Sizes(n=16384, m=16384, d_k=1, d_v=1)
    assert 268e6 < long.score_bytes / 4 < 269e6
    assert 128 * 128 == 16384
