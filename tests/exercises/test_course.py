"""Every exercise: its solution passes, its starter and each wrong solution do not."""

import importlib.util
from pathlib import Path

import pytest

from attnref.exercises.exercise import exercises
from attnref.exercises.grading import grade

WRONG = Path(__file__).parent / "wrong"
COURSE = {
    exercise.name: exercise for exercise in exercises() if (WRONG / f"{exercise.name}.py").exists()
}


def loaded(path, name):
    """A module of these tests that is no part of a package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong_solutions():
    for name in COURSE:
        for function, reason in loaded(WRONG / f"{name}.py", f"wrong_{name}").WRONG.items():
            yield pytest.param(COURSE[name], function, reason, id=f"{name}-{function.__name__}")


@pytest.fixture(params=COURSE.values(), ids=COURSE)
def exercise(request):
    return request.param


def first_failure(function, exercise):
    for check, failure in grade(function, exercise.grader, function.__code__.co_filename):
        if failure is not None:
            return check if failure.kind == "value" else f"{check}: {failure.kind}"
    return None


def test_the_solution_passes(exercise):
    name = f"attnref.exercises.course.{exercise.name}.solution"
    function = getattr(importlib.import_module(name), exercise.name)
    outcomes = list(grade(function, exercise.grader, ""))
    assert [outcome for outcome in outcomes if outcome.failure] == []
    assert len(outcomes) == len(exercise.grader.checks)


@pytest.mark.parametrize(("exercise", "function", "reason"), list(wrong_solutions()))
def test_a_wrong_solution_is_caught_by_the_check_that_names_it(exercise, function, reason):
    assert first_failure(function, exercise) == reason
