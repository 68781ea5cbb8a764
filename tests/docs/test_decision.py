"""The decision leads to one name by four questions at most, and what it tells to type works."""

import re
from pathlib import Path

import decision
import pytest
import torch
from mkdocs.exceptions import PluginError
from pages import front_matter, headings

import attnref
from attnref import masks, variants

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / decision.FILE
MADE = decision.read(FILE)
HEADS, LENGTH, WIDTH = 4, 256, 64


def given(dtype=torch.float64):
    """What the calls take, by the names that they use."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    query, key, value = drawn(3, HEADS, LENGTH, WIDTH)
    return {
        "generator": generator,
        "length": LENGTH,
        "query": query,
        "key": key,
        "value": value,
        "newest": query[:, -1:],
        "tokens_of_the_stream": list(
            zip(*(x.split(1, dim=1) for x in (query, key, value)), strict=True)
        ),
        "few_keys": key[:2],
        "few_values": value[:2],
        "tokens": drawn(LENGTH, HEADS * WIDTH),
        "attn_mask": masks.strided(LENGTH, stride=7),
        "cu_seqlens": torch.tensor([0, 100, 210, LENGTH]),
        "layout": torch.eye(8, dtype=torch.bool) | (torch.arange(8) == 2),
        # Two texts of 50 and 23 tokens in pages of 16, and a text with six drafts at its end.
        "queries": drawn(2, HEADS, 1, WIDTH),
        "key_pages": drawn(6, 16, HEADS, WIDTH),
        "value_pages": drawn(6, 16, HEADS, WIDTH),
        "block_table": torch.tensor([[4, 0, 3, 1], [2, 5, -1, -1]]),
        "lengths": torch.tensor([50, 23]),
        "drafts": query[:, -6:],
        "parents": [-1, 0, 0, 1, 1, 2],
        "past": LENGTH - 6,
        "latent": drawn(LENGTH, 24),
        "key_up": drawn(HEADS, WIDTH, 24) / 5,
        "value_up": drawn(HEADS, WIDTH, 24),
        "log_decay": -drawn(HEADS, LENGTH).abs(),
        "beta": drawn(HEADS, LENGTH).sigmoid(),
        "bias": drawn(HEADS, 2 * LENGTH - 1),
        "sink": drawn(HEADS),
        "index_query": drawn(2, LENGTH, 8),
        "index_key": drawn(LENGTH, 8),
        "index_weights": drawn(2, LENGTH),
        "gates": drawn(HEADS, LENGTH, 3).sigmoid(),
    }


def called(name, tensors):
    """What an end's call gives, run as it is printed."""
    scope = dict(tensors)
    exec(MADE["ends"][name]["call"], scope)
    return scope["output"]


@pytest.mark.parametrize("name", MADE["ends"])
def test_each_call_runs_as_printed(name):
    """In float32, the dtype of what a caller makes without naming one."""
    output = called(name, given(torch.float32))
    assert output.isfinite().all()
    assert output.abs().max() > 0
    assert name.rpartition(".")[2] in MADE["ends"][name]["call"]


def of_pages(tensors):
    """The keys and values of each text, taken out of their pages."""
    for table, length in zip(tensors["block_table"], tensors["lengths"], strict=True):
        pages = table[table >= 0]
        yield tuple(
            tensors[pool][pages].flatten(0, 1)[:length].transpose(0, 1)
            for pool in ("key_pages", "value_pages")
        )


def expected(name, t):
    """What the definition gives where an end promises it, or None."""
    define = attnref.scaled_dot_product_attention
    causal = masks.causal(LENGTH)
    if name == "paged_attention":
        pairs = zip(t["queries"], of_pages(t), strict=True)
        return torch.stack([define(query, *cached) for query, cached in pairs])
    if name == "latent_attention":
        key, value = (t["latent"] @ t[up].mT for up in ("key_up", "value_up"))
        return define(t["query"], key, value, is_causal=True)
    if name == "enable_gqa":
        key, value = (t[few].repeat_interleave(2, 0) for few in ("few_keys", "few_values"))
        return define(t["query"], key, value, is_causal=True)
    seen = torch.arange(LENGTH)
    query, mask = {
        "torch.nn.functional.scaled_dot_product_attention": ("query", causal),
        "blockwise_attention": ("query", t["attn_mask"]),
        "sliding_window_attention": (
            "query",
            masks.sliding_window(LENGTH, window=64, is_causal=True),
        ),
        "varlen_attention": ("query", masks.packed([100, 110, 46])),
        "block_sparse_attention": (
            "query",
            masks.block_layout(LENGTH, layout=t["layout"], block_size=32),
        ),
        "kv_cache_attention": ("newest", None),
        "masks.tree": ("drafts", masks.tree(t["parents"], past=t["past"])),
        "StreamingCache": ("newest", (seen < 4) | (seen >= LENGTH - 60)),
    }.get(name, (None, None))
    if query is None:
        return None
    if isinstance(mask, masks.Mask):
        mask = mask.dense()
    return define(t[query], t["key"], t["value"], mask)


EXACT = [name for name in MADE["ends"] if expected(name, given()) is not None]


@pytest.mark.claim("decision-is-exact")
@pytest.mark.parametrize("name", EXACT)
def test_what_should_be_the_definition_is_it(name):
    """In float64, within rounding: sums of 256 terms of order 1, after products of 64."""
    tensors = given()
    torch.testing.assert_close(called(name, tensors), expected(name, tensors), rtol=0, atol=1e-11)


@pytest.mark.claim("decision-is-exact")
def test_whoever_needs_the_definition_gets_it():
    """Each end below the first answer to the first question is tested to be exact."""
    promised = {way[-1] for way in decision.ways(MADE, FILE) if way[1] == "phase"}
    assert promised <= set(EXACT)
    assert len(promised) > 8


def test_at_most_four_questions_lead_to_each_variant():
    ways = decision.ways(MADE, FILE)
    assert max(map(len, ways)) - 1 == decision.LONGEST
    reached = {way[-1] for way in ways}
    assert reached == set(MADE["ends"])
    assert set(variants.__all__) <= reached


@pytest.mark.parametrize("language", sorted(decision.LANGUAGES))
def test_each_end_leads_to_its_page(language):
    for name, end in MADE["ends"].items():
        path, _, anchor = end["page"].partition("#")
        text = (ROOT / "docs" / language / path).read_text(encoding="utf-8")
        assert front_matter(text)["title"]
        assert not anchor or anchor in [heading.id for heading in headings(text)]
        if name in variants.__all__:
            assert f'"attnref/variants/{name.removesuffix("_attention")}.py:' in text  # its core


@pytest.mark.parametrize("language", sorted(decision.LANGUAGES))
def test_the_page_asks_every_question_and_shows_every_end(language):
    first = next(iter(MADE["questions"]))
    lines = decision.asked(MADE, first, language, ROOT / "docs" / language)
    text = "\n".join(lines)
    for question in MADE["questions"].values():
        assert question["ask"][language] in text
        for answer in question["answers"]:
            assert f'??? choice "{answer[language]}"' in text
    for name, end in MADE["ends"].items():
        assert f"**`{name}`**" in text
        assert end["given up"][language] in text
        assert all(line.strip() in text for line in end["call"].splitlines())
    assert {int(number) for number in re.findall(r"\*\*(\d)\. ", text)} == {1, 2, 3, 4}
    assert "](blockwise.md)" in text
    assert "](../complexity/when-quadratic.md)" in text


WHOLE = """
questions:
  a: {short: {en: A, pt: A}, ask: {en: a?, pt: a?}, answers: [
    {en: one, pt: um, to: x}, {en: two, pt: dois, to: b}]}
  b: {short: {en: B, pt: B}, ask: {en: b?, pt: b?}, answers: [
    {en: one, pt: um, to: x}, {en: two, pt: dois, to: y}]}
ends:
  x: {page: x.md, call: x(), given up: {en: all, pt: tudo}}
  y: {page: y.md, call: y(), given up: {en: all, pt: tudo}}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("questions:", "asked:", "expected questions and ends"),
        ("page: x.md, ", "", "x: expected call, given up, page"),
        ("short: {en: B, pt: B}, ", "", "b: expected answers, ask, short"),
        ("{en: b?, pt: b?}", "{en: b?}", "b: expected a text in en and in pt, got {'en': 'b?'}"),
        ("{en: two, pt: dois, to: y}", "{en: two, to: y}", "b: expected a text in en and in pt"),
        ("given up: {en: all, pt: tudo}}\n  y", "given up: {en: all}}\n  y", "x: expected a text"),
        ("{en: two, pt: dois, to: y}", "{en: two, pt: dois, to: z}", "b: no question or end 'z'"),
        ("{en: two, pt: dois, to: y}", "{en: two, pt: dois}", "b: no question or end None"),
        (", {en: two, pt: dois, to: y}", "", "b: expected two answers or more"),
        ("{en: two, pt: dois, to: y}", "{en: two, pt: dois, to: x}", "y: no answer leads there"),
        ("{en: two, pt: dois, to: y}", "{en: two, pt: dois, to: a}", "a > b > a > b > a: more"),
    ],
)
def test_a_decision_that_is_not_whole_stops_the_build(tmp_path, old, new, message):
    path = tmp_path / "decision.yml"
    path.write_text(WHOLE, encoding="utf-8")
    ways = decision.ways(decision.read(path), path)
    assert ways == [["a", "x"], ["a", "b", "x"], ["a", "b", "y"]]
    assert old in WHOLE
    path.write_text(WHOLE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PluginError, match=re.escape(f"{path}: {message}")):
        decision.read(path)
