"""The modules that a function of the package needs, as they are."""

import ast
from importlib import metadata
from pathlib import Path
from types import ModuleType

import attnref
from attnref.copying.catalogue import entries, no_such
from attnref.text import Text

PACKAGE = Path(__file__).parent.parent
TOP = PACKAGE.name


def path_of(name: str) -> tuple[str, str]:
    """The module from which a function or class is imported, and its name there; "" for a room.

    ``name`` is a file of ``attnref/minimal``, or what the package is asked for:
    ``blockwise_attention``, ``masks.causal``, ``masks``, with or without ``attnref.`` before it.

    Raises:
        Refusal: for a name that the package does not have, with those that are near.

    >>> path_of("masks.causal"), path_of("attnref.blockwise_attention")
    (('attnref.masks', 'causal'), ('attnref.variants.blockwise', 'blockwise_attention'))
    """
    shorter = {entry.name: entry.whole for entry in entries() if entry.whole}
    path = shorter.get(name, name).removeprefix(f"{TOP}.")
    room, _, last = path.rpartition(".")
    place = getattr(attnref, room) if room in attnref.__all__ else attnref
    if last in getattr(place, "__all__", ()) and (place is not attnref or not room):
        found = getattr(place, last)
        if isinstance(found, ModuleType):
            return found.__name__, ""
        return (f"{TOP}.{room}" if room else found.__module__), last
    raise no_such(
        name,
        [*shorter, *attnref.__all__],
        what=Text("the package has no function or class called"),
        where=Text("dir(attnref) names them all."),
    )


def needed_files(module: str) -> dict[str, str]:
    """The texts of a module and of all that it imports of the package, by their places.

    A folder whose own names nobody asks for comes without its ``__init__.py``, which would import
    more.

    >>> list(needed_files("attnref.oracle"))
    ['attnref/checks.py', 'attnref/oracle.py']
    """
    waiting, found = [module], dict[str, str]()
    while waiting:
        path = _file(waiting.pop())
        if path is None or (place := path.relative_to(PACKAGE.parent).as_posix()) in found:
            continue
        found[place] = path.read_text(encoding="utf-8")
        waiting += _imports(found[place])
    return dict(sorted(found.items()))


def _imports(text: str) -> list[str]:
    """What a module imports of the package: modules, and folders of which it takes a name."""
    found = list[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                found.append(inside if _file(inside) else node.module)
    return [name for name in found if name.partition(".")[0] == TOP]


def _file(module: str) -> Path | None:
    place = PACKAGE.joinpath(*module.split(".")[1:])
    paths = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in paths if path.is_file()), None)


def read_licence() -> str:
    """The text that has to go with the modules: of the installed package, or beside a clone's."""
    for file in metadata.files(TOP) or ():
        if file.name == "LICENSE":
            return file.read_text(encoding="utf-8")
    return (PACKAGE.parent / "LICENSE").read_text(encoding="utf-8")
