"""Both languages say the same: the same parts, the same code, other words."""

import inspect
import re
import tomllib
from pathlib import Path

from attnref.exercises import command
from attnref.exercises.exercise import all_exercises
from attnref.text import LANGUAGES

FOLDER = Path(command.__file__).parent / "course"


def raw(exercise, language):
    path = FOLDER / exercise.name / f"{language}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def shape(value):
    """The keys and the number of items, without the words."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return len(value) if isinstance(value, list) else type(value)


def sentences(value):
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [sentence for part in parts for sentence in sentences(part)]


def code(text):
    """What is between backticks: the same in every language."""
    return re.findall(r"`([^`]*)`", text)


def examples(task):
    """The lines from the first example to the end."""
    return task[task.index(">>>") :]


def tensor_shapes(task):
    """The shapes of the documented arguments and results, in their order."""
    return re.findall(r"\((?:\.\.\.,? ?|[a-zA-Z]\w*(?:_\w+)?,)[^)]*\)", task)


def test_both_languages_say_the_same_in_other_words(subtests):
    for exercise in all_exercises():
        with subtests.test(exercise.name):
            say_the_same(exercise)


def say_the_same(exercise):
    english, portuguese = (raw(exercise, language) for language in LANGUAGES)
    assert shape(english) == shape(portuguese)
    given = ["given"] if exercise.name == "model" else []
    assert list(english) == ["title", "task", "hints", "why", *given, "checks"]
    checks = [check.__name__ for check in exercise.grader.checks]
    assert list(english["checks"]) == list(portuguese["checks"]) == checks
    assert len(english["hints"]) >= 3

    assert examples(english["task"]) == examples(portuguese["task"])
    assert tensor_shapes(english["task"]) == tensor_shapes(portuguese["task"])
    for one, other in zip(sentences(english), sentences(portuguese), strict=True):
        assert sorted(code(one)) == sorted(code(other)), one
        assert one != other
        assert one.strip()
        assert other.strip()
        assert one.count("`") % 2 == other.count("`") % 2 == 0

    parameters = inspect.signature(exercise.solution()).parameters
    for task in (english["task"].strip(), portuguese["task"].strip()):
        arguments = task[task.index("Args:") : task.index("Returns:")]
        assert re.findall(r"^    (\w+):", arguments, re.MULTILINE) == list(parameters)
        first = task.splitlines()[0]
        assert first.endswith((".", "?"))
        assert '"""' not in task
        assert "\\" not in task


def test_what_is_not_translated_is_english():
    for exercise in all_exercises():
        assert exercise.text("xx") == exercise.text("en") != exercise.text("pt")


def test_every_topic_has_a_name():
    assert {exercise.topic for exercise in all_exercises()} == set(command.TOPICS)
