"""A digest of the code that a measured method runs, to tell when a recorded number is stale.

Docstrings, comments, layout, the words of errors and the file in which a definition is do not
count. Neither do the checks of arguments, which cost microseconds at any length, nor code that the
method cannot reach: only the definitions that it names, in its own module and in the others of
the package.
"""

import ast
import functools
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PACKAGE = "attnref"


def fingerprint(*places: tuple[str, str]) -> str:
    """16 hexadecimal digits that change when the code reached from any of ``places`` changes.

    Args:
        places: each the name of a module of the package, such as ``"attnref.reference"``, and
            that of a function, class or constant at its top level.

    Raises:
        ModuleNotFoundError: when there is no such module.
        ValueError: when a module does not define the name.

    The code is read, not run. Names are followed where they are, so code that is reached only
    through an attribute of an object, such as a method of an argument, counts with the class
    that some annotation names.

    Examples:
        >>> fingerprint(("attnref._door", "check_tensors")) == fingerprint(
        ...     ("attnref.reference", "attention_weights")
        ... )
        False
    """
    for module, name in places:
        if name not in _statements(module):
            raise ValueError(
                f"name: expected one that {module} defines, got {name!r}. A variant is called "
                "<module>_attention."
            )
    seen: set[tuple[str, str]] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        if place not in places and _only_checks(*place):
            continue
        seen.add(place)
        waiting += _references(*place)
    parts = sorted(_part(*place) for place in seen)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@functools.cache  # many methods reach the same definition
def _part(module: str, name: str) -> str:
    return repr((name, [_normalise(statement) for statement in _statements(module)[name]]))


@functools.cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    if file is None:
        raise ModuleNotFoundError(f"module: expected one with a file, got {module!r}.")
    return ast.parse(file.read_text(encoding="utf-8"))


def _file(module: str) -> Path | None:
    """Where a module is, which is not imported, nor is what holds it."""
    for folder in sys.path:
        place = Path(folder, *module.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return file
    return None


@functools.cache
def _statements(module: str) -> dict[str, list[ast.stmt]]:
    """What defines each name at the top level; several statements where it is overloaded."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in _tree(module).body:
        for name in _bound_names(statement):
            found.setdefault(name, []).append(statement)
    return found


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


@functools.cache
def _own_imports(module: str) -> dict[str, tuple[str, str | None]]:
    """What the package's own names in a module stand for: a module, or a name in one."""
    found: dict[str, tuple[str, str | None]] = {}
    for node in _tree(module).body:
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.split(".")[0] != _PACKAGE:
            continue
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            is_module = node.module == _PACKAGE and _file(whole) is not None
            place = (whole, None) if is_module else (node.module, alias.name)
            found[alias.asname or alias.name] = place
    return found


def _only_checks(module: str, name: str) -> bool:
    """Whether it looks at the arguments of a call, once, and computes nothing of the output."""
    door = (f"{_PACKAGE}._door", "enter")
    return module == f"{_PACKAGE}.checks" or (module, name) == door or _is_check(name)


def _is_check(name: str) -> bool:
    return name.lstrip("_").startswith("check")


@functools.cache
def _references(module: str, name: str) -> tuple[tuple[str, str], ...]:
    """The definitions that one names."""
    return tuple(_named(module, name))


def _named(module: str, name: str) -> Iterator[tuple[str, str]]:
    imported = _own_imports(module)
    for node in (node for top in _statements(module)[name] for node in ast.walk(top)):
        if isinstance(node, ast.Name):
            yield from _definition(module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            other, wanted = imported.get(node.value.id, ("", ""))
            if wanted is None:
                yield from _definition(other, node.attr)


def _definition(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Where a name of a module is defined, if it is one of the package's own."""
    if name in _statements(module):
        yield module, name
    else:
        other, wanted = _own_imports(module).get(name, ("", None))
        if wanted is not None:
            yield from _definition(other, wanted)


def _normalise(node: Any, *, raised: bool = False) -> Any:
    """The tree as nested tuples, without docstrings and positions, alike in all Pythons.

    ``raised`` where it is part of an error, whose words are left out.
    """
    if isinstance(node, list):
        kept = [item for item in node if not _calls_a_check(item)]
        return tuple(_normalise(item, raised=raised) for item in kept)
    if not isinstance(node, ast.AST):
        return repr(node)
    raised = raised or isinstance(node, ast.Raise)
    if raised and (
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ):
        return "words"
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    # Fields that newer Pythons add are empty in code that older ones can read.
    given = ((name, value) for name, value in fields.items() if value not in (None, []))
    return (
        type(node).__name__,
        *((name, _normalise(value, raised=raised)) for name, value in given),
    )


def _calls_a_check(node: Any) -> bool:
    """A statement such as ``check_generator(generator)``, whose answer nobody takes."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return _is_check(str(name))
