"""Every exercise: its solution passes, its starter and each wrong solution do not."""

import doctest
import importlib.util
import inspect
import types
from pathlib import Path

import pytest

from attnref.conformance.properties import PROPERTIES
from attnref.exercises import findings, grading, source
from attnref.exercises.exercise import all_exercises
from attnref.exercises.grading import grade
from attnref.exercises.judging import FILE, judge
from attnref.text import LANGUAGES

HERE = Path(__file__).parent
COURSE = {exercise.name: exercise for exercise in all_exercises()}
# What is wrong, where it is not a number.
KINDS = {
    findings.SHAPE: "shape",
    findings.DTYPE: "dtype",
    findings.TYPE: "type",
    findings.CHANGED: "changed",
    findings.SHORTCUT: "shortcut",
    findings.NO_GRADIENT: "no gradient",
    findings.RAISED: "error",
}


def loaded(path):
    """A module of these tests that is no part of a package."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRONG = {name: loaded(HERE / "wrong" / f"{name}.py").WRONG for name in COURSE}
RIGHT = loaded(HERE / "right.py").RIGHT


def first_failure(function, exercise):
    """The check; and what is wrong where that is not a number."""
    for check in exercise.grader.checks:
        found = grade(check, function, "", exercise.grader.without)
        if found is not None:
            kind = KINDS.get(found.text)
            return check.__name__ if kind is None else f"{check.__name__}: {kind}"
    return None


each_exercise = pytest.mark.parametrize("exercise", COURSE.values(), ids=COURSE)
each_language = pytest.mark.parametrize("language", LANGUAGES)
each_wrong_solution = pytest.mark.parametrize(
    ("exercise", "function", "reason"),
    [
        pytest.param(COURSE[name], function, reason, id=f"{name}-{function.__name__}")
        for name, wrong in WRONG.items()
        for function, reason in wrong.items()
    ],
)


def test_every_folder_is_in_the_course():
    folders = (HERE.parent.parent / "attnref/exercises/course").glob("*/solution.py")
    assert sorted(folder.parent.name for folder in folders) == sorted(COURSE)
    assert len(COURSE) >= 20


@each_exercise
def test_the_solution_passes(exercise):
    outcomes = {outcome.name: outcome for outcome in judge(exercise, exercise.solution_path)}
    assert list(outcomes) == [
        FILE,
        *(check.__name__ for check in exercise.grader.checks),
        *exercise.grader.properties,
    ]
    assert [outcome for outcome in outcomes.values() if not outcome.passed] == []


@pytest.mark.claim("other-solutions-pass")
@pytest.mark.parametrize(
    ("name", "function"),
    [
        pytest.param(name, function, id=f"{name}-{function.__name__}")
        for name, others in RIGHT.items()
        for function in others
    ],
)
def test_other_ways_to_be_right_pass_too(name, function):
    assert first_failure(function, COURSE[name]) is None


@pytest.mark.claim("every-check-is-needed")
@pytest.mark.claim("wrong-solutions-are-named")
@each_wrong_solution
def test_a_wrong_solution_is_caught_by_the_check_that_names_it(exercise, function, reason):
    assert first_failure(function, exercise) == reason


@pytest.mark.claim("every-check-is-needed")
@each_exercise
def test_every_check_has_a_wrong_solution_that_only_it_sees_first(exercise):
    seen = {reason.partition(":")[0] for reason in WRONG[exercise.name].values()}
    assert seen == {check.__name__ for check in exercise.grader.checks}
    assert len(WRONG[exercise.name]) >= 2


@pytest.mark.claim("exercise-tolerance-has-room")
@each_wrong_solution
def test_a_tolerance_16_times_as_large_would_catch_it(exercise, function, reason, monkeypatch):
    monkeypatch.setattr(grading, "TOLERANCE", 16 * grading.TOLERANCE)
    assert first_failure(function, exercise) is not None


@pytest.mark.claim("exercise-tolerance-has-room")
@each_exercise
def test_a_tolerance_16_times_as_small_would_pass_the_solution(exercise, monkeypatch):
    monkeypatch.setattr(grading, "TOLERANCE", grading.TOLERANCE / 16)
    assert first_failure(exercise.solution(), exercise) is None


@each_exercise
def test_checks_and_properties_have_names_of_their_own(exercise):
    names = [FILE, *(check.__name__ for check in exercise.grader.checks)]
    names += exercise.grader.properties
    assert len(set(names)) == len(names)
    assert set(exercise.grader.properties) <= set(PROPERTIES)


@each_exercise
@each_language
def test_the_starter_is_python_that_is_not_written_yet(exercise, language, tmp_path):
    text = source.starter(exercise, language, "Heading", "reminder")
    module = types.ModuleType(exercise.name)
    exec(compile(text, exercise.file, "exec"), module.__dict__)
    function = getattr(module, exercise.name)
    assert inspect.signature(function) == inspect.signature(exercise.solution())
    assert inspect.getdoc(function) == exercise.text(language).task
    with pytest.raises(NotImplementedError, match=r"^reminder$"):
        function(*[None] * len(inspect.signature(function).parameters))
    assert max(map(len, text.splitlines())) <= 88

    path = tmp_path / exercise.file
    path.write_text(text, encoding="utf-8")
    outcomes = list(judge(exercise, path))
    assert [outcome.passed for outcome in outcomes] == [True, False]
    assert outcomes[1].finding.text == findings.UNWRITTEN


@each_exercise
@each_language
def test_the_examples_of_the_docstring_are_what_the_solution_gives(exercise, language):
    text = source.solution(exercise, language)
    module = types.ModuleType(exercise.name)
    exec(compile(text, exercise.file, "exec"), module.__dict__)
    docstring = getattr(module, exercise.name).__doc__
    test = doctest.DocTestParser().get_doctest(docstring, vars(module), exercise.name, None, 0)
    assert test.examples
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert "".join(said) == ""
    assert max(map(len, text.splitlines())) <= 100
