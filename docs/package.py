"""What the pages say of the package that only the package can tell; ``make record`` keeps it."""

from typing import Any

from attnref.bench.plan import methods
from attnref.bench.problems import TASKS
from attnref.conformance import PROPERTIES
from attnref.exercises.exercise import all_exercises


def told() -> dict[str, Any]:
    """Counts for the home page; what measurements are compared with, and what methods need."""
    return {
        "properties": len(PROPERTIES),
        "exercises": len(all_exercises()),
        "baselines": {name: task.baseline for name, task in TASKS.items()},
        "needs": {name: method.needs for name, method in methods().items() if method.needs},
    }
