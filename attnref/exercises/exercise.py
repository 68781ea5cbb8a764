"""An exercise: its place in the course, what it says in each language, and how it is judged."""

import importlib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from attnref.exercises.course import COURSE
from attnref.exercises.grading import Grader

_COURSE = "attnref.exercises.course"
_PACKAGE = Path(__file__).parents[1]
_FOLDER = _PACKAGE / "exercises" / "course"
# Those whose solution is a function of attnref/minimal, by its file.
MINIMAL = {
    "blockwise_attention": "blockwise",
    "grouped_query_attention": "grouped",
    "linear_attention_step": "linear",
    "sinusoidal": "sinusoidal",
    "stable_softmax": "stable_softmax",
}


class CheckText(NamedTuple):
    """What must hold, and what has usually been done where it does not."""

    rule: str
    slip: str


class ExerciseText(NamedTuple):
    """All that an exercise says in one language.

    ``task`` is the docstring of the learner's function, ``why`` explains the solution; ``given``
    has the docstrings of the functions that the learner's file has already.
    """

    title: str
    task: str
    hints: tuple[str, ...]
    why: str
    checks: dict[str, CheckText]
    given: dict[str, str]


@dataclass(frozen=True)
class Exercise:
    """One exercise; ``name`` is also that of the learner's file and of the function in it.

    The first of the ``pages`` of the book explains what it is about, and it is practice for all of
    them; ``difficulty`` is 1, 2 or 3.

    Examples:
        >>> Exercise("softmax", "formula", 1, ("foundations/softmax-or-sum",), number=1).file
        'softmax.py'
    """

    name: str
    topic: str
    difficulty: int
    pages: tuple[str, ...]
    number: int

    @property
    def page(self) -> str:
        """The page that explains it."""
        return self.pages[0]

    @property
    def file(self) -> str:
        """The name of the learner's file."""
        return f"{self.name}.py"

    @cached_property
    def grader(self) -> Grader:
        """The checks; importing them is put off until somebody is judged."""
        grader: Grader = importlib.import_module(f"{_COURSE}.{self.name}").GRADER
        return grader

    def text(self, language: str) -> ExerciseText:
        """What it says in ``language``, or in English while nobody has translated it."""
        paths = (_FOLDER / self.name / f"{each}.toml" for each in (language, "en"))
        path = next(path for path in paths if path.is_file())
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        return ExerciseText(
            title=found["title"],
            task=found["task"].strip(),
            hints=tuple(found["hints"]),
            why=found["why"].strip(),
            checks={name: CheckText(**texts) for name, texts in found["checks"].items()},
            given=found.get("given", {}),
        )

    @property
    def solution_path(self) -> Path:
        """The file of the solution."""
        return _PACKAGE.joinpath(*self._solution_module.split(".")[1:]).with_suffix(".py")

    def solution(self) -> Callable[..., Any]:
        """The function that solves it."""
        module = importlib.import_module(self._solution_module)
        function: Callable[..., Any] = getattr(module, self.name)
        return function

    @property
    def _solution_module(self) -> str:
        if self.name in MINIMAL:
            return f"attnref.minimal.{MINIMAL[self.name]}"
        return f"{_COURSE}.{self.name}.solution"


def all_exercises() -> tuple[Exercise, ...]:
    """All of them, in the order of the course.

    Examples:
        >>> first = all_exercises()[0]
        >>> first.name, first.topic, first.page, first.difficulty, first.number
        ('dot_scores', 'words', 'foundations/six-words', 1, 1)
    """
    named = [(name, topic, *rest) for topic in COURSE for name, rest in COURSE[topic].items()]
    return tuple(
        Exercise(name, topic, difficulty, tuple(pages), number)
        for number, (name, topic, difficulty, *pages) in enumerate(named, start=1)
    )
