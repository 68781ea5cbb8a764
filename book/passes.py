"""Finds the passes of a step, in the order that follows from what each says of itself.

A pass is a module of book.stage or book.finish with one of the step's functions. ``AFTER`` names
those whose work it needs; where it says nothing, the alphabet decides, and nothing depends on it.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from graphlib import TopologicalSorter
from types import ModuleType


def passes(step: str, functions: Sequence[str]) -> list[ModuleType]:
    """The modules of ``book.{step}`` that have one of these functions.

    Raises:
        ValueError: where a pass names another that there is not, or two wait for each other.
    """
    folder = importlib.import_module(f"book.{step}")
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    found = {name: importlib.import_module(f"book.{step}.{name}") for name in names}
    after = {name: getattr(module, "AFTER", ()) for name, module in found.items()}
    return [found[name] for name in order(after) if has(found[name], functions)]


def order(after: dict[str, Sequence[str]]) -> list[str]:
    """The names, each after those that it names.

    >>> order({"a": ("c",), "b": (), "c": ("b",)})
    ['b', 'c', 'a']
    >>> order({"a": ("d",)})
    Traceback (most recent call last):
    ValueError: a: AFTER names 'd', which is no pass of this step
    """
    for name, needs in after.items():
        for need in needs:
            if need not in after:
                raise ValueError(f"{name}: AFTER names {need!r}, which is no pass of this step")
    sorter = TopologicalSorter(after)
    sorter.prepare()  # raises CycleError, a ValueError
    found: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found += ready
        sorter.done(*ready)
    return found


def has(module: ModuleType, functions: Sequence[str]) -> bool:
    return any(hasattr(module, name) for name in functions)


def forget(modules: Sequence[ModuleType]) -> None:
    """Empties what these keep of files, which may have changed since."""
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
