"""The explorer of masks: an expression is read as attnref reads it, pair by pair."""

import json
import random
import re

import pytest
from playwright.sync_api import expect

from book.stage import explorers
from tests.site.explorers.contract import (
    AT_REST,
    NARROW,
    NOTED,
    assert_refused,
    begin,
    find_wrong,
    first_and_more,
    module_of,
    numbers,
    problem,
    shown_numbers,
    walk,
    walk_programs,
)

NAME = "masks"
MASKS = module_of(NAME)
TEXTS = explorers.read_texts(explorers.FOLDER / NAME / "texts.yml", "en")
ROOT = f"#explorer-{NAME}"
# What is drawn, and the table that says the same in words.
DRAWN = """root => {
  const all = selector => Array.from(root.querySelectorAll(selector))
  return {
    paths: Object.fromEntries(all("[data-path]").map(p => [p.dataset.path, p.getAttribute("d")])),
    keys: all(".masks-each tbody tr:not([hidden]) td:last-child").map(node => node.textContent),
    table: root.querySelector("[data-part=table]").getAttribute("transform"),
    strips: root.querySelector("[data-part=strips]").getAttribute("transform"),
    problem: root.querySelector(".explorer-problem").textContent,
  }
}"""
PATHS = (
    *("full", "partial", "vain", "gained", "lines", "blocks", "blind"),
    *("direct", "indirect", "between"),
)
FORMS = [
    "causal({sizes})",
    "masks.causal({sizes})",
    "sliding_window({sizes}, window={odd})",
    "sliding_window({sizes}, is_causal=True, window={few})",
    "dilated({sizes}, window={odd}, dilation={few}, is_causal=False)",
    "dilated({sizes}, window={few}, dilation={few}, is_causal=True)",
    "strided({sizes}, stride={few})",
    "dyadic({sizes})",
    "padding([{key}], m)",
]
SQUARE = [
    "prefix_lm(n, prefix={key})",
    "prefix_lm(prefix=n, n=n)",
    "global_tokens(n, positions=[{key}, 0, {key},])",
    "global_tokens(n, positions=[])",
    "documents({ids})",
    "packed({lengths})",
    "tree({parents})",
]


DILATED = "dilated(n, window=3, dilation=3)"
BELOW = 'causal(n, m, alignment="bottom-right")'


def pattern(rng, n, m):
    """A pattern of n × m pairs, its arguments given in one of the ways that Python has."""
    sides = [f"alignment={side!r}" for side in ("top-left", "bottom-right")]
    sizes = [f"n, m, {rng.choice(sides)}", f"n, m={m}, {rng.choice(sides)}"]
    if n == m:
        sizes += ["n", f"{n}", "n=n", "n, None", "n, m", "m, alignment=None"]
    cuts = sorted(rng.choices(range(n + 1), k=3))
    form = rng.choice(FORMS + SQUARE * (n == m))
    if n < m and rng.random() < 0.2:
        form = "tree({parents}, past={past})"
    return form.format(
        sizes=rng.choice(sizes),
        odd=2 * rng.randrange(8) + 1,
        few=rng.randint(1, 9),
        key=rng.randrange(m),
        ids=[rng.randint(-1, 3) for _ in range(n)],
        lengths=[end - start for start, end in zip([0, *cuts], [*cuts, n], strict=True)],
        parents=[rng.randint(-1, node - 1) for node in range(n)],
        past=m - n,
    )


def expression(rng, n, m, depth=3):
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return pattern(rng, n, m)
    inner = expression(rng, n, m, depth - 1)
    if kind < 0.4:
        return f"~{inner}" if rng.random() < 0.5 else f"~({inner})"
    space, line = rng.choice(("", " ")), rng.choice((" ", "\n  "))
    joined = f"{inner}{space}{rng.choice('&|')}{line}{expression(rng, n, m, depth - 1)}"
    return f"({joined})" if rng.random() < 0.5 else joined


def random_states(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.choice((1, 2, 5, 8, 13, rng.randint(1, 48), 48))
        m = n if rng.random() < 0.65 else rng.randint(1, 48)
        yield {
            "expression": expression(rng, n, m),
            "n": n,
            "m": m,
            "block": rng.randint(1, 16),
            "layers": rng.randint(1, 6),
            "query": rng.randrange(48),
        }


def misdrawn(state, found):
    """Where the drawing or its table differs from the mask, in any pair."""
    expected = MASKS.drawing({**MASKS.STATE, **state})
    problems = [name for name in PATHS if found["paths"][name] != expected[name]]
    if found["keys"] != [keys or "none" for keys in expected["keys"]]:
        problems.append("keys")
    if found["table"] != f"translate(46 24) scale({expected['cell']})":
        problems.append(found["table"])
    if found["strips"] != f"translate(46 {expected['below']})":
        problems.append(found["strips"])
    return problems


def test_the_drawing_tells_every_pair():
    """That of drawing() is read back: the runs in its path are the pairs of the mask."""
    state = {**MASKS.STATE, "expression": "dyadic(n) | global_tokens(n, positions=[3])", "block": 3}
    may, drawing = MASKS.allowed_pairs(state), MASKS.drawing(state)
    read = {
        (int(i), j)
        for kind in ("full", "partial")
        for x, i, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", drawing[kind])
        for j in range(int(x), int(x) + int(width))
    }
    assert read == {tuple(pair) for pair in may.nonzero().tolist()}


def grid():
    expressions = [
        *("causal(n)", "~causal(n)", "strided(n, stride=5)", "dyadic(n)", "padding([3], m)"),
        BELOW,
        "sliding_window(n, window=5) | global_tokens(n, positions=[0])",
    ]
    sizes = [(4, 4, 1), (17, 31, 5), (31, 17, 16), (17, 17, 4), (48, 48, 7)]
    for place, written in enumerate(expressions):
        for n, m, block in sizes[place % 2 :: 2]:
            state = {"expression": written, "n": n, "m": m, "block": block}
            yield {**state, "layers": 3, "query": n - 1}


@pytest.mark.parametrize(("seed", "count"), first_and_more((0, 20), (1, 60), (2, 60), (3, 60)))
def test_its_numbers_and_pairs_are_attnrefs(page, seed, count):
    for state, found, drawn in walk(page, NAME, [*grid(), *random_states(seed, count)], DRAWN):
        assert find_wrong(NAME, state, found) == [], state
        assert misdrawn(state, drawn) == [], state
        assert drawn["problem"] == "", state


# From many expressions, each with one character gone, doubled or changed, those that are read.
READ = """async ([url, texts]) => {
  const { evaluated } = await import(url)
  return texts.map(([text, n, m]) => {
    try { return evaluated(text, n, m).may.map(row => Array.from(row)) }
    catch (error) { return error.key ?? String(error) }
  })
}"""


def test_what_it_accepts_attnref_accepts(page, alone):
    """A slip of the pen is refused, or is a mask: then the same one as in Python."""
    rng = random.Random(5)
    texts = []
    for state in random_states(5, 400):
        text, n, m = state["expression"], state["n"], state["m"]
        at = rng.randrange(len(text))
        middle = rng.choice(("", text[at] * 2, rng.choice("0159nm,()[]&|~=-.\"' ")))
        texts.append([text[:at] + middle + text[at + 1 :], n, m])
    url = f"{alone}/en/explorers/{NAME}/numbers.js"
    accepted = 0
    for (text, n, m), found in zip(texts, page.evaluate(READ, [url, texts]), strict=True):
        if isinstance(found, list):
            accepted += 1
            mask = MASKS.evaluate(text, n, m)
            assert mask.dense().reshape(mask.shape[-2:]).int().tolist() == found, text
        else:
            assert found in TEXTS, (text, found)
    assert 20 < accepted < 380


@pytest.mark.parametrize(
    ("right", "mistaken", "expression", "state"),
    first_and_more(
        ("count === pairs ? FULL", "count >= pairs - 1 ? FULL", "causal(n)", {"block": 2}),
        ("4 * computed * WIDTH", "2 * computed * WIDTH", "causal(n)", {}),
        ("j <= i + offset }", "j < i + offset }", "causal(n)", {}),
        ("distance % dilation === 0", "distance % dilation < 2", DILATED, {}),
        ("distance < stride ||", "distance <= stride - 2 ||", "strided(n, stride=4)", {}),
        ("columns - rows : 0", "rows - columns : 0", BELOW, {"m": 40}),
        ("ahead: (width - 1) / 2", "ahead: 0", "sliding_window(n, window=5)", {}),
        ("labels[i] >= 0", "true", "documents([0, -1, -1])", {}),
        ("low >> j : high", "low >> (j + 1) : high", "causal(n) & dyadic(n)", {}),
        ("layers[isSquare ? state.layers - 1 : 0]", "layers[1]", "dyadic(n)", {"layers": 4}),
        ("count === 0).length", "count <= 1).length", "dyadic(n)", {}),
    ),
)
def test_a_mistake_is_noticed(spoiled, right, mistaken, expression, state):
    state = {**state, "expression": expression}
    page = spoiled(NAME, right, mistaken, state)
    found, drawn = numbers(page, NAME), page.locator(ROOT).evaluate(DRAWN)
    assert find_wrong(NAME, state, found) or misdrawn(state, drawn)


def test_the_program_prints_what_is_shown(page):
    states = [{}, {"expression": " padding([7], m)\n", "n": 5, "m": 9}, *random_states(9, 8)]
    for state, values, text, _ in walk_programs(page, NAME, states):
        drawn = re.match(r"[#.\n]+", text)[0].split()
        assert [line.count("#") for line in drawn] == [
            values[f"row-{i}"] for i in range(len(drawn))
        ]
        query = min({**MASKS.STATE, **state}["query"], len(drawn) - 1)
        expected = [
            f"allowed {values['allowed']} of {values['pairs']}",
            *(f"{kind} {values[f'blocks-{kind}']} blocks" for kind in ("empty", "partial", "full")),
            f"computed {values['computed']} pairs",
            f"operations {values['operations']} or {values['operations-computed']}",
            f"nothing to see for {values['blind']}",
            f"query {query} sees {values[f'row-{query}']}",
        ]
        if "linked" in values:
            told = [f"after layer {i} it hears from {values[f'reach-{i}']}" for i in range(1, 7)]
            layers = {**MASKS.STATE, **state}["layers"]
            told.insert(layers, f"pairs joined after layer {layers}: {values['linked']}")
            expected += told
        assert text.split("\n")[len(drawn) :] == [*expected, ""], state


TOO_EARLY = "the expression ends too early. Expected next: "
UNREADABLE = [
    ("", f"1: {TOO_EARLY}causal(n) ~ ("),
    ("causal(n) &", f"12: {TOO_EARLY}causal(n) ~ ("),
    ("causal(n", f"9: {TOO_EARLY}, )"),
    ("causal(n) dyadic(n)", "11: “dyadic” cannot stand here. Expected: & |"),
    ("(causal(n) dyadic(n))", "12: “dyadic” cannot stand here. Expected: & | )"),
    ("causal(k)", "8: “k” cannot stand here. Expected: 4 n m"),
    ("causal(n) ^ dyadic(n)", "11: “^” means nothing here. A mask is made of names,"),
    ("causal(n) and dyadic(n)", "11: masks are not joined by “and”. Write & for and,"),
    ("casual(n)", "1: “casual” is not known here. Known are causal, sliding_window, dilated,"),
    (
        "~strided(n, step=3)",
        "13: strided has no argument “step”. It takes n, m, stride, alignment.",
    ),
    ("prefix_lm(n, n=3)", "14: n is given a second time. Remove one of the two."),
    ("sliding_window(n, n, 5)", "22: sliding_window takes its other arguments by name: window,"),
    ("strided(n)", "1: strided needs stride. Write stride=… in its parentheses."),
    ("causal(99)", "8: n must be a whole number from 1 to 48."),
    ("prefix_lm(n, prefix=50)", "21: prefix must be a whole number from 0 to 32."),
    (
        "global_tokens(n, positions=[0, n])",
        "28: positions has 32, which is outside the range from 0 to 31.",
    ),
    ("packed(32)", "8: lengths must be a list of whole numbers, for example [0, 3]."),
    ("sliding_window(n, window=3, is_causal=1)", "39: is_causal must be True or False."),
    ("padding([3, 5], m)", "9: 2 sequences are given, and one is drawn here. Write one length,"),
    ("packed([40, 9])", "8: lengths makes 49 queries; 1 to 48 can be drawn."),
    ("tree([1, 2, 0, -1])", "6: the parents go in a circle through node 0. Each path must end"),
    ('causal(n, alignment="left")', '21: alignment must be "top-left" or "bottom-right".'),
    (
        "causal(n, 40)",
        '8: 32 queries and 40 keys need alignment="bottom-right", as with a cache, or "top-left".',
    ),
    (
        "sliding_window(n, window=4)",
        "26: a two-sided window has its query in the middle, so 4 "
        "must be odd: 3 or 5. Or write is_causal=True.",
    ),
    ("causal(n) & packed([5, 6])", "11: & joins masks of 32 × 32 and 11 × 11 pairs. Make both"),
]


def test_what_cannot_be_read_is_said(page):
    field, told = page.locator(f"{ROOT} textarea"), problem(page, NAME)
    for written, message in UNREADABLE:
        field.fill(written)
        expect(told).to_have_text(re.compile(re.escape(f"Character {message}")))
        expect(told).not_to_contain_text("{")
        expect(field).to_have_value(written)  # nothing that was typed is lost
        expect(field).to_have_attribute("aria-invalid", "true")
        assert find_wrong(NAME, {}, numbers(page, NAME)) == []  # what was drawn before still is
    field.fill("causal(n)")
    expect(told).to_have_text("")
    expect(field).not_to_have_attribute("aria-invalid", "true")


def test_what_it_refuses_attnref_refuses_or_one_mask_cannot_be_drawn():
    """Messages speak of an error of Python, except where a picture has less room than a mask."""
    for mistaken in ("causal(n, 40)", "sliding_window(n, window=4)", "tree([1, 2, 0, -1])"):
        with pytest.raises(ValueError, match="expected"):
            MASKS.evaluate(mistaken, 32, 32)
    assert MASKS.evaluate("packed([40, 9])", 32, 32).shape == (49, 49)


def test_every_text_of_an_error_is_there():
    scripts = explorers.ROOT / "docs" / "shared" / "explorers" / NAME
    keys = set()
    for script in scripts.glob("*.js"):
        keys |= set(re.findall(r'Refused\((?:[^"()]*\? )?"([\w-]+)"', script.read_text("utf-8")))
    common = explorers.read_texts(explorers.FOLDER / "texts.yml", "en")
    assert len(keys) > 15
    assert keys <= TEXTS.keys() | common.keys()


def test_what_is_shown_in_an_address_that_cannot_be(page):
    views = [
        ({"n": 99}, "n: 99 is outside the range from 1 to 48."),
        ({"expression": ["causal(n)"]}, "Character 1: the expression ends too early."),
    ]
    assert_refused(page, NAME, views)


def is_noted(page, state):
    """Waits until the address tells a state, and nothing is to come any more."""
    page.wait_for_function(
        f"([name, state]) => JSON.stringify(({NOTED})(name)) === state && ({AT_REST})(name)",
        arg=[NAME, json.dumps(state, separators=(",", ":"), ensure_ascii=False)],
    )


def cell(page, i, j, size=32):
    """The middle of a pair on the screen."""
    box = page.locator(f"{ROOT} [data-part=ground]").bounding_box()
    width = box["width"] / size
    return box["x"] + (j + 0.5) * width, box["y"] + (i + 0.5) * width


def pointed(page):
    return page.locator(f"{ROOT} .masks-pointed")


def test_pointing_at_a_pair_says_who_sees_whom(page):
    first = "Query 27 sees keys 0, 20–27."
    expect(pointed(page)).to_have_text(first)
    page.locator(f"{ROOT} [data-part=ground]").scroll_into_view_if_needed()
    for i, j, told in (
        (12, 9, "Query 12 sees keys 0, 5–12. Key 9: allowed."),
        (20, 10, "Query 20 sees keys 0, 13–20. Key 10: forbidden, but heard from after 2 layers."),
        (5, 9, "Query 5 sees keys 0–5. Key 9: forbidden, and not heard from within 6 layers."),
        (0, 0, "Query 0 sees key 0. Key 0: allowed."),
    ):
        page.mouse.move(*cell(page, i, j))
        expect(pointed(page)).to_have_text(told)
    page.mouse.move(5, 5)
    expect(pointed(page)).to_have_text(first)
    page.mouse.move(*cell(page, 12, 9))
    page.mouse.down()
    page.mouse.move(*cell(page, 14, 2))
    page.mouse.up()
    is_noted(page, {"query": 14})
    assert find_wrong(NAME, {"query": 14}, numbers(page, NAME)) == []


def test_a_query_is_chosen_by_handle_mouse_and_keys(page):
    handle = page.locator(f"{ROOT} [data-drag]")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"], cell(page, 3, 0)[1], steps=4)
    page.mouse.up()
    is_noted(page, {"query": 3})
    handle.focus()
    steps = [("ArrowDown", 4), ("Shift+ArrowDown", 8), ("ArrowUp", 7), ("Home", 0)]
    for key, query in (*steps, ("ArrowUp", 0), ("End", 31), ("Shift+ArrowDown", 31)):
        page.keyboard.press(key)
        expect(handle).to_have_attribute("aria-valuenow", str(query))
    expect(handle).to_have_attribute("aria-valuetext", "Query 31 sees keys 0, 24–31.")
    expect(page.locator(f"{ROOT} [role=status]")).to_have_text(
        "Of 1024 pairs, 252 are allowed and 416 computed, in 26 blocks. Query 31 sees keys 0, "
        "24–31. Keys that it hears from after layer 2: 16."
    )


def test_a_query_is_chosen_by_touch(visit):
    page = visit(NAME, "pt", viewport=NARROW)
    page.locator(f"{ROOT} [data-part=ground]").scroll_into_view_if_needed()
    page.touchscreen.tap(*cell(page, 20, 10))
    is_noted(page, {"query": 20})
    expect(pointed(page)).to_have_text(
        "A consulta 20 vê as chaves 0, 13–20. Chave 10: proibida, mas chega depois de 2 camadas."
    )


def test_buttons_write_the_expression(page):
    choose, field = page.locator(f"{ROOT} .masks-join select"), page.locator(f"{ROOT} textarea")
    either = "prefix_lm(n, prefix=10) | causal(n)"
    both = f"({either}) & packed([10, 10, 12])"
    sizes = 'n, m, alignment="bottom-right"'
    for label, button, expected in (
        ("prefix_lm", "only this", "prefix_lm(n, prefix=10)"),
        ("causal", "| either", either),
        ("packed", "& both", both),
        ("packed", "~ the opposite", f"~({both})"),
        ("packed", "~ the opposite", f"({both})"),
        ("causal, n < m", "only this", f"causal({sizes})"),
        ("strided", "& both", f"causal({sizes}) & strided({sizes}, stride=6)"),
        ("padding", "only this", "padding([24], n)"),
        ("tree", "only this", "tree([-1, 0, 0, 1, 1, 2, 2, 3], past=8)"),
    ):
        choose.select_option(label=label)
        page.get_by_role("button", name=button, exact=True).click()
        expect(field).to_have_value(expected)
        expect(problem(page, NAME)).to_have_text("")
        assert find_wrong(NAME, {"expression": expected}, numbers(page, NAME)) == []
    is_noted(page, {"expression": expected})


# Chooses each pattern in turn, and presses the button that writes it alone.
CHOOSE = """root => Array.from(root.querySelectorAll(".masks-join option"), (option, place) => {
  root.querySelector(".masks-join select").selectedIndex = place
  root.querySelector("[data-join='']").click()
  const written = root.querySelector("textarea").value
  return [written, root.querySelector(".explorer-problem").textContent]
})"""


def test_every_pattern_in_the_list_makes_a_mask_at_every_size(page):
    for n in (3, 48):
        begin(page, NAME, {"n": n, "m": n})
        found = page.locator(ROOT).evaluate(CHOOSE)
        assert len(dict(found)) > 12
        assert [one for one in found if one[1]] == []


def test_the_number_at_the_cursor_is_slid_to_what_makes_a_mask(page):
    field = page.locator(f"{ROOT} textarea")
    slider = page.locator(f"{ROOT} .masks-number input")
    label = page.locator(f"{ROOT} .masks-number span")
    field.evaluate("node => { node.focus(); node.setSelectionRange(0, 0) }")
    page.keyboard.press("Home")
    expect(label).to_have_text("window=15")
    slider.focus()
    page.keyboard.press("ArrowRight")  # 16 is even: no window of two sides
    expect(label).to_have_text("window=15")
    slider.fill("22")
    expect(problem(page, NAME)).to_have_text("")
    expect(field).to_have_value(re.compile("window=21"))
    slider.fill("7")
    expect(field).to_have_value(re.compile("window=7"))
    field.evaluate("node => node.setSelectionRange(75, 75)")
    field.dispatch_event("click")
    field.press("End")
    expect(label).to_have_text("positions=0")
    slider.fill("48")  # the last token is 31
    expect(field).to_have_value(re.compile(r"positions=\[31\]\)\)$"))
    is_noted(page, {"expression": field.input_value()})
    page.click(f"{ROOT} [data-do=reset]")
    expect(label).to_have_text("positions=0")


def test_what_has_no_effect_cannot_be_moved(page):
    control = {name: page.locator(f"{ROOT} [name={name}]") for name in ("n", "m", "layers")}

    def moved(expression):
        shown_numbers(page, NAME, {"expression": expression, "m": 20})
        return {name for name, one in control.items() if one.is_enabled()}

    assert moved("causal(n)") == {"n", "layers"}
    assert moved('causal(n, m, alignment="top-left")') == {"n", "m"}
    assert moved("padding([3], m)") == {"n", "m"}  # its one row counts for n queries
    assert moved("packed([3, 5])") == {"layers"}
    assert moved("tree([-1, 0], past=3)") == set()


def test_what_the_page_says_of_it_is_true():
    """The numbers of the page, beside the explorer, in the first state unless it says otherwise."""

    def found(expression=MASKS.STATE["expression"], **state):
        return MASKS.values({**MASKS.STATE, "expression": expression, **state})

    assert found(block=1)["computed"] == found(block=1)["allowed"] == 252
    assert (found()["computed"], found(block=16)["computed"]) == (416, 768)
    assert found(block=16)["allowed-percent"] == pytest.approx(25, abs=0.5)
    assert found(block=16)["saved-percent"] == pytest.approx(75 / 3)
    strided = found("strided(n, stride=6)")
    assert (strided["allowed"], strided["computed"]) == (247, 576)
    assert strided["computed"] == found("causal(n)")["computed"]
    assert strided["linked"] == found("causal(n)")["allowed"]
    fit, loose = found("packed([8, 16, 8])"), found("packed([10, 11, 11])")
    assert (fit["blocks-full"], fit["blocks-partial"], fit["vain"]) == (24, 0, 0)
    assert (fit["allowed"], loose["allowed"]) == (384, 342)
    assert loose["computed"] * 3 == fit["computed"] * 4
    assert found('causal(n, m, alignment="bottom-right")', m=20)["blind"] == 12
    assert found('causal(n, m, alignment="bottom-right")', m=40)["blind"] == 0
    future = found("~causal(n)", query=20)
    assert future["row-31"] == 0
    assert [future[f"reach-{layer}"] for layer in range(1, 7)] == [11, 10, 9, 8, 7, 6]
    itself = found("~causal(n) | sliding_window(n, window=1)", query=20)
    assert [itself[f"reach-{layer}"] for layer in range(1, 7)] == [12] * 6


def test_a_link_shows_its_view(visit):
    state = {"expression": "causal(n) & ~dyadic(n)", "n": 19, "block": 3, "layers": 4, "query": 11}
    page = visit(NAME, "pt", state)
    field = page.locator(f"{ROOT} textarea")
    expect(field).to_have_value(state["expression"])
    expect(page.locator(f"{ROOT} [name=block]")).to_have_value("3")
    assert find_wrong(NAME, state, numbers(page, NAME)) == []
    field.fill("casual(n)")  # what is refused is said in the language of the page
    expect(problem(page, NAME)).to_contain_text("“casual”")
    expect(problem(page, NAME)).not_to_contain_text("is not known")
