"""The calculator of costs: its numbers are attnref's, and it is moved by hand, finger and key."""

import itertools
import json
import random
import re

import pytest
from playwright.sync_api import expect

from tests.site.explorers.contract import (
    AT_REST,
    assert_refused,
    expected_numbers,
    find_wrong,
    first_and_more,
    module_of,
    numbers,
    problem,
    walk,
    walk_programs,
)

NAME = "cost"
MODULE = module_of(NAME)
ATTENTIONS = (
    *("grouped", "multi-head", "multi-query", "all-pairs", "plain"),
    *("window", "latent", "linear", "quantized"),
)
PHASES = ("training", "prefill", "decoding")
FORMATS = ("bfloat16", "float8_e4m3fn")
QUANTITIES = ("operations", "bytes", "cache", "seconds")
ROOT = f"#explorer-{NAME}"


def is_refused(state):
    return state["attention"] == "quantized" and state["phase"] == "training"


def grid():
    """Each attention in each phase, with what else there is to choose in turn."""
    turns = zip(
        itertools.product(ATTENTIONS, PHASES),
        itertools.cycle(MODULE.MODELS),
        itertools.cycle(QUANTITIES),
        itertools.cycle((*MODULE.MACHINES, "own")),
        itertools.cycle(MODULE.DTYPES),
        strict=False,
    )
    for (attention, phase), model, quantity, machine, dtype in turns:
        state = {"attention": attention, "phase": phase, "model": model, "quantity": quantity}
        if not is_refused(state):
            yield {**state, "machine": machine, "dtype": dtype}


def random_states(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        kv_heads = draw.choice((1, 2, 3, 8, 13))
        state = {
            "model": draw.choice((*MODULE.MODELS, "own", "own", "own")),
            "layers": draw.randint(1, 200),
            "width": draw.randint(1, 20_000),
            "heads": kv_heads * draw.randint(1, 20),
            "kv_heads": kv_heads,
            "head_dim": draw.randint(1, 300),
            "phase": draw.choice(PHASES),
            "n": round(2 ** draw.uniform(4, 20)),
            "batch": draw.choice((1, 1, 7, 64, 1000)),
            "dtype": draw.choice(tuple(MODULE.DTYPES)),
            "attention": draw.choice(ATTENTIONS),
            "window": round(2 ** draw.uniform(0, 20)),
            "latent": draw.randint(1, 2000),
            "bits": draw.randint(1, 16),
            "machine": draw.choice((*MODULE.MACHINES, "own")),
            "speed": round(draw.uniform(0.01, 5000), 3),
            "bandwidth": round(draw.uniform(0.01, 20), 3),
            "parameters": round(10 ** draw.uniform(-3, 4), 3),
            "gigabytes": draw.choice((1, 24, 80, 100_000)),
            "quantity": draw.choice(QUANTITIES),
        }
        if not is_refused(state):
            yield state


MODELS = [
    {"model": model, "phase": phase, "attention": "latent", "quantity": "bytes"}
    for model, phase in zip(MODULE.MODELS, itertools.cycle(("prefill", "decoding")), strict=False)
]
UNITS = """root => Object.fromEntries(Array.from(root.querySelectorAll("[data-unit]"),
  node => [node.dataset.unit, node.textContent]))"""


@pytest.mark.parametrize(("count", "seed"), first_and_more((12, 0), (200, 1)))
def test_numbers_and_units_are_as_the_package_says(page, count, seed):
    """Each attention in each phase, each model, and states at random."""
    states, compared = [*grid(), *MODELS, *random_states(count, seed)], 0
    assert len(states) > 40
    for place, (state, found, units) in enumerate(walk(page, NAME, states, UNITS)):
        assert find_wrong(NAME, state, found) == [], state
        if place % 2 or count > 100:
            expected = MODULE.drawing({**MODULE.STATE, **state})["units"]
            assert {name: units[name] for name in expected} == expected, state
        # Whole numbers are exact as far as JavaScript knows them.
        texts = {name: text for name, _, text in found}
        for name, value in expected_numbers(NAME, json.dumps(state)).items():
            if isinstance(value, int) and value < 2**53 and not re.search(r"-at-|brief", name):
                assert texts[name] == str(value), (name, state)
                compared += 1
    assert compared > 200


# A gigabyte of weights, and another of keys and values, in two.
FULL = {"model": "own", "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 1000, "n": 250_000}
FULL |= {"parameters": 0.5, "machine": "own", "gigabytes": 2, "attention": "grouped"}


@pytest.mark.parametrize(
    ("right", "mistake", "state"),
    first_and_more(
        # A crossing is at the first length at which it holds.
        ("LONGEST) + 1", "LONGEST)", {"attention": "window"}),
        # Weights are stored in the chosen format.
        ("parameters * BYTES[dtype]", "parameters * 2", {"dtype": "float32"}),
        # A machine that is full to the last byte is one machine.
        ("Math.ceil(all / memory)", "Math.floor(all / memory) + 1", FULL),
        # What fits is counted to the last token.
        ("length, batch) <= memory", "length, batch) < memory", FULL),
        # A causal mask leaves n (n + 1) / 2 pairs, not half of n².
        ("n * (n + 1) / 2", "n * n / 2", {"n": 17, "attention": "grouped"}),
        # Keys that heads share are read once.
        ("(h * n + kv * m) * (dk + dv)", "(h * n + h * m) * (dk + dv)", {"attention": "grouped"}),
        # A step of training is three passes.
        ("(training ? 3 : 1)", "(training ? 2 : 1)", {"phase": "training"}),
        # While decoding, a window reads no more keys than it has.
        ('kind === "window" ? Math.min', 'kind === "wide" ? Math.min', {"phase": "decoding"}),
        # Latents are read once, for keys and values.
        ("moved(-size * b * m * latent)", "moved(0)", {"attention": "latent", "phase": "decoding"}),
        # The unit for exponentials has work of its own.
        ("(rate ? operations - exponentials", "(rate ? operations", {"machine": "H100"}),
        # Steps take bits, too.
        ("+ 32 * 2 * b * kv * m", "", {"attention": "quantized"}),
        # A mask moves bytes in the plain formula.
        ("2 * size * scores + n * m : 0", "2 * size * scores : 0", {"attention": "plain"}),
    ),
)
def test_a_mistake_in_the_numbers_is_noticed(spoiled, right, mistake, state):
    assert find_wrong(NAME, state, numbers(spoiled(NAME, right, mistake, state), NAME)) != []


PROGRAMS = [
    {},
    {"attention": "grouped", "phase": "training", "model": "llama-3.1-8b", "n": 100},
    {"attention": "plain", "phase": "training", "model": "gpt-2", "n": 1000},
    {"attention": "plain", "phase": "decoding", "dtype": "float32"},
    {"attention": "window", "phase": "decoding", "machine": "B200"},
    {"attention": "window", "window": 100, "n": 33},
    {"attention": "latent", "model": "deepseek-v3", "phase": "training"},
    {"attention": "latent", "phase": "decoding", "batch": 3, "dtype": "float8_e4m3fn"},
    {"attention": "linear", "machine": "A100"},
    {"attention": "linear", "phase": "decoding"},
    {"attention": "quantized", "phase": "decoding", "bits": 3, "machine": "example"},
    {"attention": "multi-query"},
    {"attention": "multi-head", "machine": "own", "speed": 3.5, "bandwidth": 0.25},
    {"attention": "all-pairs", "model": "own", "heads": 6, "kv_heads": 3, "layers": 5},
]
LINE = re.compile(
    r"(\w+): (\d+) operations, (\d+) bytes,\n  (\S+) per byte, (\S+) s, limited by (\w+)"
)


def test_the_program_prints_what_is_shown(page):
    limits_told = """root => Array.from(root.querySelectorAll("[data-limit]"),
      node => node.textContent)"""
    words = {"compute": "arithmetic", "exponential": "exponentials", "memory": "memory"}
    for state, found, printed, limits in walk_programs(page, NAME, PROGRAMS, limits_told):
        lines = LINE.findall(printed)
        assert [line[0] for line in lines] == ["core", "full", "projections"], state
        for (name, operations, moved, intensity, seconds, limit), told in zip(
            lines, limits, strict=True
        ):
            assert found[f"{name}-operations"] == pytest.approx(int(operations), rel=1e-12)
            assert found[f"{name}-bytes"] == pytest.approx(int(moved), rel=1e-12)
            assert found[f"{name}-intensity"] == pytest.approx(float(intensity))
            assert found[f"{name}-seconds"] == pytest.approx(float(seconds))
            assert told == words[limit], state
        kept = re.search(r"cache: (\d+) bytes, full: (\d+) bytes", printed)
        assert [found["core-cache"], found["full-cache"]] == [int(one) for one in kept.groups()]
        held = re.search(r"weights and cache: (\d+) bytes, of (\d+)", printed)
        assert [found["held-GB"], found["memory-GB"]] == [int(one) / 1e9 for one in held.groups()]
        scores = re.search(r"scores of a layer: (\d+) bytes", printed)
        assert found["full-scores"] == int(scores[1])


def becomes(page, tokens):
    """Waits until the length is this, and shown."""
    expect(page.locator(f"{ROOT} [name=n]")).to_have_value(str(tokens))
    page.wait_for_function(AT_REST, arg=NAME)


def place(page, x):
    """A point of the screen, from one of the chart."""
    box = page.locator(f"{ROOT} .cost-chart").bounding_box()
    return box["x"] + x / 560 * box["width"], box["y"] + box["height"] / 2


def test_the_length_is_dragged_by_mouse(page):
    page.locator(f"{ROOT} .cost-chart").scroll_into_view_if_needed()
    for _ in range(2):  # what the first leaves selected is not what the second drags
        page.mouse.move(*place(page, MODULE.x_position(2**10)))
        page.mouse.down()
        becomes(page, 2**10)
        page.mouse.move(*place(page, MODULE.x_position(2**17)), steps=3)
        page.mouse.up()
        becomes(page, 2**17)
        page.mouse.move(*place(page, MODULE.x_position(2**6)))
        becomes(page, 2**17)
    assert find_wrong(NAME, {"n": 2**17}, numbers(page, NAME)) == []


def test_the_length_is_set_by_keys_and_said(page):
    handle = page.locator(f"{ROOT} [role=slider]")
    handle.focus()
    steps = [("ArrowRight", 38968), ("ArrowLeft", 32768), ("Shift+ArrowLeft", 16384)]
    steps += [("ArrowDown", 13777), ("End", 2**20), ("ArrowUp", 2**20), ("Home", 16)]
    for key, expected in steps:
        page.keyboard.press(key)
        becomes(page, expected)
        expect(handle).to_have_attribute("aria-valuenow", str(expected))
        expect(handle).to_have_attribute("aria-valuetext", re.compile(f"^{expected} tokens: "))
    said = page.locator(f"{ROOT} .explorer-said")
    expect(said).to_contain_text("Mistral 7B, prefill, 16 tokens")


TYPED_AT_ONCE = """fields => {
  for (const [selector, typed] of fields) {
    const field = document.querySelector(selector)
    field.value = typed
    field.dispatchEvent(new InputEvent("input", {bubbles: true}))
  }
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))
}"""


def test_bad_input_is_refused_with_the_reason_and_nothing_is_lost(page):
    before, told = numbers(page, NAME), problem(page, NAME)
    n, window = (page.locator(f"{ROOT} [name={name}]") for name in ("n", "window"))
    for field, typed, message in (
        (n, "8", "Tokens: 8 is outside the range from 16 to 1048576."),
        (n, "", "Tokens: a number is expected here, for example 16."),
        (n, "32768", ""),
        (window, "0", "Keys in the window: 0 is outside the range from 1 to 1048576."),
        (window, "4096", ""),
    ):
        field.fill(typed)
        expect(told).to_have_text(message)
    assert numbers(page, NAME) == before
    # What is refused stays as it was typed, although the frame of the change before it comes later.
    page.evaluate(TYPED_AT_ONCE, [[f"{ROOT} [name=n]", "16384"], [f"{ROOT} [name=window]", "0"]])
    expect(told).to_contain_text("Keys in the window: 0 is outside the range")
    expect(window).to_have_value("0")
    window.fill("4096")
    page.select_option(f"{ROOT} [name=attention]", "quantized")
    page.select_option(f"{ROOT} [name=phase]", "training")
    expect(told).to_contain_text("Attention: keys and values of few bits are counted for prefill")


def test_own_sizes_begin_with_those_of_the_model_and_heads_change_together(page):
    page.select_option(f"{ROOT} [name=model]", "llama-3.1-70b")
    page.select_option(f"{ROOT} [name=model]", "own")
    expect(page.locator(f"{ROOT} [name=layers]")).to_be_visible()
    sizes = dict(zip(MODULE.FIELDS, MODULE.MODELS["llama-3.1-70b"][1:6], strict=True))
    sizes["parameters"] = 70.554
    for field, size in sizes.items():
        expect(page.locator(f"{ROOT} [name={field}]")).to_have_value(str(size))
    page.fill(f"{ROOT} [name=heads]", "12")
    expect(problem(page, NAME)).to_have_text(
        "Key heads: 8 do not divide the 12 heads. Each key head serves as many heads, so take a "
        "divisor of 12, or change the number of heads."
    )
    page.fill(f"{ROOT} [name=kv_heads]", "6")
    expect(problem(page, NAME)).to_have_text("")
    state = {**sizes, "model": "own", "attention": "grouped", "heads": 12, "kv_heads": 6}
    assert find_wrong(NAME, state, numbers(page, NAME)) == []


def test_a_link_to_what_cannot_be_shown_says_why(page):
    views = [
        ({"model": "gpt-9"}, "Model: gpt-9 is none of bert-base"),
        ({"model": "own", "kv_heads": 5}, "Key heads: 5 do not divide the 32 heads."),
        ({"bandwidth": -1}, "10¹² bytes/s: -1 is outside the range from 0.001 to 10000."),
    ]
    assert_refused(page, NAME, views)


def test_only_what_matters_is_asked(page):
    asked = {"window": ["window"], "latent": ["latent"], "quantized": ["bits"], "linear": []}
    for attention, fields in asked.items():
        page.select_option(f"{ROOT} [name=attention]", attention)
        for field in ("window", "latent", "bits"):
            expect(page.locator(f"{ROOT} [name={field}]")).to_be_visible(visible=field in fields)


def test_the_answer_is_the_first_thing_one_reads(page):
    verdict = page.locator(f"{ROOT} .cost-verdict > :not([hidden])")
    asked = "Inference with {} ({}): {} tokens, a batch of 1, H100."
    for model, n, answer in (
        (
            "Mistral 7B",
            32768,
            "It fits.|Weights 14.5 GB + KV cache 0.54 GB = 15.0 of 80 GB."
            "|One machine has room for any number of tokens, or for a batch of 122.",
        ),
        (
            "Llama 3.1 8B",
            131072,
            "It fits.|Weights 16.1 GB + KV cache 17.2 GB = 33.2 of 80 GB."
            "|One machine has room for 487819 tokens in each sequence, or for a batch of 3.",
        ),
        (
            "Llama 3.1 8B",
            1048576,
            "It does not fit: it takes at least 2 machines."
            "|Weights 16.1 GB + KV cache 137 GB = 153 of 80 GB."
            "|One machine has room for 487819 tokens in each sequence.",
        ),
        (
            "Llama 3.1 70B",
            16,
            "It does not fit: it takes at least 2 machines."
            "|Weights 141 GB + KV cache 0.01 GB = 141 of 80 GB."
            "|The weights alone are larger than the memory of one machine.",
        ),
    ):
        page.select_option(f"{ROOT} [name=model]", label=model)
        kind = "sliding window" if "Mistral" in model else "causal, the model's key heads"
        page.fill(f"{ROOT} [name=n]", str(n))
        expect(verdict).to_have_text(
            [asked.format(model, kind, n), *answer.split("|")], use_inner_text=True
        )
    said = page.locator(f"{ROOT} .explorer-said")
    expect(said).to_contain_text("It does not fit: it takes at least 2 machines.")


def test_what_the_page_says_of_it_is_so():
    """The numbers in the text around the picture, in both languages the same."""

    def at(**state):
        return MODULE.values({**MODULE.STATE, **state})

    assert at(n=4096)["core-operations"] == at(n=4096)["full-operations"]
    assert at()["saves"] == 4097
    longest = at(n=2**20)
    assert round(longest["full-operations"] / longest["core-operations"]) == 128
    assert "overtakes" not in longest
    llama = {"model": "llama-3.1-8b", "attention": "grouped", "phase": "decoding"}
    shared = at(**llama)
    assert shared["core-operations"] == shared["full-operations"]
    assert shared["core-bytes"] / shared["full-bytes"] == pytest.approx(1 / 4, rel=1e-3)
    assert shared["core-cache"] * 4 == shared["full-cache"]
    assert at(**llama, quantity="bytes")["overtakes"] == 20493
    assert at(**llama, quantity="bytes", batch=64)["overtakes"] == 333
    gpt = {"model": "gpt-2", "attention": "plain"}
    small = at(**gpt, n=1024)
    assert round(small["core-bytes"] / small["full-bytes"]) == 33
    assert small["core-operations"] / small["full-operations"] == pytest.approx(2, rel=0.02)
    latent = at(model="deepseek-v3", attention="latent", phase="decoding", n=131072)
    assert round(latent["core-operations"] / latent["full-operations"]) == 4
    assert round(latent["full-bytes"] / latent["core-bytes"]) == 46

    def limit(n, **state):
        state = {**MODULE.STATE, **state}
        return MODULE.roofline(state, MODULE.spent(state, "core", n)).bound

    causal = {"model": "gpt-2", "attention": "grouped"}
    limits = " ".join(limit(n, **causal) for n in (16, 1165, 1166, 2**20))
    assert limits == "memory memory compute compute"
    earlier = [at(**causal, n=n) for n in (1160, 1161)]  # by the row, which counts exponentials
    assert [one["core-intensity"] > one["ridge"] for one in earlier] == [False, True]
    assert int(earlier[0]["ridge"]) == 295
    assert {limit(2**octave, **gpt) for octave in range(4, 21)} == {"memory"}
    large = {"model": "llama-3.1-70b", "attention": "grouped", "n": 131072}
    wide, narrow = (MODULE.fit({**MODULE.STATE, **large, "dtype": one}) for one in FORMATS)
    assert [round(wide[f"{name}-GB"]) for name in ("weights", "kept")] == [141, 43]
    assert (wide["machines"], narrow["machines"], narrow["room-tokens"]) == (3, 2, 57655)
    assert round(narrow["weights-GB"]) == 71
