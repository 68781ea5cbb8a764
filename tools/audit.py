"""Breaks what the test of each claim calls, and lists the claims whose test notices none of it.

    python tools/audit.py            every claim
    python tools/audit.py CLAIM …    these, with each mutant that survives

A test runs once to see which functions of the project it calls, then once a mutant, each in a
process of its own, until an assertion of the test fails. A mutant that stops with another error
shows nothing and does not count. A test that calls nothing of the project stands alone: then its
own statements are broken, but not its assertions nor their tolerances.
"""

import argparse
import ast
import builtins
import gc
import importlib.machinery
import itertools
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import NamedTuple

import pytest
from mutants import Place, places

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "hooks"))

from claims import tests_by_claim  # noqa: E402

MUTANTS = 40  # of a claim, at most
ITEMS = 8  # of a claim's parametrised tests, at most
SECONDS = 60  # for one run of them
PATIENCE = 240  # for a claim: no mutant is begun later
FORK = multiprocessing.get_context("fork")


class Verdict(NamedTuple):
    """What came of the mutants of a claim."""

    claim: str
    tests: str
    verdict: str  # "killed", "kills none", "no mutant", or why the test itself does not pass
    alone: bool
    tried: int
    survivors: list[str]


class Auditor:
    """A plugin of pytest that runs mutants in place of the tests that were collected."""

    def __init__(self, root: Path, claims: list[str]) -> None:
        self.root, self.claims, self.verdicts = root, claims, []
        self.failed: list[BaseException] = []
        self.outcomes: set[str] = set()

    def pytest_runtest_logreport(self, report) -> None:
        self.outcomes.add(report.outcome)

    def pytest_runtest_makereport(self, item, call) -> None:
        if call.excinfo:
            self.failed.append(call.excinfo.value)

    def pytest_runtestloop(self, session) -> bool:
        items: dict[str, list] = {}
        for item in session.items:
            for marker in item.iter_markers("claim"):
                if not self.claims or marker.args[0] in self.claims:
                    items.setdefault(marker.args[0], []).append(item)
        waiting, done = FORK.SimpleQueue(), FORK.SimpleQueue()
        workers = [FORK.Process(target=self.work, args=(items, waiting, done)) for _ in range(2)]
        for claim in [*items, *[None] * len(workers)]:
            waiting.put(claim)
        for worker in workers:
            worker.start()
        for number in range(1, len(items) + 1):
            self.verdicts.append(verdict := Verdict(*done.get()))
            if sys.stderr.isatty() or len(items) > 1:
                print(f"{number}/{len(items)} {verdict.claim}: {verdict.verdict}", file=sys.stderr)
        for worker in workers:
            worker.join()
        return True

    def work(self, items, waiting, done) -> None:
        while claim := waiting.get():
            step = -(-len(items[claim]) // ITEMS)
            done.put(tuple(self.judge(claim, items[claim][::step])))

    def judge(self, claim: str, items: list) -> Verdict:
        tests = ", ".join(dict.fromkeys(item.nodeid.partition("[")[0] for item in items))
        outcome, executed = self.apart(items, None, 10 * SECONDS)
        if outcome != "passed":
            return Verdict(claim, tests, f"the test itself {outcome}", False, 0, [])
        project = {file: lines for file, lines in executed.items() if not self.is_test(file)}
        alone = not project
        found = list(self.chosen(claim, project or executed))
        survivors, tried, start = [], 0, time.monotonic()
        for file, tree, place in found if self.claims else found[:MUTANTS]:
            if time.monotonic() - start > PATIENCE:
                break
            outcome, _ = self.apart(items, (file, tree, place), SECONDS)
            tried += 1
            if outcome == "killed" and not self.claims:
                return Verdict(claim, tests, "killed", alone, tried, survivors)
            survivors.append(f"{os.path.relpath(file, self.root)}:{place} ({outcome})")
        killed = any(survivor.endswith("(killed)") for survivor in survivors)
        verdict = "killed" if killed else "kills none" if tried else "no mutant"
        return Verdict(claim, tests, verdict, alone, tried, survivors)

    def is_test(self, file: str) -> bool:
        return Path(file).is_relative_to(self.root / "tests")

    def chosen(self, claim: str, executed: dict[str, set[int]]):
        """Mutants in an order that visits each function in turn, the same in every run."""
        by_function: dict[tuple[str, str], list] = {}
        for file, lines in sorted(executed.items()):
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
            for place in places(tree, lines):
                by_function.setdefault((file, place.function), []).append((file, tree, place))
        draw = random.Random(claim)
        turns = list(by_function.values())
        draw.shuffle(turns)
        for turn in turns:
            draw.shuffle(turn)
        rounds = itertools.zip_longest(*turns)
        return (mutant for mutants in rounds for mutant in mutants if mutant)

    def apart(self, items: list, mutant: tuple | None, seconds: float) -> tuple[str, dict]:
        """Runs the tests in a process of their own, which is stopped when its time is over."""
        result, end = FORK.Pipe(duplex=False)
        process = FORK.Process(target=self.run, args=(items, mutant, end))
        process.start()
        end.close()
        try:
            return result.recv() if result.poll(seconds) else ("ran out of time", {})
        except EOFError:
            return "crashed", {}
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it is over, or had no time to lead a group
                process.kill()
            process.join()

    def run(self, items: list, mutant: tuple | None, end) -> None:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        watched = Watched(self.root)
        if mutant:
            change(*mutant)
        else:
            watched.begin()
        for item, following in itertools.pairwise([*items, None]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        noticed = any(isinstance(e, AssertionError | pytest.fail.Exception) for e in self.failed)
        if mutant:
            outcome = (
                "killed" if noticed else "stopped" if "failed" in self.outcomes else "survived"
            )
        else:
            outcome = next((o for o in ("failed", "skipped") if o in self.outcomes), "passed")
        sys.settrace(None)
        end.send((outcome, watched.lines()))


class Watched:
    """Notes which lines of the project run, in functions that give something or raise.

    A function that gives nothing is a check that passed: to break it changes nothing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: dict[types.CodeType, set[int]] = {}
        self.gave: set[types.CodeType] = set()
        self.wanted: dict[str, bool] = {}

    def begin(self) -> None:
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def trace(self, frame, event, value):
        code = frame.f_code
        file = code.co_filename
        if file not in self.wanted:
            inside = Path(file).is_relative_to(self.root) and "site-packages" not in file
            self.wanted[file] = inside and os.path.abspath(file) != __file__
        if not self.wanted[file] or code.co_name == "<module>":
            return None
        if event == "line":
            self.ran.setdefault(code, set()).add(frame.f_lineno)
        elif event == "exception" or (event == "return" and value is not None):
            self.gave.add(code)
        return self.trace

    def lines(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for code, lines in self.ran.items():
            is_test = Path(code.co_filename).is_relative_to(self.root / "tests")
            if is_test or code in self.gave or code.co_name == "__init__":
                found.setdefault(os.path.abspath(code.co_filename), set()).update(lines)
        return found


def change(file: str, tree: ast.Module, place: Place) -> None:
    """Puts a mutant in the place of a file's functions, those loaded and those still to come."""
    place.apply()
    module = compile(ast.fix_missing_locations(tree), file, "exec")
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__.co_filename == file:
            code = function.__code__
            mutated = codes.get((code.co_qualname, code.co_firstlineno), code)
            if mutated.co_freevars == code.co_freevars:
                function.__code__ = mutated
    original_compile, get_code = compile, importlib.machinery.SourceFileLoader.get_code

    def compiled(source, filename, mode, *rest, **options):
        if str(filename) == file and mode == "exec" and not options.get("flags"):
            return module
        return original_compile(source, filename, mode, *rest, **options)

    builtins.compile = compiled
    importlib.machinery.SourceFileLoader.get_code = lambda self, name: (
        module if self.path == file else get_code(self, name)
    )


def _codes(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def audit(root: Path, claims: list[str]) -> list[Verdict]:
    """The verdict on each claim of a project, or on those named."""
    known = tests_by_claim(root)
    unknown = [claim for claim in claims if claim not in known]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no test is marked with this claim; see tests/")
    files = {test.path for claim in claims or known for test in known[claim]}
    auditor = Auditor(root, claims)
    options = ["-qq", "-s", "--no-header", "--no-summary", "-m", "claim", "-p", "no:cacheprovider"]
    os.chdir(root)
    if pytest.main([*options, *sorted(files)], plugins=[auditor]) != pytest.ExitCode.OK:
        sys.exit("the tests could not be collected; pytest says why")
    return sorted(auditor.verdicts)


def report(verdicts: list[Verdict], every: bool, seconds: float) -> str:
    """What there is to mend, then how many claims were judged by what."""
    lines = []
    for verdict in verdicts:
        if verdict.verdict != "killed" or every:
            how = "stands alone, " if verdict.alone else ""
            lines.append(
                f"{verdict.claim}: {verdict.verdict} ({how}{verdict.tried} tried); {verdict.tests}"
            )
            lines += [f"    {survivor}" for survivor in verdict.survivors]
    killed = [verdict for verdict in verdicts if verdict.verdict == "killed"]
    alone = sum(verdict.alone for verdict in verdicts)
    tried = sum(verdict.tried for verdict in verdicts)
    lines.append(
        f"{len(killed)} of {len(verdicts)} claims have a test that kills a mutant; {tried} mutants "
        f"in {seconds:.0f} s; {alone} tests stand alone"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM")
    parser.add_argument("--root", type=Path, default=ROOT)
    given = parser.parse_args()
    start = time.monotonic()
    judged = audit(given.root.resolve(), given.claims)
    print(report(judged, bool(given.claims), time.monotonic() - start))
    sys.exit(any(verdict.verdict != "killed" for verdict in judged))
