"""What a project has judged, and what it expects, as its ``pyproject.toml`` says it."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from attnref.conformance import project
from attnref.conformance.subject import CheckError

MODULE = """
import torch

def attention(query, key, value, mask=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    return scores.softmax(-1) @ value

def unscaled(query, key, value):
    return (query @ key.mT).softmax(-1) @ value

def step(query, key, value, memory):
    if memory is not None:
        key, value = torch.cat([memory[0], key], -2), torch.cat([memory[1], value], -2)
    n, m = query.shape[-2], key.shape[-2]
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    return output, (key.clone(), value.clone())

class Layer(torch.nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(found.transpose(1, 2).flatten(2))
"""
TABLES = """
[tool.attnref.check."mine:attention"]
map = { attn_mask = "mask" }
mask-means = "forbidden"
only = ["oracle", "fully_masked"]
strict = true

[tool.attnref.check."mine:attention".expect.fully_masked]
verdict = "unsafe"
reason = "no row of ours is masked throughout"

[tool.attnref.check."mine.py:unscaled"]
skip = ["oracle"]
only = ["scale", "oracle"]
expect = { scale = { verdict = "wrong", reason = "the scale is in the queries" } }

[tool.attnref.check."mine:step"]
step = true
only = ["pieces"]
map = { cache = "memory" }
limit = 20

[tool.attnref.check."mine:Layer"]
with = { drop = 0.0 }
only = ["oracle"]
"""


@pytest.fixture
def run(attnref, monkeypatch, tmp_path):
    """Runs the command in a folder of a project; gives its exit status, output and errors."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    monkeypatch.setenv("LC_ALL", "C")

    def run(tables, *words):
        (tmp_path / "pyproject.toml").write_text(tables, encoding="utf-8")
        return attnref("check", *words)

    return run


def test_all_that_a_project_says_is_judged_and_what_it_expects_is_no_failure(run):
    status, out, err = run(TABLES)
    assert (status, err) == (0, "")
    assert "read as: mask is attn_mask, True = forbidden" in out
    assert "Right in all that was asked. As expected: fully_masked." in out
    assert "(expected: no row of ours is masked" in out
    assert "As expected: scale." in out
    assert "smallest call found" not in out  # what is accepted needs no explanation
    assert "a decoding step with a cache" in out
    assert "mine:Layer" in out


def test_in_portuguese_it_says_the_same(run):
    _, out, _ = run(TABLES, "--lang", "pt", "--seed", "1")
    assert "Como esperado: fully_masked." in out
    assert "(esperado: no row of ours is" in " ".join(out.split())


def test_what_no_longer_happens_fails(run):
    """An entry that nobody needs any more would hide the next fault."""
    stale = TABLES.replace('"wrong"', '"unsafe"').replace("fully_masked]", "oracle]")
    status, out, _ = run(stale, "-o", "-")
    assert status == 1
    flat = " ".join(out.split())
    assert "No longer as expected: oracle. Bring expect up to date." in flat
    assert "No longer as expected: scale. Bring expect up to date." in flat
    assert "(expected: unsafe, the scale is in the queries)" in flat


def test_an_unexpected_fault_fails(run):
    status, out, _ = run('[tool.attnref.check."mine:unscaled"]\nonly = ["scale"]')
    assert (status, out.startswith("Wrong in scale.")) == (1, True)


def test_reports_for_machines_hold_all_functions(run, tmp_path):
    file = tmp_path / "report.json"
    status, out, _ = run(TABLES, "--format", "json", "-o", str(file))
    assert (status, out) == (0, "")
    reports = json.loads(file.read_text(encoding="utf-8"))
    assert [each["function"] for each in reports] == [
        "mine:attention",
        "mine.py:unscaled",
        "mine:step",
        "mine:Layer",
    ]
    assert [each["passed"] for each in reports] == [True] * 4
    (scale,) = reports[1]["results"]
    assert scale["expected"] == {"verdict": "wrong", "reason": "the scale is in the queries"}
    _, out, _ = run(TABLES, "--format", "junit")
    suites = ElementTree.fromstring(out)
    assert suites.attrib == {"tests": "5", "failures": "0", "skipped": "2"}
    assert len(suites) == 4
    _, out, _ = run(TABLES, "-o", str(file))
    assert out == ""
    assert file.read_text(encoding="utf-8").count("· float32 · cpu ·") == 4


def test_what_cannot_be_asked_does_not_keep_the_others_from_it(run):
    tables = TABLES + '[tool.attnref.check."mine:nobody"]\n'
    status, out, err = run(tables)
    assert status == 2
    assert "expected 'nobody' in" in err
    assert out.count("· float32 · cpu ·") == 4


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("", "expected what to check, or the name of a function, and it says nothing"),
        ("[tool.attnref]\ncheck = 3", "it says nothing"),
        ("[tool.attnref\n", "expected a file of TOML that can be read"),
        ('[tool.attnref.chek."a:b"]', "got 'chek'. Is it check?"),
        ('[tool.attnref.check]\n"a:b" = 1', "expected a table in"),
        ('[tool.attnref.check."a:b"]\nmask_means = "ones"', "got 'mask_means'. Is it mask-means?"),
        ('[tool.attnref.check."a:b"]\nzzz = 1', "got 'zzz'. There are: supports, map"),
        ('[tool.attnref.check."a:b"]\nskip = "oracle"', "expected a list of properties, got"),
        ('[tool.attnref.check."a:b"]\nskip = ["oracl"]', "only: expected names of properties"),
        ('[tool.attnref.check."a:b"]\nseed = true', "expected a whole number, got True"),
        ('[tool.attnref.check."a:b"]\nlimit = true', "expected a number of seconds, got True"),
        ('[tool.attnref.check."a:b"]\nlimit = -1', "expected a positive, finite number"),
        ('[tool.attnref.check."a:b"]\nmap = { a = 1 }', "expected a table of names, got"),
        ('[tool.attnref.check."a:b"]\nlayout = "hbnd"', "layout: expected one of bhnd"),
        ('[tool.attnref.check."a:b"]\ndtype = "int8"', "dtype: expected one of float32"),
        ('[tool.attnref.check."a:b".expect]\noracle = "wrong"', "expected a table in"),
        (
            '[tool.attnref.check."a:b".expect]\norcle = { verdict = "wrong", reason = "so" }',
            "expect: expected names of properties, got 'orcle'",
        ),
        (
            '[tool.attnref.check."a:b".expect.oracle]\nverdict = "pass"\nreason = "so"',
            "expected one of wrong, unsafe, convention, not claimed, not asked, got 'pass'",
        ),
        (
            '[tool.attnref.check."a:b".expect.oracle]\nverdict = "wrong"\nreason = " "',
            "expected why that is accepted",
        ),
        (
            '[tool.attnref.check."a:b".expect.oracle]\nverdict = "wrong"\nreazon = "so"',
            "got 'reazon'. Is it reason?",
        ),
    ],
)
def test_what_is_written_wrongly_is_named(run, tables, said, tmp_path):
    status, out, err = run(tables)
    assert (status, out) == (2, "")
    assert err.startswith(f"attnref check: {tmp_path / 'pyproject.toml'}:")
    assert said in err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--map", "attn_mask=mask"), "map"),
        (("--with", "a=1"), "with"),
        (("--only", "oracle"), "only"),
        (("--mask-means", "ones"), "mask-means"),
    ],
)
def test_what_is_about_one_function_wants_its_name(run, words, option):
    status, _, err = run(TABLES, *words)
    assert status == 2
    assert err.startswith(f"attnref check: {option}: expected a function beside it")


def test_without_a_project_it_says_what_to_write(monkeypatch, tmp_path):
    with pytest.raises(CheckError, match="there is none in") as caught:
        project.find(tmp_path)
    assert project.EXAMPLE in str(caught.value)
    (tmp_path / "pyproject.toml").write_text(project.EXAMPLE, encoding="utf-8")
    (asked,) = project.requests(project.find(tmp_path))
    assert asked.expect["fully_masked"].reason == "no row of ours is masked throughout"
