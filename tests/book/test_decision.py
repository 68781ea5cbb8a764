"""The decision leads to one name by four questions at most, and what it tells to type works."""

import re
from pathlib import Path

import pytest
import torch

import attnref
from attnref import masks, variants
from attnref.record import Example
from book.page import BookError, front_matter, headings
from book.stage import decision

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / decision.FILE
MADE = decision.read(FILE)
METHODS = {method.function.__name__: method for method in variants.records().values()}
HEADS, LENGTH, WIDTH = 4, 256, 64


def given(name, dtype=torch.float64):
    """What the call of an end takes, by the names that it uses."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(3, 1, HEADS, LENGTH, WIDTH, generator=generator, dtype=torch.float64)
    query, key, value = tokens.to(dtype)
    scope = {"generator": generator, "length": LENGTH, "query": query, "key": key, "value": value}
    if "call" not in MADE["ends"][name]:
        return scope | METHODS[name].arguments(Example(query, key, value, generator))
    return scope | {
        "tokens_of_the_stream": list(
            zip(*(x.split(1, dim=-2) for x in (query, key, value)), strict=True)
        ),
        "tokens": torch.randn(LENGTH, HEADS * WIDTH, generator=generator).to(dtype),
        "sink": torch.randn(HEADS, generator=generator).to(dtype),
        "few_keys": key[:, :2],
        "few_values": value[:, :2],
        "attn_mask": masks.strided(LENGTH, stride=7),
        "drafts": query[..., -6:, :],
        "parents": [-1, 0, 0, 1, 1, 2],
        "past": LENGTH - 6,
    }


def called(name, scope):
    """What an end's call gives, run as it is printed; what it makes for that joins the scope."""
    exec(decision.call(name, MADE["ends"][name]), scope)
    return scope["output"]


@pytest.mark.parametrize("name", MADE["ends"])
def test_each_call_runs_as_printed(name):
    """In float32, the dtype of what a caller makes without naming one."""
    output = called(name, given(name, torch.float32))
    assert output.isfinite().all()
    assert output.abs().max() > 0
    assert name.rpartition(".")[2] in decision.call(name, MADE["ends"][name])


def expected(name, t):
    """What the definition gives where an end promises it, or None."""
    if name in ("float8", "gate", "sink") or "before" in MADE["ends"][name]:
        return None
    define = attnref.scaled_dot_product_attention
    query, key, value = (t[side] for side in ("query", "key", "value"))
    if name in METHODS and "call" not in MADE["ends"][name]:
        method = METHODS[name]
        causal = {"is_causal": True} if method.takes("is_causal") else {}
        arguments = {one: t[one] for one in method.signature.parameters if one in t}
        return None if method.formula is None else method.formula(**arguments, **causal)
    if name == "blockwise_attention":
        return define(query, key, value, t["attn_mask"])
    if name == "masks.tree":
        return define(t["drafts"], key, value, masks.tree(t["parents"], past=t["past"]))
    if name == "StreamingCache":
        seen = torch.arange(LENGTH)
        return define(query[..., -1:, :], key, value, ((seen < 4) | (seen >= LENGTH - 60))[None])
    if name == "enable_gqa":
        key, value = (t[few].repeat_interleave(2, 1) for few in ("few_keys", "few_values"))
    return define(query, key, value, is_causal=True)


EXACT = [name for name in MADE["ends"] if expected(name, given(name)) is not None]


@pytest.mark.claim("decision-is-exact")
@pytest.mark.parametrize("name", EXACT)
def test_what_should_be_the_definition_is_it(name):
    """In float64, within rounding: sums of 256 terms of order 1, after products of 64."""
    scope = given(name)
    output = called(name, scope)
    torch.testing.assert_close(output, expected(name, scope), rtol=0, atol=1e-11)


@pytest.mark.claim("decision-is-exact")
def test_whoever_needs_the_definition_gets_it():
    """Each end below the first answer to the first question is tested to be exact."""
    promised = {way[-1] for way in decision.ways(MADE, FILE) if way[1] == "phase"}
    assert promised <= set(EXACT)
    assert len(promised) > 8


@pytest.mark.parametrize("language", sorted(decision.LANGUAGES))
def test_each_end_leads_to_its_page(language):
    for name, end in MADE["ends"].items():
        path, _, anchor = end["page"].partition("#")
        text = (ROOT / "docs" / language / path).read_text(encoding="utf-8")
        assert front_matter(text, ROOT / "docs" / language / path)["title"]
        assert not anchor or anchor in [heading.id for heading in headings(text)]
        if name.removesuffix("_attention") in variants.records():
            assert f'"attnref/variants/{name.removesuffix("_attention")}.py:' in text  # its core


@pytest.mark.parametrize("language", sorted(decision.LANGUAGES))
def test_the_page_asks_every_question_and_shows_every_end(language):
    first = next(iter(MADE["questions"]))
    lines = decision.question_lines(MADE, first, language, ROOT / "docs" / language)
    text = "\n".join(lines)
    for question in MADE["questions"].values():
        assert question["ask"][language] in text
        for answer in question["answers"]:
            assert f'??? choice "{answer[language]}"' in text
    for name, end in MADE["ends"].items():
        assert f"**`{name}`**" in text
        assert end["given up"][language] in text
        assert all(line.strip() in text for line in decision.call(name, end).splitlines())
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
        ("page: x.md, ", "", "x: expected given up, page"),
        ("call: x(), ", "", "x: expected a call, since snippets/reference/api/index/calls.out has"),
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
    with pytest.raises(BookError, match=re.escape(f"{path}: {message}")):
        decision.read(path)
