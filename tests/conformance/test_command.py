"""The command line: what it prints, what it writes, how it ends."""

import functools
import json
import xml.etree.ElementTree as ElementTree

import pytest

MODULE = """
import torch

def right(query, key, value):
    print("noise")
    return torch.softmax(query @ key.mT * query.shape[-1] ** -0.5, -1) @ value

def leaks(query, key, value, attn_mask=None):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask)

def wrong(query, key, value, **options):
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
    status, out, err = run("mine.py:right", "--only", "oracle,causality")
    assert (status, err) == (0, "")
    assert "mine.py:right · float32 · cpu · seed 0" in out
    assert "The output is the one of the formula" in out
    assert "It takes no is_causal; its parameters are query, key, value." in out
    assert "1 pass, 1 not offered" in out
    assert "noise" not in out


def test_a_wrong_one_ends_with_1_and_says_why(run):
    status, out, _ = run("mine.py:wrong", "--only", "scale", "--lang", "pt")
    assert status == 1
    assert "Ela se comporta como 1/d_k = 0.0156; o esperado é 1/sqrt(d_k) =" in out
    assert "menor chamada encontrada:" in out
    assert "pt/scale/scale-factor/" in out
    assert "1 falha" in out


def test_the_language_is_that_of_the_locale(run, monkeypatch):
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    assert "1 passa" in run("mine.py:right", "--only", "shape")[1]
    assert "1 passa" not in run("mine.py:right", "--only", "shape", "--lang", "en")[1]


def test_strict_makes_a_caution_a_failure(run):
    assert run("mine.py:leaks", "--only", "nan_behind_mask")[0] == 0
    assert run("mine.py:leaks", "--only", "nan_behind_mask", "--strict")[0] == 1


def test_supports_leaves_options_out(run):
    only = ("--only", "causality", "--only", "softcap_order")
    assert run("mine.py:wrong", *only)[0] == 1
    status, out, _ = run("mine.py:wrong", *only, "--supports", "scale, window")
    assert status == 0
    assert "2 not offered" in out


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
    assert failure.get("type") == "falha"
    assert not json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["passed"]
    assert "1/d_k = 0.0156" in (tmp_path / "a.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["mine.py:write"], "function: expected 'write' in mine.py, which has no 'write'."),
        (["no_such:f"], "function: expected a module that can be imported, got 'no_such': "),
        (["mine.py:torch"], "function: expected something to call, got module. Name the "),
        (["mine.py:right", "--supports", "mask"], "supports: expected names among attn_mask, "),
        (["mine.py:right", "--supports", "scale"], "supports: expected options that mine.py:ri"),
        (["mine.py:right", "--only", "speed"], "only: expected names of properties, got 'speed'"),
        (["mine.py:right", "--dtype", "int8"], "dtype: expected one of float32, float64, bfloa"),
        (["mine.py:right", "--device", "cuda:99"], "device: expected one that PyTorch can compute"),
        (["mine.py:right", "--limit", "0"], "limit: expected a positive, finite number of second"),
        (["mine.py:right", "--limit", "inf"], "limit: expected a positive, finite number of seco"),
        (["mine.py:right", "--lang", "fr"], "lang: expected one of en, pt, got 'fr'."),
        (["mine.py:right", "--format", "xml"], "format: expected one of text, json, junit, got "),
        (["mine.py:right", "--only", ""], "only: expected the name of a property at least, got n"),
        (["mine.py:right", "--device", "meta"], "device: expected the name of a device, got 'met"),
        (["mine.py:right", "--device", "gpu"], "device: expected the name of a device, got 'gpu'"),
        (["mine.py:right", "--seed=-1"], "seed: expected a number from 0 to 9223372036854775807,"),
        (["mine.py:right", "-o", "."], "output: expected a file in an existing folder, got '.'."),
        (
            ["mine.py:right", "--only", "shape", "-o", "/dev/full"],
            "output: expected a file to write to, got '/dev/full': No space left on device.",
        ),
        (["mine.py:right", "-o", "no/a"], "output: expected a file in an existing folder, got 'no"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_status_2(run, arguments, start):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"attnref check: {start}")
    assert err.count("\n") == 1
