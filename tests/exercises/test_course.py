"""Every exercise: its solution passes, its starter and each wrong solution do not."""

import doctest
import importlib.util
import inspect
import sys
import types
import warnings
from pathlib import Path

import pytest

from attnref.conformance.isolation import Unusable
from attnref.conformance.properties import PROPERTIES
from attnref.exercises import findings, grading, judging, source
from attnref.exercises.exercise import all_exercises
from attnref.exercises.findings import kind
from attnref.exercises.grading import grade
from attnref.exercises.judging import FILE, judge, parts
from attnref.text import LANGUAGES

HERE = Path(__file__).parent
COURSE = {exercise.name: exercise for exercise in all_exercises()}


def loaded(path):
    """A module of these tests that is no part of a package."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRONG = vars(loaded(HERE / "wrong.py"))
RIGHT = loaded(HERE / "right.py").RIGHT


def changed(exercise, *changes):
    """The solution with pieces of its text replaced, or what returns the one expression given."""
    text = exercise.solution_path.read_text(encoding="utf-8")
    if len(changes) == 1:
        parameters = inspect.signature(exercise.solution()).parameters.values()
        names = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
        return eval(f"lambda {names}: ({changes[0]})", vars(module_of(exercise, text)))
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return written(exercise, text)


def first_failure(function, exercise):
    """The check; and what is wrong where that is not a number."""
    for check in exercise.grader.checks:
        with warnings.catch_warnings():  # of `.T` in three dimensions, say: no error to a learner
            warnings.simplefilter("ignore")
            found = grade(check, function, "", exercise.grader.without)
        if found is not None:
            what = kind(found)
            return check.__name__ if what == "value" else f"{check.__name__}: {what}"
    return None


each_exercise = pytest.mark.parametrize("exercise", COURSE.values(), ids=COURSE)


@pytest.fixture
def solved_parts(monkeypatch):
    """The modules that a learner's file imports from beside it."""
    for name, exercise in COURSE.items():
        monkeypatch.setitem(sys.modules, name, sys.modules[exercise.solution().__module__])


@pytest.fixture
def no_fork(monkeypatch):
    """Judging in this process, without its clock: that forks work is asked elsewhere."""

    def isolated(*arguments):
        raise Unusable
        yield

    monkeypatch.setattr(judging, "run_isolated", isolated)


def test_every_folder_is_in_the_course():
    folders = (HERE.parent.parent / "attnref/exercises/course").glob("*/__init__.py")
    assert sorted(folder.parent.name for folder in folders) == sorted(COURSE)
    assert all(exercise.solution_path.is_file() for exercise in COURSE.values())
    assert len(COURSE) >= 20


@pytest.mark.claim("exercise-tolerance-has-room")
@pytest.mark.claim("other-solutions-pass")
@pytest.mark.usefixtures("no_fork")
@each_exercise
def test_right_solutions_pass_with_a_tolerance_16_times_as_small(exercise, monkeypatch):
    """And so with the tolerance itself."""
    grader = exercise.grader
    names = [FILE, *(check.__name__ for check in grader.checks), *grader.properties]
    assert len(set(names)) == len(names)
    assert set(grader.properties) <= set(PROPERTIES)
    for right in RIGHT.get(exercise.name, ()):
        function = changed(exercise, right) if isinstance(right, str) else right
        assert first_failure(function, exercise) is None, right
    monkeypatch.setattr(grading, "TOLERANCE", grading.TOLERANCE / 16)
    outcomes = {outcome.name: outcome for outcome in judge(exercise, exercise.solution_path)}
    assert list(outcomes) == names
    assert [outcome for outcome in outcomes.values() if not outcome.passed] == []


@pytest.mark.claim("every-check-is-needed")
@pytest.mark.claim("wrong-solutions-are-named")
@pytest.mark.claim("exercise-tolerance-has-room")
@each_exercise
def test_a_wrong_solution_is_caught_by_the_check_that_names_it(exercise, monkeypatch):
    """And so it is by 16 times the tolerance: by as much as that the first number is wrong."""
    close, room = grading._is_close, []

    def noted(expected, came):
        found = close(expected, came)
        if not found.all():
            with monkeypatch.context() as patch:
                patch.setattr(grading, "TOLERANCE", 16 * grading.TOLERANCE)
                room.append(not close(expected, came).all())
        return found

    monkeypatch.setattr(grading, "_is_close", noted)
    wrong = {name: by for name, (by, *_) in WRONG[exercise.name].items()}
    caught = {
        name: first_failure(changed(exercise, *changes), exercise)
        for name, (_, *changes) in WRONG[exercise.name].items()
    }
    assert caught == wrong
    assert room
    assert all(room)

    # Each check is the first to see one of them, and what its slip explains has been seen.
    checks = {check.__name__ for check in exercise.grader.checks}
    assert {reason.partition(":")[0] for reason in wrong.values()} == checks
    assert len(wrong) >= 2
    usual = {f"{check.__name__}: {what}" for check, what in exercise.grader.usual}
    assert usual <= set(wrong.values())


@pytest.mark.usefixtures("no_fork", "solved_parts")
@each_exercise
def test_the_starter_is_not_written_yet_and_the_docstring_says_what_is_so(exercise, tmp_path):
    for language in LANGUAGES:
        text = source.starter(exercise, language, "Heading", "reminder")
        function = written(exercise, text)
        assert inspect.signature(function) == inspect.signature(exercise.solution())
        assert inspect.getdoc(function) == exercise.text(language).task
        with pytest.raises(NotImplementedError, match=r"^reminder$"):
            function(*[None] * len(inspect.signature(function).parameters))
        assert max(map(len, text.splitlines())) <= (100 if exercise.text(language).given else 88)
        assert "attnref." not in text

        solution = source.solution(exercise, language)
        docstring, there = written(exercise, solution).__doc__, vars(module_of(exercise, solution))
        test = doctest.DocTestParser().get_doctest(docstring, there, exercise.name, None, 0)
        assert test.examples
        said = []
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert "".join(said) == ""
        assert max(map(len, solution.splitlines())) <= 100

    path = tmp_path / exercise.file
    path.write_text(text, encoding="utf-8")
    for part in parts(path):
        solution = source.solution(part, "en")
        path.with_name(part.file).write_text(solution, encoding="utf-8")
    outcomes = list(judge(exercise, path))
    assert [outcome.passed for outcome in outcomes] == [True, False]
    assert outcomes[1].finding.text == findings.UNWRITTEN


def module_of(exercise, text):
    module = types.ModuleType(exercise.name)
    exec(compile(text, f"<{exercise.file}>", "exec"), module.__dict__)
    return module


def written(exercise, text):
    """The function that the file defines."""
    return getattr(module_of(exercise, text), exercise.name)
