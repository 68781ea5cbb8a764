"""Exercises: attention written by a learner, and judged by the package.

Examples:
    >>> first = all_exercises()[0]
    >>> all(outcome.passed for outcome in judge(first, first.solution_path))
    True
"""

from attnref.exercises.exercise import Exercise, all_exercises
from attnref.exercises.judging import Outcome, judge

__all__ = ["Exercise", "Outcome", "all_exercises", "judge"]
