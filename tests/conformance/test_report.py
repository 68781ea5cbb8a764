"""The report: an object, a text in each language, JSON and JUnit XML."""

import json
import math
import pickle
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from attnref.book import page_address
from attnref.conformance import Verdict, check
from attnref.conformance.result import WORDS
from attnref.text import LANGUAGES

RULES = ["shape", "scale", "alignment", "nan_behind_mask", "window_width", "softcap_order"]


def attention(query, key, value, is_causal=False, window_size=None):
    """Divides by d_k; each of the six verdicts is given."""
    scores = query @ key.mT / query.shape[-1]
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf)
    return torch.softmax(scores, -1) @ value


@pytest.fixture(scope="module")
def report():
    return check(attention, only=RULES, limit=None)


def test_results_say_what_was_found(report):
    found = {result.property: result.verdict for result in report.results}
    assert found == {
        "shape": Verdict.PASS,
        "scale": Verdict.WRONG,
        "alignment": Verdict.CONVENTION,
        "window_width": Verdict.NOT_ASKED,
        "softcap_order": Verdict.NOT_CLAIMED,
        "nan_behind_mask": Verdict.UNSAFE,
    }
    (failure,) = report.failures
    assert failure.property == "scale"
    assert failure.diagnosis("en") == (
        "With d_k = 64 it behaves as 1/d_k = 0.0156, expected 1/sqrt(d_k) = 0.125."
    )
    assert failure.diagnosis("pt") == (
        "Com d_k = 64 ela se comporta como 1/d_k = 0.0156, mas deveria ser 1/sqrt(d_k) = 0.125."
    )
    assert report.results[0].diagnosis() == str(report.results[0].rule.statement)


def test_cautions_fail_only_when_it_is_strict():
    report = check(attention, only=["nan_behind_mask"], limit=None)
    assert report.passed()
    assert not report.passed(strict=True)
    assert report.failures == ()


def test_the_counterexample_is_small_and_true(report):
    example = report.failures[0].counterexample
    query, key, value = map(torch.tensor, example.arguments.values())
    assert query.numel() <= 4
    torch.testing.assert_close(attention(query, key, value), torch.tensor(example.got))
    right = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), -1) @ value
    torch.testing.assert_close(torch.tensor(example.expected).float(), right)


EN = """\
Wrong in scale. Not tested: window, which it may take by another name.
attention · float32 · cpu · seed 0

wrong · scale: With d_k = 64 it behaves as 1/d_k = 0.0156, expected 1/sqrt(d_k) = 0.125.
see {page}

import torch

query = torch.tensor("""

PT = """\
Errada em scale. Não testado: window, que ela talvez receba com outro nome.
attention · float32 · cpu · semente 0

errado · scale: Com d_k = 64 ela se comporta como 1/d_k = 0.0156, mas deveria ser \
1/sqrt(d_k) = 0.125.
veja {page}

import torch

query = torch.tensor("""


@pytest.mark.parametrize(("lang", "start"), [("en", EN), ("pt", PT)])
def test_text_for_people(report, lang, start):
    text = report.text(lang)
    page = page_address("scale/scale-factor", lang)
    assert " ".join(text.split()).startswith(" ".join(start.format(page=page).split()))
    listed = report.text(lang, verbose=True).removeprefix(text)
    for verdict in Verdict:
        word = WORDS[verdict].say(lang)
        assert f"1 {word}" in report.summary(lang)
        assert f"\n{word} · " in listed


def test_tensors_too_large_to_read_are_told_by_their_shape():
    def broken(query, key, value):
        return value if query.numel() < 100 else None

    (result,) = check(broken, only=["shape"], limit=None).results
    assert re.search(r"query = float32, shape \(\d, \d, \d, \d\)", result.details("en")[1])


def test_json_for_machines(report):
    record = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert record["function"] == "attention"
    assert (record["dtype"], record["device"], record["seed"]) == ("float32", "cpu", 0)
    assert record["limit"] is None
    assert (record["passed"], record["passed_strictly"]) == (False, False)
    for result, written in zip(report.results, record["results"], strict=True):
        assert written["property"] == result.property
        assert written["verdict"] == result.verdict.value
        for lang in LANGUAGES:
            assert written["diagnosis"][lang] == result.diagnosis(lang)
            assert written["statement"][lang] == result.rule.statement.say(lang)
            assert written["page"][lang] == page_address(result.rule.page, lang)
    written = {each["property"]: each for each in record["results"]}
    assert written["shape"]["counterexample"] is None
    assert set(written["scale"]["counterexample"]) == {"arguments", "got", "expected"}
    assert "nan" in json.dumps(written["nan_behind_mask"]["counterexample"])


@pytest.mark.claim("junit-has-every-property")
@pytest.mark.parametrize("strict", [False, True])
def test_junit_for_machines(report, strict):
    suites = ElementTree.fromstring(report.to_junit("pt", strict))
    (suite,) = suites
    failures = 2 if strict else 1
    assert suite.attrib == {
        "name": "attnref check",
        "tests": "6",
        "failures": str(failures),
        "skipped": "2",
    }
    cases = {case.get("name"): case for case in suite}
    assert {case.get("classname") for case in suite} == {"attention"}
    assert list(cases["shape"]) == []
    (failure,) = cases["scale"]
    assert (failure.tag, failure.get("type")) == ("failure", "errado")
    assert failure.get("message").startswith("Com d_k = 64 ela se comporta como 1/d_k = 0.0156")
    assert page_address("scale/scale-factor", "pt") in failure.text
    assert cases["window_width"][0].tag == "skipped"
    assert cases["alignment"][0].tag == "system-out"
    assert cases["nan_behind_mask"][0].tag == ("failure" if strict else "system-out")
    assert len(suites.findall(".//failure")) == failures


def test_an_error_with_colours_is_still_xml():
    def coloured(query, key, value, is_causal=False):
        if is_causal:
            raise RuntimeError("\x1b[31mred\x1b[0m \x00 <tag> & ção")
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    xml = check(coloured, only=["causality"], limit=None).to_junit()
    (failure,) = ElementTree.fromstring(xml).findall(".//failure")
    assert re.search(r"RuntimeError: \?\[31mred\?\[0m \? <tag> & ção", failure.get("message"))


def test_a_report_can_be_pickled():
    report = check(torch.nn.functional.scaled_dot_product_attention, only=["shape"])
    assert pickle.loads(pickle.dumps(report)) == report
