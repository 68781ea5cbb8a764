"""Variants of attention: the same function computed otherwise, and other functions in its place.

One method per module, each with its formula, its function, its error and its cost. What they offer
is called by its name in :mod:`attnref`, and its module is loaded then.
"""

import pkgutil
from importlib import import_module

from attnref.record import Method


def records() -> dict[str, Method]:
    """What each method says of itself, by the name of its module."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {
        name: import_module(f"attnref.variants.{name}").METHOD
        for name in names
        if not name.startswith("_")
    }
