"""What pyproject.toml says of functions: read, obeyed, and refused where it is wrong."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from attnref.conformance import project
from attnref.conformance.subject import CheckError
from attnref.text import LANGUAGES

MODULE = """
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

def right(query, key, value):
    return fused(query, key, value)

def hidden(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    return scores.softmax(-1) @ value

def wrong(query, key, value):
    return (query @ key.mT / query.shape[-1]).softmax(-1) @ value

def step(query, key, value, memory):
    if memory is not None:
        key, value = (torch.cat(pair, -2) for pair in zip(memory, (key, value)))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ value, (key, value)

class Layer(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, query, key, value, window=0):
        return right(query * self.temperature, key, value)

def breaks(query, key, value):
    torch.set_default_device("meta")
    return right(query, key, value)
"""

TWO = """
[tool.attnref.check."mine.py:hidden"]
only = ["row_sums", "fully_masked"]
map = { attn_mask = "mask" }
mask-means = "forbidden"

[tool.attnref.check."mine.py:hidden".expect]
fully_masked = { verdict = "unsafe", reason = "each of our queries has a key" }

[tool.attnref.check."mine.py:wrong"]
only = ["row_sums", "scale"]
"""


@pytest.fixture
def run(attnref, monkeypatch, tmp_path):
    """Runs the command in a folder with a module and this pyproject.toml."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")

    def run(said, *arguments):
        if said is not None:
            (tmp_path / "pyproject.toml").write_text(said, encoding="utf-8")
        return attnref("check", *arguments)

    return run


def test_all_functions_are_checked_and_summed_up(run):
    status, out, err = run(TWO)
    assert (status, err) == (1, "")
    assert "Nothing wrong except what is expected. As expected: fully_masked." in out
    assert "read as: mask is attn_mask, True = forbidden" in out
    assert "(expected: each of our queries has a" in out
    assert "Wrong in scale." in out
    assert out.count("\nprint(output)\n") == 1
    assert out.endswith("2 functions; failing: mine.py:wrong.\n")
    right = TWO.replace('"scale"]', '"shape"]')
    status, out, _ = run(right, "--lang", "pt", "--seed", "1")
    assert (status, out.splitlines()[-1]) == (0, "2 funções, nenhuma falha.")
    assert "Como esperado: fully_masked." in out


@pytest.mark.claim("expectations-stay-true")
def test_what_is_expected_passes_strictly_too(run):
    assert run(TWO, "mine.py:hidden", "--strict")[0] == 0
    strict = '[tool.attnref.check."mine.py:hidden"]\nstrict = true\nonly = ["fully_masked"]'
    assert run(strict)[0] == 1


def test_a_function_that_is_named_is_checked_as_its_table_says(run, tmp_path, monkeypatch):
    status, out, _ = run(TWO, "mine.py:hidden")
    assert (status, "1 of 2 properties hold." in out, "functions" in out) == (0, True, False)
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert "1 of 2 properties hold." in run(None, "../mine.py:hidden")[1]
    assert "1 of 2 properties hold." in run(None)[1]
    status, _, err = run(None, "mine.py:hidden")  # seen from here there is none
    assert (status, "'mine.py' does not exist" in err) == (2, True)


def test_an_option_counts_more_than_a_table(run):
    assert run(TWO, "mine.py:wrong", "--only", "row_sums")[0] == 0
    seed = '[tool.attnref.check."mine.py:right"]\nonly = ["shape"]\nseed = 7'
    assert "seed 7" in run(seed)[1]
    assert "seed 0" in run(seed, "--seed", "0")[1]


@pytest.mark.claim("expectations-stay-true")
def test_what_was_expected_and_is_not_so_fails(run):
    outdated = """
        [tool.attnref.check."mine.py:wrong"]
        only = ["row_sums", "scale"]
        [tool.attnref.check."mine.py:wrong".expect]
        row_sums = { verdict = "unsafe", reason = "long ago" }
        scale = { verdict = "convention", reason = "as the paper" }
    """
    status, out, _ = run(outdated, "--format", "junit")
    assert status == 1
    failures = {case.get("name"): case[0].get("message") for case in ElementTree.fromstring(out)[0]}
    assert failures["row_sums"] == (
        "The weights of each query sum to 1. (expected: unsafe, long ago)"
    )
    assert failures["scale"].endswith("(expected: convention, as the paper)")
    status, out, _ = run(outdated, "--lang", "pt")
    assert out.startswith("Errada em scale. Diferente do esperado: row_sums, scale. Atualize")
    assert "(esperado: inseguro, long ago)" in " ".join(out.split())


def test_what_follows_from_what_is_expected_is_a_fault(run):
    status, out, _ = run(
        """
        [tool.attnref.check."mine.py:wrong"]
        only = ["scale", "oracle", "nan_seen"]
        [tool.attnref.check."mine.py:wrong".expect.scale]
        verdict = "wrong"
        reason = "as the paper"
        """
    )
    assert status == 1
    assert out.startswith("Wrong in oracle. As expected: scale.")
    assert "(may follow from scale)" in " ".join(out.split())
    assert out.count("\nprint(output)\n") == 1


def test_what_is_unsafe_beside_what_is_expected_is_said(run):
    status, out, _ = run(
        """
        [tool.attnref.check."mine.py:hidden"]
        only = ["fully_masked", "nan_behind_mask"]
        expect.fully_masked = { verdict = "unsafe", reason = "each of our queries has a key" }
        """
    )
    assert status == 0
    assert out.startswith("Except for what is expected, unsafe in nan_behind_mask. As expected: f")


def test_an_expected_convention_is_no_fault(run):
    said = """
        [tool.attnref.check."torch.nn.functional:scaled_dot_product_attention"]
        only = ["alignment", "shape"]
        expect.alignment = { verdict = "convention", reason = "square scores alone" }
    """
    status, out, _ = run(said)
    assert status == 0
    assert out.startswith("Right in all that was tested. As expected: alignment.")


def test_the_records_of_all_are_one_document(run, tmp_path):
    more = TWO + '[tool.attnref.check."mine.py:gone"]\n'
    status, out, err = run(more, "--format", "json")
    assert status == 2
    assert err.startswith("attnref check: mine.py:gone: function: mine.py has no 'gone'. It has")
    hidden, wrong, gone = json.loads(out)
    assert (hidden["passed"], wrong["passed"], gone["passed"]) == (True, False, False)
    assert "mine.py has no 'gone'" in gone["error"]
    (expected,) = [each["expected"] for each in hidden["results"] if each["expected"]]
    assert expected == {"verdict": "unsafe", "reason": "each of our queries has a key"}

    assert run(more, "--format", "junit", "-o", "all.xml", "--lang", "pt")[0] == 2
    suites = ElementTree.parse(tmp_path / "all.xml").getroot()
    assert suites.attrib == {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    assert [suite[0].get("classname") for suite in suites] == [
        f"mine.py:{name}" for name in ("hidden", "wrong", "gone")
    ]
    said = "function: mine.py não tem 'gone'. Tem: "
    assert suites[2][0][0].get("message").startswith(said)
    (skipped,) = suites.findall(".//skipped")
    assert skipped.get("message").endswith("(esperado: each of our queries has a key)")

    assert run(more, "-o", "all.txt")[0] == 2
    text = (tmp_path / "all.txt").read_text(encoding="utf-8")
    assert "\n\nWrong in scale.\nmine.py:wrong · float32 · cpu · seed 0\n" in text
    assert text.endswith("failing: mine.py:wrong. Could not be checked: mine.py:gone.\n")
    assert "\n\nmine.py:gone\nCould not be checked: function: mine.py" in text


def test_one_function_alone_needs_no_summary(run, tmp_path):
    one = '[tool.attnref.check."mine.py:right"]\nonly = ["shape"]'
    assert run(one)[1].endswith("\n1 of 1 properties hold.\n")
    run(one, "-o", "one.txt")
    written = (tmp_path / "one.txt").read_text(encoding="utf-8")
    assert written.endswith("\n1 of 1 properties hold.\n")
    assert len(json.loads(run(one, "--format", "json")[1])) == 1


def test_what_breaks_in_one_is_no_verdict_of_it_and_the_others_are_asked(run):
    status, out, err = run(
        '[tool.attnref.check."mine.py:breaks"]\nonly = ["shape"]\n'
        '[tool.attnref.check."mine.py:right"]\nonly = ["shape"]\n'
    )
    assert status == 2
    assert "This is not a verdict" in err
    assert out.endswith("1 of 1 properties hold.\n\nCould not be checked: mine.py:breaks.\n")


def test_each_key_is_obeyed(run):
    """Each is there, and says to the function what the option of its name says."""
    status, out, err = run(
        """
        [tool.attnref.check."mine.py:Layer"]
        with = { temperature = 1.0 }
        skip = ["memory_growth"]
        only = ["row_sums", "memory_growth"]
        dtype = "float64"
        device = "cpu"
        limit = 20
        layout = "bhnd"
        always-causal = false
        scale = 'lambda d: 1 / math.sqrt(d)'
        draw = { window = 128 }
        demand = { alignment = "top-left" }
        against = "mine.py:right"
        bound = 0.05
        [tool.attnref.check."mine.py:step"]
        step = true
        map = { cache = "memory" }
        only = ["past_kept"]
        [tool.attnref.check."mine.py:hidden"]
        supports = []
        approximate = true
        only = ["single_token"]
        [tool.attnref.check."mine.py:right"]
        cache = "mine.py:gone"
        """,
        "-v",
    )
    assert (status, err.count("\n")) == (2, 1)
    assert "attnref check: mine.py:right: cache: mine.py has no 'gone'. It has: " in err
    assert "mine.py:Layer · float64 · cpu · seed 0" in out
    assert "memory_growth" not in out
    assert "past_kept" in out
    assert "; approximate" in " ".join(out.split())
    assert "not claimed · single_token: Not tested: it is approximate" in out


def about(lines):
    return f'[tool.attnref.check."mine.py:right"]\n{lines}'


WRONG = {
    "": ": no table says what to check. Write for example:",
    "[tool.attnref.check]": ": no table says what to check. Write for",
    "[tool.other]": ": no table says what to check. Write for example:",
    "a = ": ": this is not a valid TOML file: Invalid value (at end of document).",
    "[tool.attnref.chek]": ", tool.attnref: 'chek' is not the name of a key",
    "tool = 3": ", tool: expected a table, got 3. Write for example tool = { ",
    "[tool.attnref.check.mine]": ", tool.attnref.check: 'mine' is not the name of a function in",
    'tool.attnref.check."mine.py:right" = 3': "{AT}: expected a table, got 3. Write for example",
    about('mask_means = "x"'): "{AT}: 'mask_means' is not the name of a key. Di",
    about('mask-means = "x"'): "{AT}: mask_means: expected one of allowed, bools, forbidden, ones",
    about('only = "scale"'): "{AT}.only: expected a list of strings, got 'scale'. Write for",
    about("only = [1]"): "{AT}.only: expected a list of strings, got [1]. Write for example",
    about('only = ["speed"]'): "{AT}: only: 'speed' is not the name of a property.",
    about('skip = ["speed"]'): "{AT}: skip: 'speed' is not the name of a property.",
    about("draw = 3"): "{AT}.draw: expected a table, got 3. Write for example draw = { window = ",
    about("scale = true"): "{AT}.scale: expected a number or a string, got True. Write for exam",
    about('demand = { aligned = "x" }'): "{AT}: demand: 'aligned' is not the name of a convention.",
    about("bound = 0.1"): "{AT}: bound: there is no error to limit. Say approximate or against",
    about("layout = 1"): "{AT}.layout: expected a string, got 1. Write for example layout =",
    about("strict = 1"): "{AT}.strict: expected true or false, got 1. Write for example st",
    about("seed = true"): "{AT}.seed: expected a whole number, got True. Write for example",
    about("seed = 0.5"): "{AT}.seed: expected a whole number, got 0.5. Write for example s",
    about("seed = -1"): "{AT}: seed: expected a number from 0 to ",
    about('limit = "1"'): "{AT}.limit: expected a number, got '1'. Write for example limit",
    about("map = { scale = 1 }"): "{AT}.map: expected a table of strings, got {'scale'",
    about("with = 1"): "{AT}.with: expected a table, got 1. Write for example with = { b",
    about("expect = 1"): "{AT}.expect: expected a table, got 1. Write for example expect =",
    about('skip = ["scale"]\nexpect.scale = { verdict = "wrong", reason = "x" }'): (
        "{AT}.expect.scale: only or skip leaves this property out, so it is not tested. Remo"
    ),
}
EXPECTED = {
    'scales = { verdict = "wrong", reason = "x" }': ": 'scales' is not the name of a prop",
    'scale = "wrong"': ".scale: expected a table, got 'wrong'. Write for example scale = { verdi",
    'scale = { verdict = "bad", reason = "x" }': ".scale.verdict: 'bad' is not a verdict.",
    'scale = { verdict = "pass", reason = "x" }': ".scale.verdict: 'pass' is not a verdict. T",
    'scale = { level = "wrong", reason = "x" }': ".scale: 'level' is not the name of a key",
    'scale = { reason = "x" }': ".scale.verdict: '' is not a verdict. There are: wrong, ",
    "scale = { verdict = 1 }": ".scale.verdict: expected a string, got 1. Write for example "
    "verdict = ",
    'scale = { verdict = "wrong" }': ".scale: the reason why this is accepted is missing",
    'scale = { verdict = "wrong", reason = " " }': ".scale: the reason why this is "
    "accepted is missing.",
}


def test_what_is_wrong_in_it_is_said_with_its_place(run):
    expected = {about(f"expect.{entry}"): "{AT}.expect" + said for entry, said in EXPECTED.items()}
    other = {}
    for text, said in (WRONG | expected).items():
        start = said.replace("{AT}", ', tool.attnref.check."mine.py:right"')
        status, out, err = run(text)
        told = err.startswith(f"attnref check: pyproject.toml{start}") and "Traceback" not in err
        if (status, out, told) != (2, "", True):
            other[text] = status, out, err
    assert other == {}


def test_a_slip_is_answered_with_what_was_meant(run):
    for said, near in (
        (about('mask_means = "x"'), "'mask-means'"),
        (about('expect.scales = { verdict = "wrong", reason = "x" }'), "'scale'"),
        (about('expect.scale = { verdict = "conventional", reason = "x" }'), "'convention'"),
    ):
        assert run(said)[2].endswith(f" Did you mean {near}?\n"), said
        assert run(said, "--lang", "pt")[2].endswith(f" Seria {near}?\n"), said


def test_without_a_file_it_says_what_to_write(run, monkeypatch):
    monkeypatch.setattr(project, "_find_file", lambda folder: None)  # there may be one above
    status, out, err = run(None)
    assert (status, out) == (2, "")
    assert "function: none is named, and there is no pyproject.toml in" in err
    assert "function: nenhuma foi indicada, e" in run(None, "--lang", "pt")[2]
    assert run(None, "mine.py:right", "--only", "shape")[0] == 0


def test_what_it_says_to_write_is_read(run, tmp_path):
    for lang in LANGUAGES:
        _, _, err = run("", "--lang", lang)
        example = err.partition(":\n\n")[2]
        assert len(example.splitlines()) == 6
        (tmp_path / "pyproject.toml").write_text(example, encoding="utf-8")
        (request,) = project.project().requests
        assert request.settings.expect["fully_masked"].reason
        assert request.settings.skip == ["memory_growth"]


def test_a_file_that_is_no_text_is_refused(run, tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    status, _, err = run(None, "mine.py:right")
    assert (status, "pyproject.toml: this is not a valid TOML file: 'utf-8'" in err) == (2, True)


def test_where_there_is_no_fork_it_is_seen_from_the_same_folder(run, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "elsewhere")
    monkeypatch.setattr(sys, "path", list(sys.path))
    one = '[tool.attnref.check."mine.py:right"]\nonly = ["shape"]'
    (tmp_path / "below").mkdir()
    run(one)
    monkeypatch.chdir(tmp_path / "below")
    status, out, _ = run(None, "-o", "here.txt")
    assert (status, out) == (0, "")
    assert (tmp_path / "below" / "here.txt").is_file()
    sys.modules.pop("checked_mine", None)


def test_the_nearest_file_counts_and_an_error_names_it_as_seen_from_here(
    run, monkeypatch, tmp_path
):
    below = tmp_path / "below"
    below.mkdir()
    run(TWO)
    monkeypatch.chdir(below)
    found = [request.function for request in project.project().requests]
    assert found == ["mine.py:hidden", "mine.py:wrong"]
    run("tool = 3")
    with pytest.raises(CheckError, match=r"^\.\./pyproject\.toml, tool: expected a table"):
        project.project()
    (below / "pyproject.toml").write_text('[tool.attnref.check."a:b"]', encoding="utf-8")
    (request,) = project.project().requests
    assert request.function == "a:b"


def test_what_is_about_one_function_wants_its_name(run):
    for option, said in (
        ("map", "attn_mask=mask"),
        ("with", "a=1"),
        ("only", "oracle"),
        ("draw", "window=128"),
        ("mask-means", "ones"),
    ):
        status, _, err = run(TWO, f"--{option}", said)
        assert status == 2
        assert err.startswith(f"attnref check: {option}: applies to one function only")
