"""A function that hangs, crashes or prints does so in a process of its own."""

import contextlib
import ctypes
import faulthandler
import functools
import multiprocessing
import os
import re
import resource
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref import cli
from attnref.conformance import Verdict, check, checker, isolation
from attnref.conformance.isolation import (
    CRASHED,
    HUNG,
    LATE,
    NOT_ASKED,
    OUT_OF_MEMORY,
    Unusable,
    run_isolated,
)
from attnref.conformance.verdict import Finding
from attnref.text import Text

CPU = torch.device("cpu")


def when_causal(misbehave):
    def attention(query, key, value, is_causal=False):
        if is_causal:
            misbehave()
        return fused(query, key, value)

    return attention


def hang_in_c():
    re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter for longer than anybody waits


def asked(function, *names, limit=5.0):
    report = check(function, only=names, limit=limit)
    return {result.property: result for result in report.results}


@pytest.mark.claim("hanging-properties-are-stopped")
def test_one_that_hangs_is_stopped_and_the_next_is_asked():
    start = time.monotonic()
    found = asked(when_causal(hang_in_c), "row_sums", "causality", "rectangular", limit=1.0)
    assert time.monotonic() - start < 20.0
    assert found["row_sums"].verdict is found["rectangular"].verdict is Verdict.PASS
    assert found["causality"].verdict is Verdict.WRONG
    assert found["causality"].diagnosis("en") == "It did not return within 1 s, and was stopped."
    assert found["causality"].diagnosis("pt") == "Ela não terminou em 1 s, e foi interrompida."


def test_one_that_is_held_up_once_is_asked_again(tmp_path):
    def held_up_once(query, key, value, is_causal=False):
        if is_causal and not (tmp_path / "held").exists():
            (tmp_path / "held").touch()
            time.sleep(60)
        return fused(query, key, value, is_causal=is_causal)

    for names in (("causality",), ("row_sums", "causality")):
        (tmp_path / "held").unlink(missing_ok=True)
        found = asked(held_up_once, *names, limit=1.0)
        assert {result.verdict for result in found.values()} == {Verdict.PASS}


def test_one_that_crashes_is_reported_and_the_next_is_asked():
    for how, misbehave in (
        ("SIGSEGV", lambda: ctypes.string_at(0)),
        ("exit status 3", lambda: os._exit(3)),
    ):
        found = asked(when_causal(misbehave), "causality", "rectangular")
        assert found["causality"].finding == Finding(Verdict.WRONG, CRASHED, {"how": how})
        assert found["causality"].diagnosis("en") == f"It ended its process: {how}."
        assert found["rectangular"].verdict is Verdict.PASS


def test_what_is_found_before_it_hangs_or_crashes_is_kept():
    for end in (lambda: time.sleep(60), lambda: os._exit(1)):

        def attention(query, key, value, end=end):
            if query.shape[-2] < 7:
                end()
            return torch.softmax(query @ key.mT, -1) @ value

        found = asked(attention, "oracle", limit=1.5)["oracle"]
        assert "were not scaled by 1/sqrt(d_k)" in found.diagnosis("en")


def test_one_that_never_comes_back_is_not_asked_for_ever():
    names = ["shape", "dtype", "row_sums", "convexity", "memory_growth"]
    found = asked(lambda query, key, value: time.sleep(60), *names, limit=0.3)
    assert [found[name].finding.text for name in names] == [HUNG] * 3 + [NOT_ASKED] * 2
    assert found["convexity"].diagnosis("en") == (
        "Not tested: none of the first 3 properties finished within 0.3 s."
    )


PIECE = 2**22  # bytes that one step takes
KEPT = []


def grows(step, keep):
    """Takes memory step by step; what no limit stops ends after 2 GiB."""

    def attention(query, key, value, is_causal=False):
        kept = keep if is_causal else []
        while is_causal and len(kept) < 2**31 // PIECE:
            kept.append(step())
        return fused(query, key, value, is_causal=is_causal)

    return attention


@pytest.mark.claim("growing-functions-are-stopped")
@pytest.mark.parametrize(
    ("step", "keep"),
    [(lambda: torch.ones(PIECE // 4), []), (lambda: bytearray(PIECE), KEPT)],
    ids=["tensors, given back", "bytes, kept for ever"],
)
def test_one_that_grows_step_by_step_is_stopped(step, keep, monkeypatch):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(isolation, "_SHARE", 2**28 / machine)
    found = asked(grows(step, keep), "row_sums", "causality", "own_token", "rectangular")
    for name in ("causality", "own_token"):
        assert found[name].verdict is Verdict.WRONG
        assert found[name].finding.text == OUT_OF_MEMORY, found[name].diagnosis()
        assert re.fullmatch(r"It ran out of memory \(at .+:\d+\)\.", found[name].diagnosis())
    assert found["row_sums"].verdict is found["rectangular"].verdict is Verdict.PASS


def test_a_process_may_take_half_of_the_machine_and_no_more_than_its_own_limit(monkeypatch):
    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: set_to.append(limits))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for soft in (resource.RLIM_INFINITY, 2**20):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, soft=soft: (soft, 2**60))
        isolation._limit_memory()
    assert machine // 2 < set_to[0][0] < machine // 2 + 2**36
    assert set_to[1][0] == 2**20
    assert {hard for _, hard in set_to} == {2**60}


def test_an_examiner_without_memory_says_so_too():
    def ask(name):
        raise MemoryError
        yield

    (found,) = run_isolated(["shape"], ask, CPU, 5.0)
    assert (found.verdict, found.text) == (Verdict.WRONG, OUT_OF_MEMORY)
    assert "test_isolation.py:" in found.values["place"]


def test_memory_growth_is_not_judged_by_the_clock():
    def attention(query, key, value):
        if query.shape[-2] > 100:
            time.sleep(60)
        return fused(query, key, value)

    found = asked(attention, "memory_growth", limit=1.0)["memory_growth"]
    assert (found.finding.text, found.verdict) == (HUNG, Verdict.NOT_CLAIMED)


def test_what_it_prints_is_not_seen(capfd):
    def attention(query, key, value):
        print("noise")
        print("noise", file=sys.stderr)
        os.write(1, b"noise")
        os.write(2, b"noise")
        return fused(query, key, value)

    assert asked(attention, "oracle")["oracle"].verdict is Verdict.PASS
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("no_process_stays")
def test_nothing_of_it_stays_here():
    seen = []

    def attention(query, key, value):
        seen.append(torch.get_num_threads())
        torch.manual_seed(123)
        return fused(query, key, value)

    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    assert asked(attention, "oracle")["oracle"].verdict is Verdict.PASS
    assert seen == []
    assert torch.rand(1) == expected


@pytest.mark.usefixtures("no_process_stays")
def test_a_property_that_breaks_itself_is_an_error_of_ours():
    def ask(name):
        raise ZeroDivisionError(name)
        yield

    with pytest.raises(RuntimeError, match=r"(?s)the property shape itself broke:.*ZeroDivision"):
        list(run_isolated(["shape"], ask, CPU, 5.0))


def test_what_is_too_slow_in_all_is_asked_as_long_as_its_time_lasts(monkeypatch):
    def ask(name):
        time.sleep(60.0 if name == "slow" else 0.0)
        yield None

    found = list(run_isolated(["quick", "slow", "never"], ask, CPU, limit=30.0, whole=3.0))
    late = Finding(Verdict.NOT_ASKED, LATE, {"whole": 3.0})
    assert found == [None, late, late]

    monkeypatch.setattr(checker, "_WHOLE", 0.0)
    report = check(fused, only=["shape"])
    assert report.passed()
    assert report.verdict() == (
        "Right in all that was tested. Not everything was tested: it took too long; --limit "
        "gives it more time."
    )
    assert report.results[0].diagnosis("pt").endswith("levaram 0 s, o limite para todas.")


def nothing(name):
    yield None


@pytest.mark.parametrize("where", ["elsewhere", "after CUDA", "without the device", "dead at once"])
def test_where_no_process_can_be_had_it_says_so(where, monkeypatch):
    device = CPU
    if where == "elsewhere":
        monkeypatch.setattr(sys, "platform", "darwin")
    elif where == "after CUDA":
        device = torch.device("cuda")
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    elif where == "without the device":
        device = torch.device("cuda:99")
    else:
        monkeypatch.setattr(isolation, "serve", lambda *arguments: os._exit(1))
    with pytest.raises(Unusable):
        list(run_isolated(["shape"], nothing, device, 5.0))


def test_then_it_is_asked_in_this_process(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    seen = []

    def attention(query, key, value):
        seen.append(os.getpid())
        return fused(query, key, value)

    report = check(attention, only=["oracle"])
    assert report.passed()
    assert set(seen) == {os.getpid()}
    assert report.limit is None
    assert report.text("en").endswith(
        "Tested in this very process: nothing would have stopped a call that hangs or crashes."
    )


@contextlib.contextmanager
def server(ask, device=CPU):
    """What a process of its own does, in a thread."""
    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=isolation.serve, args=(theirs, ask, device))
    thread.start()
    yield ours
    ours.close()
    thread.join(10)
    assert not thread.is_alive()


def test_the_server_answers_piece_by_piece():
    better = Finding(Verdict.WRONG, Text("a"))

    def ask(name):
        if name == "broken":
            raise KeyError(name)
        if name == "full":
            raise MemoryError
        yield None
        yield better

    with server(ask) as connection:
        assert connection.recv() is True
        connection.send("shape")
        assert [connection.recv() for _ in range(3)] == [
            ("found", None),
            ("found", better),
            ("done", None),
        ]
        connection.send("full")
        assert connection.recv()[1].text == OUT_OF_MEMORY
        assert connection.recv() == ("done", None)
        connection.send("broken")
        kind, said = connection.recv()
        assert (kind, "KeyError: 'broken'" in said) == ("broken", True)


def test_the_server_says_when_it_cannot_compute():
    with server(nothing, torch.device("cuda:99")) as connection:
        assert connection.recv() is False


def test_a_process_first_falls_silent(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(os, "dup2", lambda one, other: done.append(other))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: done.append(count))
    monkeypatch.setattr(faulthandler, "disable", lambda: done.append("faulthandler"))
    monkeypatch.setattr(isolation, "serve", lambda *arguments: print("unheard"))
    monkeypatch.setattr(isolation, "_limit_memory", lambda: done.append("memory"))
    ours, theirs = multiprocessing.Pipe()
    monkeypatch.setattr(os, "setpgid", lambda *group: done.append(group))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(prctl=lambda *what: None))
    isolation._run_child(theirs, ours, functools.partial(isolation._answer, nothing, CPU))
    assert ours.closed
    assert done == ["faulthandler", (0, 0), 1, 2, 1, "memory"]
    assert capsys.readouterr() == ("", "")


def test_a_module_that_switches_gradients_off_is_still_asked_apart():
    with torch.no_grad():
        report = check(fused, only=["gradients"], limit=5.0)
    assert report.passed()
    assert report.limit == 5.0


def gone(pid):
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(pids):
    """Whether they have ended, in ten seconds; none is left to spin where they have not."""
    end = time.monotonic() + 10
    while time.monotonic() < end and not all(map(gone, pids)):
        time.sleep(0.05)
    left = [pid for pid in pids if not gone(pid)]
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    return not left


def test_what_it_started_ends_with_it(tmp_path):
    started = tmp_path / "started"

    def attention(query, key, value):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        with started.open("a") as file:
            print(pid, file=file)
        return fused(query, key, value)

    assert asked(attention, "dtype")["dtype"].verdict is Verdict.PASS
    pids = started.read_text().split()
    assert pids
    assert all_gone(pids)


SPINS = """
import os
def attention(query, key, value):
    with open("pids", "w") as file:
        print(os.getppid(), os.getpid(), file=file)
    while True:
        pass
"""


@pytest.mark.parametrize("end", [hang_in_c, functools.partial(os._exit, 3)])
def test_what_ends_while_it_is_read_claims_nothing_that_it_may_swallow(end):
    def attention(query, key, value, **options):
        if options:
            end()
        return fused(query, key, value)

    report = check(attention, only=["shape", "causality", "scale"], limit=0.3)
    assert report.passed(strict=True)
    assert "only in part, since a call did not return" in report.read_as()
    assert "só em parte, pois uma chamada não voltou" in report.read_as("pt")
    assert [result.verdict for result in report.results] == [
        Verdict.PASS,
        Verdict.PASS,
        Verdict.NOT_CLAIMED,
    ]


def spins(folder):
    """What the command does, as in a process of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.argv = ["attnref", "check", "spins.py:attention", "--limit", "100"]
    cli.main()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_is_killed_leaves_nobody(tmp_path, number):
    (tmp_path / "spins.py").write_text(SPINS, encoding="utf-8")
    pids = tmp_path / "pids"
    parent = multiprocessing.get_context("fork").Process(target=spins, args=(tmp_path,))
    parent.start()
    while parent.is_alive() and not (pids.exists() and pids.read_text()):
        time.sleep(0.05)
    os.kill(parent.pid, number)
    parent.join()
    assert parent.exitcode == (130 if number == signal.SIGINT else -number)
    assert all_gone(pids.read_text().split())


def test_where_jax_has_computed_nothing_is_forked(monkeypatch):
    """Its threads would be lost to the fork, which waits for them without an end."""
    bridge = SimpleNamespace(_backends={})
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    assert check(fused, only=["shape"], limit=5.0).limit == 5.0
    bridge._backends["cpu"] = object()
    assert check(fused, only=["shape"], limit=5.0).limit is None
