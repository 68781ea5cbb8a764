"""What the pages say of the package that only the package can tell; ``make record`` keeps it."""

from typing import Any

from attnref.bench.plan import methods
from attnref.bench.problems import TASKS
from attnref.conformance import PROPERTIES
from attnref.exercises.exercise import all_exercises


def told() -> dict[str, Any]:
    """For the home page, the exercises of each page, and the tables of results and of methods."""
    return {
        "properties": len(PROPERTIES),
        "exercises": {each.name: each.pages for each in all_exercises()},
        "baselines": {name: task.baseline for name, task in TASKS.items()},
        "needs": {name: method.needs for name, method in methods().items() if method.needs},
    }
