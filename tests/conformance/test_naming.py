"""A function that is named is loaded and asked in a process of its own: what that process does."""

import multiprocessing
import os
import pickle
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref.conformance import naming
from attnref.conformance.checker import judge
from attnref.conformance.settings import Settings
from attnref.conformance.subject import CheckError, subject
from attnref.text import Text


def found():
    return subject(fused, name="mine")


def asked(about):
    return judge(about, Settings(only=["shape"]))


@pytest.fixture
def said(monkeypatch):
    """What the process sends to its parent, one after the other, if this is the process."""
    done = []
    monkeypatch.setattr(naming, "os", SimpleNamespace(dup2=lambda *files: done.append(files)))
    monkeypatch.setattr(torch, "set_num_threads", done.append)
    monkeypatch.setattr(sys, "argv", ["attnref", "check"])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def said(find, judge):
        ours, theirs = multiprocessing.Pipe()
        naming._host(find, judge, theirs)
        theirs.close()
        assert done == [(2, 1), 1]
        assert (sys.argv, sys.dont_write_bytecode) == (["attnref"], True)
        while True:
            try:
                yield ours.recv()
            except EOFError:
                return

    return said


def test_it_says_that_it_has_loaded_and_hands_over_the_report(said):
    loaded, (kind, report) = said(found, lambda about: about.name)
    assert (loaded, kind, pickle.loads(report)) == (("loaded", None), "report", "mine")


def refuse():
    raise CheckError("function: no.")


def break_off(about):
    raise RuntimeError("the property shape itself broke")


def test_it_hands_over_what_went_wrong(said):
    assert list(said(refuse, asked)) == [("refused", Text("function: no."))]


def test_it_hands_over_what_broke(said):
    _, broken = said(found, break_off)
    assert broken == ("broken", "the property shape itself broke")


def test_it_hands_over_the_traceback_of_what_nobody_foresaw(said):
    _, (kind, trace) = said(found, lambda about: 1 / 0)
    assert kind == "broken"
    assert trace.startswith("Traceback")
    assert "ZeroDivisionError" in trace


def test_a_report_comes_out_as_it_would_here():
    here, there = asked(found()), naming.judge_named("mine", found, asked, 60.0)
    assert there == here
    assert there.results[0].rule is here.results[0].rule


@pytest.mark.usefixtures("no_process_stays")
def test_it_may_hang_or_end_while_it_is_asked():
    with pytest.raises(CheckError, match=r"before it could be tested: exit status 3\. Fix it"):
        naming.judge_named("mine", found, lambda about: os._exit(3), 60.0)
    with pytest.raises(RuntimeError, match="itself broke"):
        naming.judge_named("mine", found, break_off, 60.0)
