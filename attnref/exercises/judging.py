"""Judges a learner's file, in a process of its own."""

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from attnref.conformance.checker import judge as conforms
from attnref.conformance.isolation import HUNG, Unusable, run_isolated
from attnref.conformance.reading import Reading
from attnref.conformance.settings import LIMIT, Settings
from attnref.conformance.subject import subject
from attnref.conformance.verdict import Finding, Verdict
from attnref.exercises.exercise import Exercise, all_exercises
from attnref.exercises.findings import PARTS, UNWRITTEN, failure
from attnref.exercises.grading import Function, grade
from attnref.exercises.learner import UnfitError, load
from attnref.exercises.memory import import_names

# Asked before all checks: whether there is a function to be judged.
FILE = "file"


class Outcome(NamedTuple):
    """The name of a check or property, and what was found; None when it holds.

    Examples:
        >>> Outcome("row_sums", None).passed
        True
    """

    name: str
    finding: Finding | None

    @property
    def passed(self) -> bool:
        """Cautions and conventions are no failures."""
        return self.finding is None or self.finding.verdict is not Verdict.WRONG


def judge(exercise: Exercise, path: Path, limit: float = LIMIT) -> Iterator[Outcome]:
    """The outcome of each check in turn; the last one where going on makes no sense.

    The first outcome is that of :data:`FILE`. After a file without a function, a function that
    is not written yet, or one that hangs, nothing else is asked; and no property before all
    checks have passed.

    Args:
        exercise: which.
        path: the learner's file.
        limit: seconds for each check. On Linux the file is run in a forked process, which is
            stopped after that time; elsewhere it is run in this process, and nothing stops it.

    Examples:
        >>> from attnref.exercises.exercise import all_exercises
        >>> first = all_exercises()[0]
        >>> next(judge(first, first.solution_path)).passed
        True
    """
    names = [FILE, *(check.__name__ for check in exercise.grader.checks)]
    last_check = names[-1]
    names += exercise.grader.properties
    findings = _answers(names, _asker(exercise, path), limit)
    solved = True
    for name, finding in zip(names, findings, strict=True):
        outcome = Outcome(name, finding)
        solved = solved and outcome.passed
        yield outcome
        hopeless = finding is not None and finding.text in (UNWRITTEN, HUNG)
        if hopeless or (not solved and name in (FILE, last_check)):
            return


def parts(path: Path) -> list[Exercise]:
    """The exercises whose functions a learner's file imports."""
    try:
        names = set(import_names(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return []
    return [each for each in all_exercises() if each.name in names and each.file != path.name]


def _answers(
    names: list[str], ask: Callable[[str], Iterator[Finding | None]], limit: float
) -> Iterator[Finding | None]:
    try:
        yield from run_isolated(names, ask, torch.device("cpu"), limit)
    except Unusable:  # before the first answer
        for name in names:
            yield from ask(name)


def _asker(exercise: Exercise, path: Path) -> Callable[[str], Iterator[Finding | None]]:
    """Answers by name. The file is loaded by whoever asks first, in the process where that is."""
    checks = {check.__name__: check for check in exercise.grader.checks}
    grader = exercise.grader
    used = [(part, part.grader) for part in parts(path)]  # loaded before the clock runs

    @functools.cache
    def learned() -> Function:
        unsolved = [
            part.name for part, _ in used if not _is_solved(part, path.with_name(part.file))
        ]
        if unsolved:
            raise UnfitError(failure(PARTS, names=", ".join(unsolved)))
        return load(path, exercise.name, inspect.signature(exercise.solution()))

    def ask(name: str) -> Iterator[Finding | None]:
        try:
            function = learned()
        except UnfitError as unfit:
            yield unfit.finding
        else:
            if name == FILE:
                yield None
            elif name in checks:
                yield grade(checks[name], function, str(path), grader.without)
            else:
                yield _property(name, _fix_arguments(function, grader.fixed))

    return ask


def _is_solved(part: Exercise, path: Path) -> bool:
    """Whether a file passes its own checks, as it is now; it is then what others import."""
    try:
        function = load(path, part.name, inspect.signature(part.solution()))
    except UnfitError:
        return False
    grader = part.grader
    return all(grade(check, function, str(path), grader.without) is None for check in grader.checks)


def _fix_arguments(function: Function, fixed: tuple[object, ...]) -> Function:
    """The function of query, key and value, what follows them being fixed."""
    if not fixed:
        return function
    return lambda query, key, value: function(query, key, value, *fixed)


def _property(name: str, function: Function) -> Finding:
    """As it is written: what an exercise asks for is PyTorch's names, axes and masks."""
    settings = Settings(only=[name], limit=None)
    report = conforms(subject(function), settings, Reading(complete=True))
    return report.results[0].finding
