"""Breaks what the test of each claim calls, and lists the claims whose test notices none of it.

    python -m book.make.audit            every claim
    python -m book.make.audit CLAIM …    these

A test runs once to see which lines of the project it executes, then once a mutant of these, each
in a process of its own, until an assertion of the test fails. A mutant that stops with another
error shows nothing and does not count. A test that calls nothing of the project stands alone:
then its own statements are broken, but not its assertions nor their tolerances.
"""

import argparse
import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import itertools
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import coverage
import pytest

from book.make.mutants import Mutant, mutants
from book.stage.claims import tests_by_claim

HERE = Path(__file__).resolve().parent

MUTANTS = 100  # of a claim, at most
ITEMS = 8  # of a claim's parametrised tests, at most
PATIENCE = 240  # seconds for a claim: no mutant is begun later
FORK = multiprocessing.get_context("fork")
Lines = dict[str, set[int]]  # executed, by file


class Ran(NamedTuple):
    """What came of tests in a process of their own."""

    outcome: str
    lines: Lines
    imported: list[str]  # modules of libraries


class Verdict(NamedTuple):
    """What came of the mutants of a claim."""

    claim: str
    outcome: str  # "killed", "kills none", or "fails as it is"
    alone: bool
    tests: str
    tried: list[str]

    def __str__(self) -> str:
        alone = "stands alone, " if self.alone else ""
        line = f"{self.claim}: {self.outcome} ({alone}{len(self.tried)} tried); {self.tests}"
        return "\n    ".join([line, *(self.tried if self.outcome == "kills none" else [])])


class Auditor:
    """A plugin of pytest that judges the tests that were collected instead of running them."""

    items: ClassVar[dict[str, list[pytest.Item]]] = {}  # by claim, for the processes forked later
    functions: ClassVar[dict[str, list[types.FunctionType]]] = {}  # those loaded, by file
    raised: ClassVar[list[BaseException]] = []

    def __init__(self, claims: list[str]) -> None:
        self.claims = claims
        self.verdicts: list[Verdict] = []

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo:
            self.raised.append(call.excinfo.value)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            for marker in item.iter_markers("claim"):
                if not self.claims or marker.args[0] in self.claims:
                    self.items.setdefault(marker.args[0], []).append(item)
        for function in gc.get_objects():
            if type(function) is types.FunctionType:
                self.functions.setdefault(function.__code__.co_filename, []).append(function)
        gc.collect()
        gc.freeze()  # a collection would copy the memory that processes share
        with ProcessPoolExecutor(2, FORK) as pool:
            for judged in as_completed([pool.submit(judge, claim) for claim in self.items]):
                self.verdicts.append(judged.result())
                print(self.verdicts[-1], flush=True)
        return True


def judge(claim: str) -> Verdict:
    items = Auditor.items[claim]
    tests = ", ".join(dict.fromkeys(item.nodeid.partition("[")[0] for item in items))
    if len(items) > ITEMS:  # drawn, for every twelfth may have the same of one parameter
        items = random.Random(claim).sample(items, ITEMS)
    start, began, tried = processors(), time.monotonic(), list[str]()
    outcome, executed, imported = run_isolated(items, None, 10 * PATIENCE)
    if outcome != "survived":
        return Verdict(claim, "fails as it is", False, tests, tried)
    slow = time.monotonic() - began
    for module in imported:  # now, and not once a mutant
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    own = {file: executed[file] for file in executed if is_of_tests(Path(file))}
    called = interleave(claim, {file: executed[file] for file in executed.keys() - own.keys()})
    for mutant in (called or interleave(claim, own))[:MUTANTS]:
        if tried and processors() - start > PATIENCE:
            break
        outcome, _, _ = run_isolated(items, mutant, 10 + 3 * slow)
        tried.append(f"{mutant} ({outcome})")
        if outcome == "killed":
            return Verdict(claim, "killed", not called, tests, tried)
    return Verdict(claim, "kills none", not called, tests, tried)


def is_of_tests(file: Path) -> bool:
    """A module of tests, and not what they share, such as the contracts of pages."""
    return file.is_relative_to(Path("tests").resolve()) and file.stem.startswith(
        ("test_", "conftest")
    )


def processors() -> float:
    """Seconds of processors that the processes of this one have used: no load changes them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interleave(claim: str, executed: Lines) -> list[Mutant]:
    """Mutants in an order that visits each function in turn, the same in every run."""
    by_function: dict[tuple[str, str], list[Mutant]] = {}
    for file, lines in sorted(executed.items()):
        for mutant in mutants(file, lines):
            by_function.setdefault((file, mutant.function), []).append(mutant)
    draw = random.Random(claim)
    turns = [draw.sample(turn, len(turn)) for turn in by_function.values()]
    draw.shuffle(turns)
    return [mutant for turn in itertools.zip_longest(*turns) for mutant in turn if mutant]


def run_isolated(items: list[pytest.Item], mutant: Mutant | None, seconds: float) -> Ran:
    """Runs tests in a process of their own, which is stopped when its time is over."""
    result, end = FORK.Pipe(duplex=False)
    process = FORK.Process(target=run, args=(items, mutant, end))
    process.start()
    end.close()
    try:
        return result.recv() if result.poll(seconds) else Ran("ran out of time", {}, [])
    except EOFError:
        return Ran("crashed", {}, [])
    finally:
        assert process.pid
        with contextlib.suppress(ProcessLookupError):  # when it had no time to lead a group
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def run(items: list[pytest.Item], mutant: Mutant | None, end: Connection) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    root, loaded = Path.cwd(), set(sys.modules)
    omitted = [f"{root}/.venv/*", f"{HERE}/audit.py", f"{HERE}/mutants.py"]
    data = tempfile.mkdtemp(dir=os.environ["PYTEST_DEBUG_TEMPROOT"])
    watched = coverage.Coverage(
        f"{data}/lines", data_suffix=True, config_file=False, include=f"{root}/*", omit=omitted
    )
    # Processes that a test starts are copies of this one, so that they run the mutant, too.
    multiprocessing.get_context = lambda method=None: FORK  # type: ignore[assignment]
    if mutant:
        replace(mutant)
    else:
        watched.start()
    items[0].session.items = items  # for fixtures that look what will be asked for
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if Auditor.raised:
            break
    if not mutant:
        watched.stop()
        watched.save()
        watched.combine([data], keep=True)
    if any(isinstance(e, AssertionError | pytest.fail.Exception) for e in Auditor.raised):
        outcome = "killed"
    else:
        outcome = f"stopped: {type(Auditor.raised[0]).__name__}" if Auditor.raised else "survived"
    found = watched.get_data()
    lines = {file: set(found.lines(file) or ()) for file in found.measured_files()}
    libraries = [
        name
        for name in sys.modules
        if name not in loaded and "site-packages" in str(getattr(sys.modules[name], "__file__", ""))
    ]
    end.send(Ran(outcome, lines, libraries))


def replace(mutant: Mutant) -> None:
    """Puts a mutant in the place of a file's functions, those loaded and those still to come."""
    module = compile(mutant.apply(), mutant.file, "exec")
    codes = {(code.co_qualname, code.co_firstlineno): code for code in walk_code(module)}
    for function in Auditor.functions.get(mutant.file, []):
        code = function.__code__
        mutated = codes.get((code.co_qualname, code.co_firstlineno), code)
        if mutated.co_freevars == code.co_freevars:
            function.__code__ = mutated
    original = compile

    def compile_mutant(source: Any, filename: Any, mode: str, *rest: Any, **options: Any) -> Any:
        if str(filename) == mutant.file and mode == "exec" and not options.get("flags"):
            return module
        return original(source, filename, mode, *rest, **options)

    vars(builtins)["compile"] = compile_mutant
    loader: Any = importlib.machinery.SourceFileLoader  # which need not compile
    get_code = loader.get_code
    loader.get_code = lambda self, name: (
        module if self.path == mutant.file else get_code(self, name)
    )


def walk_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from walk_code(constant)


def audit(claims: list[str]) -> list[Verdict]:
    """The verdict on each claim of the project in the current folder, or on those named."""
    known = tests_by_claim(Path.cwd())
    unknown = [claim for claim in claims if claim not in known]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no test is marked with this claim; see tests/")
    files = {test.path for claim in claims or known for test in known[claim]}
    auditor = Auditor(claims)
    options = ["-qq", "-s", "--no-header", "--no-summary", "-m", "claim", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder:  # for each process makes one, and is stopped
        os.environ |= {"PYTEST_DEBUG_TEMPROOT": folder, "OMP_NUM_THREADS": "1"}
        if pytest.main([*options, *sorted(files)], plugins=[auditor]) != pytest.ExitCode.OK:
            sys.exit("the tests could not be collected; pytest says why")
    return auditor.verdicts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM")
    parser.add_argument("--root", type=Path, default=HERE.parents[1])
    given = parser.parse_args()
    os.chdir(given.root)
    start = time.monotonic()
    judged = audit(given.claims)
    listed = sorted(verdict.claim for verdict in judged if verdict.outcome != "killed")
    print(
        f"{len(judged) - len(listed)} of {len(judged)} claims have a test that kills a mutant; "
        f"{sum(verdict.alone for verdict in judged)} stand alone; "
        f"{sum(len(verdict.tried) for verdict in judged)} mutants in "
        f"{time.monotonic() - start:.0f} s, {processors():.0f} s of processors",
        *listed,
        sep="\n    ",
    )
    sys.exit(bool(listed))
