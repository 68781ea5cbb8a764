"""The explorer of saturation: its sample, its law, its numbers and its paths."""

import itertools
import math
import random
import re

import pytest
import torch
from playwright.sync_api import expect

from attnref import softmax
from tests.site.explorers.contract import (
    AT_REST,
    assert_refused,
    find_wrong,
    first_and_more,
    module_of,
    numbers,
    problem,
    walk,
    walk_programs,
)

NAME = "saturation"
MODULE = module_of(NAME)
GRID = [
    {"d_k": d_k, "factor": factor, "n": n}
    for d_k, factor, n in itertools.product(
        (1, 32, 33, 512), ("none", "sqrt", "inverse", "own"), (2, 64, 256)
    )
]
FACTORS = ("none", "sqrt", "inverse", "own")
PATHS = """root => Object.fromEntries(Array.from(
  root.querySelectorAll("[data-path]"), path => [path.dataset.path, path.getAttribute("d")]))"""
TOKEN = re.compile(r"[A-Za-z]|-?\d+(?:\.\d+)?")


def chosen(count, seed):
    rng = random.Random(seed)
    return [
        {
            "d_k": round(2 ** rng.uniform(0, 9)),
            "factor": rng.choice(FACTORS),
            "own": round(10 ** rng.uniform(-2, 0.3), 3),
            "n": round(2 ** rng.uniform(1, 8)),
            "seed": rng.randint(1, 9999),
        }
        for _ in range(count)
    ]


def misdrawn(state, found):
    """The paths of a state that are not those that values.py draws."""
    expected = MODULE.paths({**MODULE.STATE, **state})
    assert found.keys() == expected.keys()
    return [name for name in expected if not alike(found[name], expected[name])]


def alike(one, other):
    """Whether two paths have the same commands, and numbers that differ by a rounding."""
    parts = [TOKEN.findall(path) for path in (one, other)]
    if len(parts[0]) != len(parts[1]):
        return False
    return all(
        a == b if a.isalpha() or b.isalpha() else abs(float(a) - float(b)) <= 2e-4
        for a, b in zip(*parts, strict=True)
    )


FIRST, SECOND = {"d_k": 400, "n": 256, "factor": "own"}, {"d_k": 31, "n": 3, "factor": "own"}
# Sums, tables and lines are kept from one state to the next: each is as if it were the first.
BACK = [FIRST, SECOND, {**FIRST, "seed": 2}, FIRST, {**SECOND, "own": 0.1}, SECOND]


@pytest.mark.parametrize(
    "states",
    first_and_more([*GRID[::7], *BACK, *chosen(4, 1)], ([*GRID, *chosen(60, 0)],)),
    ids=["some", "many"],
)
def test_every_number_and_path_is_that_of_the_package(page, states):
    for state, found, paths in walk(page, NAME, states, PATHS):
        assert find_wrong(NAME, state, found) == [], state
        assert misdrawn(state, paths) == [], state


@pytest.mark.parametrize(
    ("file", "right", "mistake", "lost"),
    first_and_more(
        ("sample.js", "let state = seed;", "let state = seed + 1;", "deviation-drawn"),
        ("sample.js", "Math.sin(angle)", "Math.cos(angle)", "largest-drawn"),
        ("sample.js", "last * KEPT, (last", "last * KEPT + 1, (last", "trace-drawn"),
        ("numbers.js", "sqrt: 1 / Math.sqrt(d_k)", "sqrt: 1 / d_k", "factor"),
        ("numbers.js", "lag -= power * behind", "lag -= behind", "entropy-median"),
        ("numbers.js", "1 - squared / sum / sum", "1 - squared / sum", "trace-median"),
        ("numbers.js", "(sorted[half - 1] + sorted[half]) / 2", "sorted[half]", "entropy-median"),
        ("law.js", "(n - 1) * rest / alone", "n * rest / alone", "entropy-law"),
        ("law.js", "lagging[column] = lag * scale", "lagging[column] = lag", "entropy-law"),
        ("law.js", "share ** (n - 1)", "share ** n", "largest-law"),
    ),
)
def test_a_mistake_is_noticed(spoiled, file, right, mistake, lost):
    state = {"d_k": 100, "factor": "sqrt", "n": 37}
    if right == "lagging[column] = lag * scale":
        state["factor"] = "inverse"  # the scale is 1 from a standard deviation of 1 on
    problems = find_wrong(NAME, state, numbers(spoiled(NAME, right, mistake, state, file), NAME))
    assert any(problem.startswith(f"{lost} = ") for problem in problems), problems


@pytest.mark.parametrize(
    ("right", "mistake", "lost"),
    first_and_more(
        ("Math.floor(part * bins.length)", "Math.round(part * bins.length)", "scores-bars"),
        ("Math.log2(d_k) / 9", "Math.log2(d_k) / 10", "here"),
        ("(Math.log10(deviation) + 2) / 4", "(Math.log10(deviation) + 2) / 5", "deviation-none"),
        ('"entropy" ? Math.log(n) : 1', '"entropy" ? n : 1', "entropy-sqrt-dot"),
    ),
)
def test_a_mistake_in_a_path_is_noticed(spoiled, right, mistake, lost):
    page = spoiled(NAME, right, mistake, {})
    numbers(page, NAME)
    assert lost in misdrawn({}, page.locator(f"#explorer-{NAME}").evaluate(PATHS))


@pytest.mark.claim("law-of-normal-scores")
def test_the_law_is_what_normal_scores_give_on_average():
    """Its integrals against rows that are drawn: they differ by what is left to chance."""
    rows, unlike = 20_000, {}
    for sigma, n in itertools.product((0.1, 1.0, 8.0, 40.0), (2, 64, 256)):
        generator = torch.Generator().manual_seed(n)
        scores = torch.randn(rows, n, generator=generator, dtype=torch.float64)
        weights = softmax.stable(sigma * scores)
        found = weights.amax(-1), softmax.entropy(weights), 1 - weights.square().sum(-1)
        for sample, expected in zip(found, MODULE.law(sigma, n), strict=True):
            chance = sample.std().item() / math.sqrt(rows)
            if not abs(sample.mean().item() - expected) < 4.5 * chance + 1e-9:
                unlike.setdefault((sigma, n), []).append((sample.mean().item(), expected))
    assert unlike == {}


def test_the_law_joins_entropy_and_trace():
    """H = ln Z - Σ p s, and the mean of Σ p s is σ² times that of the trace: so its slope in σ,
    that of the mean of ln Z being σ times the trace, is -σ² times the slope of the trace - σ tr.
    """
    step = 1e-3
    for sigma, n in itertools.product((0.3, 1.0, 5.0), (2, 30, 256)):
        (_, above, upper), (_, below, lower) = (
            MODULE.law(sigma + change, n) for change in (step, -step)
        )
        trace = MODULE.law(sigma, n)[2]
        slope = -sigma * trace - sigma**2 * (upper - lower) / (2 * step)
        assert (above - below) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_the_numbers_are_mulberry32():
    """A generator with a name, whose first numbers for the seed 1 are known."""
    uniform = [known + 0.5 / 2**32 for known in (0.6270739405881613, 0.002735721180215478)]
    radius = math.sqrt(-2 * math.log(uniform[0]))
    expected = [f(2 * math.pi * uniform[1]) * radius for f in (math.cos, math.sin)]
    torch.testing.assert_close(MODULE.normals(1, 2).tolist(), expected)
    many = MODULE.normals(7, 200_000)
    assert abs(many.mean()) < 0.01
    assert abs(many.square().mean() - 1) < 0.015
    assert abs(many.pow(4).mean() - 3) < 0.1
    assert abs((many[:-1] * many[1:]).mean()) < 0.01


def test_the_program_prints_what_is_shown(page):
    told = 'root => Array.from(root.querySelectorAll("tbody td"), cell => cell.textContent)'
    for _, _, printed, cells in walk_programs(page, NAME, [{}, *chosen(3, 2)], told):
        table = [line.split() for line in printed.splitlines()[1:]]
        expected = [float(cell.replace("−", "-")) for cell in cells if cell]
        found = [float(cell) for line in table for cell in line[1:]]
        assert found == pytest.approx(expected, abs=1.01e-4)
        assert [line[0] for line in table] == ["deviation", "largest", "entropy", "trace"]


def becomes(page, name, value):
    """Waits until a control has a value, and its state is shown."""
    expect(page.locator(f"#explorer-{NAME} input[name={name}]")).to_have_value(value)
    page.wait_for_function(AT_REST, arg=NAME)


def test_the_width_is_dragged_in_a_plot(page):
    plot = page.locator(f"#explorer-{NAME} [data-drag]").nth(2)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    becomes(page, "d_k", "23")
    page.mouse.move(box["x"] + 2 * box["width"], box["y"] + 20)
    becomes(page, "d_k", "512")
    assert find_wrong(NAME, {"d_k": 512}, numbers(page, NAME)) == []
    page.mouse.up()
    page.mouse.move(box["x"] + 10, box["y"] + 20)
    becomes(page, "d_k", "512")


def test_keys_move_a_slider_by_at_least_one(visit):
    """Its steps are quarters of an octave, and so less than one where the width is small."""
    page = visit(NAME, state={"d_k": 6, "n": 2})
    for name, keys in (("d_k", ["7", "8", "10"]), ("n", ["3", "4", "5", "6", "7", "8", "10"])):
        slider = page.locator(f"#explorer-{NAME} [data-octaves={name}]")
        slider.focus()
        for expected in keys:
            page.keyboard.press("ArrowRight")
            becomes(page, name, expected)
        expect(slider).to_have_attribute("aria-valuetext", keys[-1])
        page.keyboard.press("ArrowLeft")
        becomes(page, name, "8")
    for key, width in (("End", "512"), ("Home", "1")):
        page.locator(f"#explorer-{NAME} [data-octaves=d_k]").press(key)
        becomes(page, "d_k", width)


def test_drawing_again_gives_the_next_sample(visit):
    page = visit(NAME, state={"seed": 9999})
    for seed in ("1", "2"):
        page.click(f"#explorer-{NAME} [data-draw]")
        becomes(page, "seed", seed)
    assert page.evaluate("decodeURIComponent(location.search)").endswith('"seed":2}')
    assert find_wrong(NAME, {"seed": 2}, numbers(page, NAME)) == []


def test_typing_a_factor_chooses_it(page):
    page.fill(f"#explorer-{NAME} [name=own]", "0.25")
    expect(page.locator(f"#explorer-{NAME} [name=factor][value=own]")).to_be_checked()
    said = page.locator(f"#explorer-{NAME} [role=status]")
    expect(said).to_contain_text("factor 0.2500")
    state = {"factor": "own", "own": 0.25}
    assert find_wrong(NAME, state, numbers(page, NAME)) == []
    assert misdrawn(state, page.locator(f"#explorer-{NAME}").evaluate(PATHS)) == []


def test_what_cannot_be_shown_is_named(page):
    for name, typed, message in (
        ("d_k", "513", "width d_k: 513 is outside the range from 1 to 512."),
        ("d_k", "2.5", "width d_k: 2.5 is not a whole number."),
        ("n", "1", "number of keys n: 1 is outside the range from 2 to 256."),
        ("seed", "", "number of the sample: a number is expected here, for example 1."),
        ("own", "0", "your own factor: 0 is outside the range from 0.01 to 2."),
    ):
        field = page.locator(f"#explorer-{NAME} [name={name}]")
        field.fill(typed)
        expect(problem(page, NAME)).to_have_text(message)
        expect(field).to_have_attribute("aria-invalid", "true")
        kept = {"factor": "own"} if name == "own" else {}
        assert find_wrong(NAME, kept, numbers(page, NAME)) == []


def test_an_address_that_cannot_be_shown_says_so(page):
    message = "your own factor: 3 is outside the range from 0.01 to 2."
    assert_refused(page, NAME, [({"own": 3}, message)])


def test_the_page_says_what_there_is_to_see():
    """The four things to try, in numbers."""
    start = MODULE.STATE
    none, usual, inverse = (
        MODULE.values({**start, "d_k": 512, "factor": factor})
        for factor in ("none", "sqrt", "inverse")
    )
    assert none["trace-median"] < 0.1 * none["trace-drawn"]
    assert 0.45 < usual["entropy-most"] - usual["entropy-law"] < 0.55
    assert inverse["largest-law"] < 1.2 / 64
    assert 1 - 1 / 64 - inverse["trace-drawn"] < 1e-4
    narrow, wide = (
        [MODULE.values({**start, "d_k": d_k, "seed": seed}) for seed in range(1, 21)]
        for d_k in (1, 64)
    )
    gaps = [
        sum(abs(one["deviation-drawn"] / one["deviation-law"] - 1) for one in those)
        for those in (narrow, wide)
    ]
    assert gaps[0] > 3 * gaps[1]
    products = (MODULE.normals(1, 40_000).view(2, -1)).prod(0)
    assert (products.square().square().mean() / products.square().mean() ** 2) > 6
