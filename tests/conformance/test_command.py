"""The command line: what it prints, what it writes, how it ends."""

import functools
import json
import re
import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest

from attnref.book import page_address

MODULE = """
import torch

def right(query, key, value):
    print("noise")
    return torch.softmax(query @ key.mT * query.shape[-1] ** -0.5, -1) @ value

def leaks(query, key, value, attn_mask=None):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask)

def wrong(query, key, value, is_causal=False, softcap=None, scale=None, window=None):
    return torch.softmax(query @ key.mT / query.shape[-1], -1) @ value
"""


@pytest.fixture
def run(attnref, monkeypatch, tmp_path):
    """Runs the command beside a module; gives its exit status, output and errors."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")

    return functools.partial(attnref, "check")


def test_a_right_function_ends_with_0(run):
    status, out, err = run("mine.py:right", "--only", "oracle,causality", "-v")
    assert (status, err) == (0, "")
    assert "mine.py:right · float32 · cpu · seed 0" in out
    assert "The output is the one of the formula" in out
    assert "It takes no is_causal; its parameters are query, key, value." in out
    assert "1 of 2 properties hold; 1 not tested: it takes no is_causal (1)." in out
    assert "noise" not in out


def test_a_wrong_one_ends_with_1_and_says_why(run):
    status, out, _ = run("mine.py:wrong", "--only", "scale", "--lang", "pt")
    assert status == 1
    assert "Com d_k = 64 ela se comporta como 1/d_k = 0.0156, mas deveria ser 1/sqrt(d_k) =" in out
    assert "from mine import wrong" in out
    assert page_address("scale/scale-factor", "pt") in out
    assert "errado · scale: " in out
    assert "0 de 1 propriedades valem." in out
    assert out.startswith("Errada em scale.")


def test_what_holds_is_a_line_until_it_is_asked_for(run):
    only = ("--only", "shape,row_sums")
    statement = "row_sums: The weights of each query sum to 1."
    brief, whole = run("mine.py:right", *only)[1], run("mine.py:right", *only, "--verbose")[1]
    assert "2 of 2 properties hold." in brief
    assert (statement in brief, f"pass · {statement}" in whole) == (False, True)
    assert whole.startswith(brief.rstrip("\n"))


def test_the_language_is_that_of_the_locale(run, monkeypatch):
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    assert "1 de 1 propriedades valem" in run("mine.py:right", "--only", "shape")[1]
    assert "1 of 1 properties" in run("mine.py:right", "--only", "shape", "--lang", "en")[1]


def test_strict_makes_what_is_unsafe_a_failure(run):
    assert run("mine.py:leaks", "--only", "nan_behind_mask")[0] == 0
    assert run("mine.py:leaks", "--only", "nan_behind_mask", "--strict")[0] == 1


def test_supports_leaves_options_out(run):
    only = ("--only", "causality", "--only", "softcap_order")
    assert run("mine.py:wrong", *only)[0] == 1
    status, out, _ = run("mine.py:wrong", *only, "--supports", "scale, window")
    assert status == 0
    assert "2 not tested: it takes no is_causal, softcap (2)." in out


def test_what_is_skipped_is_not_asked(run):
    status, out, _ = run("mine.py:wrong", "--only", "shape,scale", "--skip", "scale")
    assert (status, "1 of 1 properties hold." in out, "scale:" in out) == (0, True, False)


def test_json_is_all_that_is_printed(run):
    status, out, _ = run("mine.py:right", "--only", "shape", "--format", "json", "--seed", "7")
    record = json.loads(out)
    assert status == 0
    assert (record["seed"], record["function"], record["limit"]) == (7, "mine.py:right", 10.0)


def test_reports_are_written_to_files(run, tmp_path):
    for name, arguments in {
        "a.xml": ("--format", "junit", "--lang", "pt"),
        "a.json": ("--format", "json"),
        "a.txt": (),
    }.items():
        status, out, _ = run("mine.py:wrong", "--only", "scale", "-o", name, *arguments)
        assert (status, out) == (1, "")
    (failure,) = ElementTree.parse(tmp_path / "a.xml").findall(".//failure")
    assert failure.get("type") == "errado"
    assert not json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["passed"]
    assert "1/d_k = 0.0156" in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_github_is_told_where_the_function_is(run, tmp_path):
    (tmp_path / "a,b%.py").write_text(MODULE, encoding="utf-8")
    for strict, kind in ((), "warning"), (("--strict",), "error"):
        only = ("--only", "nan_behind_mask", "--format", "github", *strict)
        status, out, _ = run("a,b%.py:leaks", *only)
        said, report = out.split("\n", 1)
        assert status == (kind == "error")
        assert said.startswith(
            f"::{kind} file=a%2Cb%25.py,line=8,title=unsafe · nan_behind_mask::NaN in the"
        )
        assert said.endswith(f"%0Asee {page_address('foundations/mask-traps', 'en')}")
        assert report.startswith("Right for ordinary inputs; unsafe in nan_behind_mask.\n")
    only = ("--only", "shape,oracle,scale,alignment", "--format", "github", "-o", "said.txt")
    assert run("mine.py:wrong", *only)[:2] == (1, "")
    first, report = (tmp_path / "said.txt").read_text(encoding="utf-8").split("\n", 1)
    assert first.startswith("::error file=mine.py,line=11,title=wrong · scale::With d_k = 64")
    assert "%0AMay follow from it: oracle.%0Asee " in first
    assert "::notice" not in report
    assert run("mine.py:right", "--only", "shape", "--format", "github")[1].startswith("Right in")


def test_on_a_terminal_it_shows_how_far_it_is(run, monkeypatch):
    only = ("mine.py:right", "--only", "shape,row_sums")
    quiet = run(*only)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    status, out, err = run(*only)
    assert (status, out, "") == quiet
    assert re.search(r"shape .*0/2.*row_sums .*1/2", err, re.DOTALL)
    assert err.endswith("\x1b[2K")  # and nothing of it stays
    assert run(*only, "-o", "said.txt")[2] == run(*only, "--format", "json")[2] == ""


REFUSED = [
    (["mine.py:write"], "function: mine.py has no 'write'. It has: leaks, right"),
    (["no_such:f"], "function: the module 'no_such' cannot be imported: "),
    (["mine.py:torch"], "function: an object of type module cannot be called. "),
    (["mine.py:right", "--supports", "mask"], "supports: there is no option 'mask'. "),
    (["mine.py:right", "--supports", "scale"], "supports: mine.py:right does not take"),
    (["mine.py:right", "--only", "speed"], "only: 'speed' is not the name of a pro"),
    (["mine.py:right", "--dtype", "int8"], "dtype: expected one of float32, float64, bfloa"),
    (["mine.py:right", "--device", "cuda:99"], "device: PyTorch cannot compute on"),
    (["mine.py:right", "--limit", "0"], "limit: expected a positive, finite number of second"),
    (["mine.py:right", "--limit", "inf"], "limit: expected a positive, finite number of seco"),
    (["mine.py:right", "--lang", "fr"], "lang: expected one of en, pt, got 'fr'."),
    (
        ["mine.py:right", "--format", "xml"],
        "format: expected one of text, json, junit, github, got ",
    ),
    (["mine.py:right", "--only", ""], "only: no property is named. Name"),
    (["mine.py:right", "--device", "meta"], "device: 'meta' is not the name of a "),
    (["mine.py:right", "--map", "mask"], "map: 'mask' is not name=value. Write for "),
    (["mine.py:right", "--draw", "beta"], "draw: 'beta' is not name=value. Write for exam"),
    (["mine.py:right", "--scale", "d"], "scale: 'd' is neither a number nor a function of d_k"),
    (["mine.py:right", "--scale", "lambda d: d / 0"], "scale: 'lambda d: d / 0' is neither a"),
    (["mine.py:right", "--demand", "group=tile"], "demand: 'group' is not the name of a conv"),
    (["mine.py:right", "--demand", "groups=tiles"], "demand: 'tiles' is not a choice of groups. D"),
    (
        ["mine.py:right", "--approximate", "--bound=-1"],
        "bound: expected a positive, finite number, ",
    ),
    (["mine.py:right", "--against", "mine.py:gone"], "against: mine.py has no 'gone'. It has: "),
    (["mine.py:right", "--against", "mine.py:torch"], "against: expected a function, got module."),
    (["mine.py:right", "--map", "mask=m"], "map: there is no option 'mask'. There are: "),
    (["mine.py:right", "--map", "scale=s"], "map: mine.py:right has no parameter 's'; it"),
    (["mine.py:right", "--device", "gpu"], "device: 'gpu' is not the name of a device"),
    (["mine.py:right", "--seed=-1"], "seed: expected a number from 0 to 9223372036854775807,"),
    (["mine.py:right", "-o", "."], "output: '.' is not a file in an existing"),
    (
        ["mine.py:right", "--only", "shape", "-o", "/dev/full"],
        "output: cannot write to '/dev/full': No space left on device.",
    ),
    (["mine.py:right", "-o", "no/a"], "output: 'no/a' is not a file in an existing"),
]


def test_what_cannot_be_run_is_one_line_and_status_2(run):
    other = {}
    for arguments, start in REFUSED:
        status, out, err = run(*arguments)
        told = err.startswith(f"attnref check: {start}") and err.count("\n") == 1
        if (status, out, told) != (2, "", True):
            other[" ".join(arguments)] = status, out, err
    assert other == {}


ODD = """
import argparse, ctypes, os, sys, threading, time
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

class Silent(Exception):
    def __str__(self):
        raise ValueError("no words")

def wordless(query, key, value):
    raise Silent

def moves_the_default(query, key, value):
    torch.set_default_device("meta")
    return fused(query, key, value)

def others_names(query, key, value, mask=None, causal=False):
    return fused(query, key, value)

def windowed(query, key, value, window_size=None):
    return fused(query, key, value)

def renamed(query, key, value, mask=None, causal=False):
    return fused(query, key, value, mask, is_causal=causal)

class Layer(torch.nn.Module):
    def forward(self, query, key, value):
        output = fused(query, key, value)
        return output + 1 if self.training else output

layer = Layer()

def coloured(query, key, value):
    raise RuntimeError("\\x1b[31mred")

def silent(query, key, value):
    pass
"""


@pytest.fixture
def odd(run, tmp_path):
    (tmp_path / "odd.py").write_text(ODD, encoding="utf-8")
    return run


def test_what_breaks_in_the_checker_is_status_2_and_no_verdict(odd):
    for name in ("wordless", "moves_the_default"):
        status, out, err = odd(f"odd.py:{name}", "--only", "shape,dtype")
        assert (status, out) == (2, "")
        assert " itself broke:\nTraceback" in err
        assert "This is not a verdict" in err


def test_what_is_not_recognised_is_pointed_out(odd):
    options = ("--only", "shape,window_width")
    status, out, _ = odd("odd.py:windowed", *options)
    assert status == 0
    assert "Not tested: window, which it may take by another name." in out
    said = " ".join(out.split())
    assert "Its window_size may be window, and was not tested: --map window=window_size" in said
    assert "O parâmetro window_size pode ser window, e não foi testado: --map window=win" in odd(
        "odd.py:windowed", *options, "--lang", "pt", "-o", "-"
    )[1].replace("\n", " ")
    out = odd("odd.py:windowed", *options, "--format", "json")[1]
    assert json.loads(out)["overlooked"] == {"window": "window_size"}


def test_a_mask_by_another_name_is_recognised_and_can_be_said(odd):
    for mapped in ((), ("--map", "attn_mask=mask", "--map", "is_causal=causal")):
        options = ("--only", "mask_polarity,causality", *mapped)
        status, out, _ = odd("odd.py:renamed", *options)
        assert (status, "2 of 2 properties hold.\n" in out) == (0, True)
        assert mapped or "read as: mask is attn_mask, True = may attend; causal is is_causal" in out
        status, out, _ = odd("odd.py:others_names", *options)
        assert (status, "Wrong in mask_polarity, causality." in out) == (1, True)


def test_the_method_of_a_module_is_judged_as_the_module(odd):
    assert odd("odd.py:layer", "--only", "oracle")[0] == 0
    assert odd("odd.py:layer.forward", "--only", "oracle")[0] == 0


def test_what_a_terminal_would_obey_is_not_printed(odd):
    status, out, err = odd("odd.py:coloured", "--only", "shape")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "\x1b" not in err
    assert "?[31mred" in err


def test_one_root_cause_is_explained_once(odd):
    _, out, _ = odd("odd.py:silent", "--only", "shape,dtype,row_sums", "-o", "-")
    assert "Wrong in shape. Fix that first: 2 more may follow from it." in out
    assert "May follow from it: dtype, row_sums." in out
    assert out.count(f"see {page_address('foundations/matrix-form', 'en')}") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os._exit(0)", "ended its process before it could be tested: exit status 0. Fix it"),
        ("ctypes.string_at(0)", "ended its process before it could be tested: SIGSEGV. Fix it"),
        ("time.sleep(60)", "did not load within 6 s. Fix it"),
        ("argparse.ArgumentParser().parse_args()", None),
        ("torch.set_grad_enabled(False)", None),
    ],
)
@pytest.mark.usefixtures("no_process_stays")
def test_loading_is_guarded(odd, tmp_path, line, said):
    (tmp_path / "loads.py").write_text(f"{ODD}\n{line}\n", encoding="utf-8")
    start = time.monotonic()
    status, out, err = odd("loads.py:renamed", "--only", "shape", "--limit", "1")
    assert time.monotonic() - start < 30
    if said is None:
        assert (status, "1 of 1 properties hold" in out) == (0, True)
        assert "very process" not in out
    else:
        assert (status, out) == (2, "")
        assert err.startswith("attnref check: function: loads.py:renamed ")
        assert said in err
    assert not (tmp_path / "__pycache__").exists()


@pytest.fixture
def without_fork(odd, monkeypatch):
    odd("odd.py:renamed", "--only", "shape")  # what it imports looks at the platform, too
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.mark.usefixtures("without_fork")
def test_where_there_is_no_fork_it_is_loaded_here(odd):
    status, out, _ = odd("odd.py:renamed", "--only", "shape")
    assert (status, "1 of 1 properties hold" in out, "very process" in out) == (0, True, True)


@pytest.mark.usefixtures("without_fork")
def test_without_a_fork_a_step_is_loaded_here_too(odd, tmp_path):
    (tmp_path / "steps.py").write_text(
        "import torch\n\ndef step(query, key, value, cache):\n"
        "    if cache is not None:\n"
        "        key, value = torch.cat([cache[0], key], -2), torch.cat([cache[1], value], -2)\n"
        "    mask = torch.ones(query.shape[-2], key.shape[-2]).tril(\n"
        "        key.shape[-2] - query.shape[-2]\n    ).bool()\n"
        "    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)\n"
        "    return output, (key.clone(), value.clone())\n",
        encoding="utf-8",
    )
    status, out, _ = odd("steps.py:step", "--step", "--only", "pieces")
    assert (status, "1 of 1 properties hold" in out) == (0, True)
