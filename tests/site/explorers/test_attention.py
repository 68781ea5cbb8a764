"""The explorer of attention over a few words, on the page of the six words and, small, at home."""

import itertools
import math
import random
import re

import pytest
from playwright.sync_api import expect

import attnref
from attnref.exercises.samples import SIX_WORDS
from book.stage import explorers
from tests.site.explorers.contract import (
    AT_REST,
    NARROW,
    assert_refused,
    find_wrong,
    first_and_more,
    numbers,
    problem,
    settle,
    walk,
    walk_programs,
)

NAME = "attention"
VALUES = explorers.source(explorers.FOLDER / NAME)
ROOT = f"#explorer-{NAME}"
SIZES = {2: "Uma frase", 5: "the cat sat on it", 8: "to be or not to be I ask"}


def sentence(text, seed):
    """Words and vectors of a state, as hundredths, from -1 to 1."""
    drawn, words = random.Random(seed), text.split()
    vectors = [[drawn.randint(-100, 100) / 100 for _ in range(3)] for _ in words]
    return {"words": words, "vectors": vectors}


def grid():
    """Each size with each scale, mask and padding, in both views in turn."""
    masks = itertools.product((False, True), ("none", "end", "start"))
    for place, (n, scale, (is_causal, pad)) in enumerate(
        itertools.product((2, 5, 6, 8), ("1", "root", "own"), list(masks))
    ):
        words = sentence(SIZES[n], place) if n in SIZES else {}
        yield {
            **words,
            "query": place % n,
            "key": (place // 2) % n,
            "scale": scale,
            "own": (-2.5, 0, 7.25)[place % 3],
            "temperature": (1, 0.1, 2.5)[place // 2 % 3],
            "is_causal": is_causal,
            "padding": 0 if pad == "none" else 1 + place % (n - 1),
            "side": "start" if pad == "start" else "end",
            "view": ("loop", "matrix")[place // 2 % 2],
        }


def drawn(seed):
    """A state at random, which may be any."""
    random_ = random.Random(seed)
    n = random_.randint(2, 8)
    return {
        **sentence(" ".join(f"w{j}" for j in range(n)), seed),
        "query": random_.randrange(n),
        "key": random_.randrange(n),
        "scale": random_.choice(["1", "root", "own"]),
        "own": random_.uniform(-10, 10),
        "temperature": random_.uniform(0.1, 4),
        "is_causal": random_.random() < 0.5,
        "padding": random_.randrange(n),
        "side": random_.choice(["end", "start"]),
        "view": random_.choice(["loop", "matrix"]),
        "plane": random_.choice(["0,1", "0,2", "1,2"]),
    }


@pytest.mark.claim("explorer-shows-the-package")
@pytest.mark.parametrize("count", first_and_more(12, (199,)))
def test_each_number_is_the_package_s(page, count):
    """On a grid and at random, 272 states in all."""
    states = [{}, *list(grid())[:: 1 if count > 100 else 5], *map(drawn, range(count))]
    assert len(states) in (28, 272)
    found = [(state, find_wrong(NAME, state, one)) for state, one, _ in walk(page, NAME, states)]
    assert [(state, problems) for state, problems in found if problems] == []


def test_it_begins_with_the_numbers_of_the_page():
    values = VALUES.values(VALUES.STATE)
    printed = (explorers.ROOT / "snippets/foundations/six-words/loop.out").read_text("utf-8")
    for j, line in enumerate(printed.splitlines()[:6]):
        word, *vector, score, weight = re.sub("score|weight", "", line).split()
        assert VALUES.STATE["words"][j] == word
        assert [f"{values[f'vector-{j}-{p}']:.2f}" for p in range(3)] == vector
        assert f"{values[f'score-{j}']:.4f} {values[f'weight-{j}']:.4f}" == f"{score} {weight}"
    context = " ".join(f"{values[f'context-{p}']:.4f}" for p in range(3))
    assert f"context vector {context}\n" in printed
    rounded = [[round(number, 2) for number in vector] for vector in SIX_WORDS.tolist()]
    assert VALUES.STATE["vectors"] == rounded


ZEROS = {"padding": 5, "side": "start", "is_causal": True}


@pytest.mark.parametrize("view", ["loop", pytest.param("matrix", marks=pytest.mark.audit)])
@pytest.mark.parametrize(
    ("right", "mistake", "state"),
    first_and_more(
        ("? share / total : 0", "? share / total : 1", ZEROS),
        ("j <= i", "j < i", {"is_causal": True}),
        ("1 / Math.sqrt(3)", "1 / 3", {"scale": "root"}),
        (" / state.temperature", "", {"temperature": 2}),
        ("j < n - padding", "j < n", {"padding": 2}),
        ("j >= padding", "j > padding", {"padding": 2, "side": "start"}),
        ("Math.exp(score - largest)", "score", {}),
        ("dot(query, key)", "dot(key, key)", {}),
    ),
)
def test_a_mistake_in_the_numbers_is_noticed(spoiled, right, mistake, state, view):
    state = {**state, "view": view}
    assert find_wrong(NAME, state, numbers(spoiled(NAME, right, mistake, state), NAME))


PROGRAMS = [
    {},
    {"scale": "root", "temperature": 0.5},
    {"scale": "own", "own": -2, "is_causal": True},
    {"padding": 2, "side": "start", "is_causal": True, "query": 0},
    {"padding": 3, "view": "matrix"},
    {**sentence('say "no" a\\b ção', 3), "query": 2, "key": 0},
]


def test_the_program_prints_what_is_shown(page):
    states = [{**state, "view": "matrix"} for state in PROGRAMS]
    for state, exact, printed, _ in walk_programs(page, NAME, states):
        words, lines = {**VALUES.STATE, **state}["words"], printed.splitlines()
        for i, (word, line) in enumerate(zip(words, lines, strict=True)):
            head, _, tail = line.partition(" context ")
            first, name, *weights = head.split()
            assert (first, name) == (word, "weights")
            for kind, row in (("weight", weights), ("context", tail.split())):
                for j, number in enumerate(row):
                    assert float(number) == pytest.approx(exact[f"{kind}-{i}-{j}"], abs=0.51e-4)
        assert exact["factor"]


def centre(page, word):
    box = page.locator(f"{ROOT} [data-drag='{word}'] circle").nth(1).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def whole(page):
    """The state once it is at rest."""
    return {**VALUES.STATE, **settle(page, NAME)}


def test_a_word_is_dragged_with_the_mouse(page):
    page.locator(f"{ROOT} .attention-plane svg").scroll_into_view_if_needed()
    x, y = centre(page, 5)
    unit = page.locator(f"{ROOT} .attention-plane svg").bounding_box()["width"] / 300 * 130
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 0.5 * unit, y + unit, steps=4)
    page.mouse.up()
    page.mouse.move(x, y)  # no longer held
    state = whole(page)
    assert state["vectors"][5] == pytest.approx([0.55, -0.2, 0.55], abs=0.02)
    assert state["key"] == 5
    assert state["vectors"][:5] == VALUES.STATE["vectors"][:5]
    assert find_wrong(NAME, state, numbers(page, NAME)) == []


def test_a_word_is_dragged_by_touch_and_the_page_stays(visit):
    page = visit(NAME, viewport=NARROW)
    plane = page.locator(f"{ROOT} .attention-plane svg")
    plane.evaluate("node => node.scrollIntoView({block: 'center'})")
    x, y = centre(page, 0)
    before = page.evaluate("scrollY")
    client = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x - 30, "y": y + 40}]),
        ("touchMove", [{"x": x - 60, "y": y + 350}]),  # beyond the edge: it stays at the edge
        ("touchEnd", []),
    ):
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    state = whole(page)
    assert state["vectors"][0][0] < 0.3
    assert state["vectors"][0][1:] == [-1, 0.89]
    assert page.evaluate("scrollY") == before
    assert find_wrong(NAME, state, numbers(page, NAME)) == []


def test_a_word_is_moved_by_keys_and_says_where_it_is(page):
    page.select_option(f"{ROOT} [name=plane]", "1,2")
    word = page.locator(f"{ROOT} [data-drag='3']")
    word.focus()
    for key in ("ArrowRight", "Shift+ArrowUp", "ArrowDown", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    state = whole(page)
    assert state["vectors"][3] == [0.22, 0.49, 0.42]
    assert word.get_attribute("role") == "slider"
    assert word.get_attribute("aria-label") == "with"
    assert word.get_attribute("aria-valuetext") == "0.22, 0.49, 0.42"
    assert page.get_by_role("spinbutton", name="with, component 1").input_value() == "0.22"
    assert find_wrong(NAME, state, numbers(page, NAME)) == []


def test_a_vector_is_typed_and_its_third_number_slid(page):
    page.fill(f"{ROOT} [data-component='0']:not([data-third])", "-0.5")
    third = page.locator(f"{ROOT} [data-third]")
    third.focus()
    third.press("ArrowRight")
    assert whole(page)["vectors"][4] == [-0.5, 0.25, 0.11]
    second, told = page.locator(f"{ROOT} [data-component='1']"), problem(page, NAME)
    second.fill("3")
    expect(told).to_have_text("one, component 2: 3 is outside the range from -1 to 1.")
    expect(second).to_have_attribute("aria-invalid", "true")
    below = told.bounding_box()["y"] - second.bounding_box()["y"]
    assert 0 < below < 150  # beside it, and not beside the sentence
    second.fill("")
    expect(told).to_have_text("one, component 2: a number is expected here, for example -1.")
    second.fill("0.3")
    expect(told).to_have_text("")
    expect(page.locator(f"{ROOT} [aria-invalid]")).to_have_count(0)


def test_a_sentence_keeps_the_vectors_of_its_words(page):
    field = page.locator(f"{ROOT} [data-sentence]")
    field.fill("one journey starts  at dawn")
    state = whole(page)
    assert state["words"] == ["one", "journey", "starts", "at", "dawn"]
    first = dict(zip(VALUES.STATE["words"], VALUES.STATE["vectors"], strict=True))
    assert state["vectors"][:3] == [first["one"], first["journey"], first["starts"]]
    made = state["vectors"][3:]
    assert all(
        -1 <= number <= 1 and number == round(number, 2) for vector in made for number in vector
    )
    expect(page.locator(f"{ROOT} .explorer-said")).to_have_text(
        re.compile(
            "The vectors of at, dawn are made up from the letters: nobody has learned them.$"
        )
    )
    assert find_wrong(NAME, state, numbers(page, NAME)) == []
    field.fill("dawn at noon")
    page.wait_for_function("decodeURIComponent(location.search).includes('noon')")
    assert whole(page)["vectors"][:2] == made[::-1]
    for typed, text in (
        ("alone", "Sentence: 1 words; it takes two to eight."),
        ("a b c d e f g h i", "Sentence: 9 words; it takes two to eight."),
        (
            "incomprehensible words",
            "Sentence: “incomprehensible” is too long; a word here has 12 letters at most.",
        ),
    ):
        field.fill(typed)
        expect(problem(page, NAME)).to_have_text(text)
        expect(field).to_have_value(typed)
        expect(field).to_have_attribute("aria-invalid", "true")
        assert numbers(page, NAME)[0]
    page.click(f"{ROOT} [data-do=reset]")
    expect(field).to_have_value("Your journey starts with one step")


def test_a_view_that_cannot_be_shown_says_why(page):
    words = "Sentence: {} words; it takes two to eight."
    views = [
        ({"words": ["a"]}, words.format(1)),
        ({"words": ["a b", "c"]}, words.format(1)),
        ({"vectors": [[1, 2, 3]]}, "Vectors: each word needs a list of three numbers."),
        ({"query": 6}, "The query: the word that asks: 6 is outside the range from 0 to 5."),
        ({"padding": 6}, "Padding words: 6 is outside the range from 0 to 5."),
        ({"own": 11}, "Scale, a number of your own: 11 is outside the range from -10 to 10."),
    ]
    assert_refused(page, NAME, views)


def test_a_row_with_nothing_to_attend_to_is_zeros_and_is_said(page):
    page.check(f"{ROOT} [name=is_causal]")
    page.select_option(f"{ROOT} [name=side]", "start")
    page.fill(f"{ROOT} [name=padding]", "1")
    page.click(f"{ROOT} .attention-query button:has-text('Your')")
    expect(page.locator(f"{ROOT} .explorer-said")).to_have_text(
        "Your may attend to no word: its weights are zeros, and so is its context vector."
    )
    found = {name: value for name, value, _ in numbers(page, NAME)}
    assert [found[f"weight-{j}"] for j in range(6)] == [0] * 6
    assert [found[f"context-{p}"] for p in range(3)] == [0] * 3
    assert "by definition: there is nothing" in page.inner_text(f"{ROOT} .attention-steps")
    assert not page.locator(f"{ROOT} .attention-goal").is_visible()


def test_what_is_touched_lights_up_in_every_part(page):
    lit = f"{ROOT} [data-looked-at]"
    page.click(f"{ROOT} [data-look='2']")
    page.wait_for_function(AT_REST, arg=NAME)
    parts = page.locator(lit).evaluate_all("nodes => nodes.map(node => node.tagName).sort()")
    assert parts == ["BUTTON", "TR", "g", "path", "path"]
    assert page.get_attribute(f"{ROOT} [data-look='2']", "aria-pressed") == "true"
    page.focus(f"{ROOT} [data-look='5']")
    page.keyboard.press("Enter")
    expect(page.locator(f"{ROOT} [data-say=key]").first).to_have_text("step")
    page.check(f"{ROOT} [value=matrix]")
    page.click(f"{ROOT} .attention-weight tbody tr:nth-child(4) td:nth-of-type(2)")
    expect(page.locator(f"{ROOT} .attention-matrices [data-asks] th")).to_have_text(["with"] * 3)
    state = whole(page)
    assert (state["query"], state["key"]) == (3, 1)
    assert find_wrong(NAME, state, numbers(page, NAME)) == []


def test_a_scale_of_one_s_own_is_taken_when_it_is_typed(page):
    page.fill(f"{ROOT} [name=own]", "2.5")
    expect(page.locator(f"{ROOT} [name=scale]")).to_have_value("own")
    assert find_wrong(NAME, {"scale": "own", "own": 2.5}, numbers(page, NAME)) == []
    page.fill(f"{ROOT} [name=own]", "99")
    expect(problem(page, NAME)).to_have_text(
        "Scale, a number of your own: 99 is outside the range from -10 to 10."
    )


def test_the_small_one_shows_the_same_numbers(visit):
    page = visit(NAME, is_small=True)

    def unlike(state):
        problems = find_wrong(NAME, state, numbers(page, NAME))
        return [problem for problem in problems if not problem.endswith("is not shown")]

    assert unlike({}) == []
    page.click(f"{ROOT} .attention-query button:has-text('one')")
    scale = page.locator(f"{ROOT} [name=own]")
    scale.focus()
    scale.press("End")
    state = {"query": 4, "scale": "own", "own": 10}
    page.wait_for_function(AT_REST, arg=NAME)
    assert unlike(state) == []
    assert unlike({**state, "own": 9})  # or the comparison sees nothing
    page.click(f"{ROOT} [data-look='0']")  # what is touched there asks
    expect(page.locator(f"{ROOT} .attention-context b")).to_have_text("Your")
    assert unlike({**state, "query": 0}) == []


def test_what_the_pages_invite_to_try_is_so():
    """The numbers in the sentences below the picture, and on the home page."""
    text = (explorers.ROOT / "docs/en/explore/attention.md").read_text("utf-8")
    section = text.partition("{#try}")[2]

    def row(query, **options):
        return attnref.attention_weights(SIX_WORDS, SIX_WORDS, **options)[query].tolist()

    one, rooted, sharp = row(4, scale=1.0), row(1), row(1, scale=10.0)
    causal = row(1, scale=1.0, is_causal=True)
    assert one.index(max(one)) == 2
    stated = [one[2], one[4], rooted[1], row(1, scale=1.0)[1], *sharp[1:3], *causal[:2]]
    assert re.findall(r"\d\.\d{4}", section) == [f"{number:.4f}" for number in stated]
    assert sum(sharp[1:3]) > 0.98
    assert max(rooted) - min(rooted) < max(row(1, scale=1.0)) - min(row(1, scale=1.0))
    for query in range(6):  # at home: a few words take nearly everything
        assert sum(sorted(row(query, scale=10.0))[-3:]) > 0.95


def test_moving_across_the_query_changes_no_weight():
    """As the page says of the drawn plane, up to the hundredths in which a word moves."""
    (a, b, _), before = SIX_WORDS[1].tolist(), VALUES.values(VALUES.STATE)["weight-4"]
    for along, across in ((0.2, 0), (0, 0.2), (0, -0.2)):
        state = {**VALUES.STATE, "vectors": [list(vector) for vector in VALUES.STATE["vectors"]]}
        length = math.hypot(a, b)
        state["vectors"][4][0] += round((along * a - across * b) / length, 2)
        state["vectors"][4][1] += round((along * b + across * a) / length, 2)
        after = VALUES.values(state)["weight-4"]
        assert after > before + 0.01 if along else abs(after - before) < 0.001


# Slides to and fro for so many frames with a pointer held down, or without, and then lets go.
SLIDE = """([slider, number, isHeld]) => new Promise(done => {
  const point = kind =>
    isHeld && slider.dispatchEvent(new PointerEvent(kind, {bubbles: true}))
  let written = 0, frames = 0
  new MutationObserver(() => written++).observe(number, {attributeFilter: ["data-value"]})
  const begun = performance.now()
  point("pointerdown")
  const frame = () => {
    slider.value = String(1 + (++frames % 20) / 10)
    slider.dispatchEvent(new InputEvent("input", {bubbles: true}))
    if (frames < 30) return requestAnimationFrame(frame)
    const time = performance.now() - begun
    point("pointerup")
    requestAnimationFrame(() => requestAnimationFrame(() => done([written, time])))
  }
  frame()
})"""


@pytest.mark.parametrize("is_held", [False, True])
def test_numbers_are_written_ten_times_a_second_while_one_drags(page, is_held):
    slider = page.locator(f"{ROOT} [name=temperature]").element_handle()
    number = page.locator(f"{ROOT} [data-name=temperature]").element_handle()
    written, time = page.evaluate(SLIDE, [slider, number, is_held])
    if is_held:
        assert 1 <= written <= time / 100 + 2
    else:
        assert written == 30
    assert find_wrong(NAME, {"temperature": 2.0}, numbers(page, NAME)) == []
