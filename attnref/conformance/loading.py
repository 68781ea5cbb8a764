"""A function that is named, found in its module or file."""

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from attnref.conformance.subject import CheckError
from attnref.text import Text

NOT_THERE = Text("{setting}: {place} has no {name!r}. It has: {there}.")


def load(target: str, setting: str = "function") -> Callable[..., Any]:
    """The function that ``target`` names, which ``setting`` has given.

    Args:
        target: ``module:function`` or ``path/to/file.py:function``; the function may be an
            attribute of an attribute, as in ``module:layer.forward``.

    Raises:
        CheckError: saying what was not found, what there is, and how to name it.

    Examples:
        >>> load("attnref.reference:scaled_dot_product_attention").__name__
        'scaled_dot_product_attention'
    """
    place, colon, attribute = target.rpartition(":")
    if not (place and colon and attribute):
        raise CheckError(
            "{setting}: {target!r} is neither module:function nor path/to/file.py:function. Write "
            "for example torch.nn.functional:scaled_dot_product_attention.",
            setting=setting,
            target=target,
        )
    module = (
        _load_file(Path(place), setting) if place.endswith(".py") else _load_module(place, setting)
    )
    return find(module, attribute, place, setting)


def find(module: Any, attribute: str, place: str, setting: str) -> Callable[..., Any]:
    """What has that name in a module, or in what has a name there; ``place`` is the module's."""
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            there = sorted(
                each for each, value in vars(module).items() if _may_be_meant(each, value)
            )
            raise CheckError(
                NOT_THERE,
                setting=setting,
                place=place,
                name=attribute,
                there=", ".join(there) or Text("no function"),
            )
        found = getattr(found, name)
    function: Callable[..., Any] = found
    return function


def load_beside(target: str, function: str, setting: str) -> Any:
    """What a setting names beside the function, from one module where one file holds both."""
    place, _, name = target.rpartition(":")
    if place and name and place.endswith(".py") and place == function.rpartition(":")[0]:
        module = sys.modules[f"checked_{Path(place).stem}"]  # else there would be two of each class
        return find(module, name, place, setting)
    return load(target, setting)


def _load_module(name: str, setting: str) -> Any:
    # A module beside the caller is found as `python -m` would find it.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with _loading(name, setting):
            return importlib.import_module(name)
    except CheckError as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError):
            raise
        if not f"{name}.".startswith(f"{cause.name}."):  # something that the module imports
            raise
        raise CheckError(
            "{setting}: the module {name!r} cannot be imported: there is no {cause!r}. Start in "
            "the folder where it is, install it, or give its path: path/to/file.py:function.",
            setting=setting,
            name=name,
            cause=cause.name,
        ) from None


def _load_file(path: Path, setting: str) -> Any:
    if not path.is_file():
        raise CheckError(
            "{setting}: the file {path!r} does not exist, seen from {folder}. Check the path.",
            setting=setting,
            path=str(path),
            folder=Path.cwd(),
        )
    name = f"checked_{path.stem}"  # so as not to hide a module of the same name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python path/to/file.py` does
    with _loading(str(path), setting):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _loading(place: str, setting: str) -> Iterator[None]:
    """What the code prints meanwhile must not mix with the report."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and pytest's own, with which it skips a module
        raise CheckError(
            "{setting}: {place} could not be loaded: {kind}: {error}. Fix it, so that it can be "
            "imported by itself.",
            setting=setting,
            place=place,
            kind=type(error).__name__,
            error=error,
        ) from error


def _may_be_meant(name: str, value: object) -> bool:
    is_layer = inspect.isclass(value) and issubclass(value, torch.nn.Module)
    return callable(value) and not name.startswith("_") and (is_layer or not inspect.isclass(value))
