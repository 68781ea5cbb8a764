"""Code of the package as a page shows it: a function, a class, a method or a constant, by its name.

A docstring is cut to its first paragraph, for the reference has the whole one, with links in
place of what Sphinx writes for them.
"""

import ast
import re
import textwrap
from collections.abc import Collection
from functools import cache
from pathlib import Path

ROLE = re.compile(r":[a-z]+:`~?(?P<text>[^`]+)`")
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class DefinitionError(Exception):
    """A name that a file does not define."""


def source(file: Path, name: str) -> str:
    """What ``name`` is in ``file``; that of a method has its class and a dot before it.

    Raises:
        DefinitionError: where there is no such name.
    """
    text = file.read_text(encoding="utf-8")
    node = find(text, name)
    lines: list[str | None] = list(text.split("\n"))
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(one):
            _shorten(lines, one.body[0])
            _strip_roles(lines, one.body[0])
    first = min(one.lineno for one in (node, *getattr(node, "decorator_list", [])))
    left = [line for line in lines[first - 1 : node.end_lineno] if line is not None]
    return textwrap.dedent("\n".join(left))


def find(text: str, name: str) -> Definition:
    """The definition of ``name`` in the source ``text``; the last, as Python has it."""
    node: ast.Module | Definition = _parse(text)
    for part in name.split("."):
        inside = {} if isinstance(node, ast.Assign | ast.AnnAssign) else names(node)
        if part not in inside:
            known = ", ".join(inside) or "nothing"
            raise DefinitionError(f"no {part!r} in {name!r}; there is {known}")
        node = inside[part]
    assert not isinstance(node, ast.Module)
    return node


def names(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> dict[str, Definition]:
    """What is defined directly in a module, a class or a function, by name."""
    found: dict[str, Definition] = {}
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            found[one.name] = one
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            found |= {t.id: one for t in targets if isinstance(t, ast.Name)}
    return found


def dependencies(text: str, name: str, public: Collection[str]) -> set[str]:
    """A definition, and those of its file that its code reaches without passing a public one."""
    inside, found, new = names(_parse(text)), {name}, {name}
    while new:
        used = {
            each.id for one in new for each in ast.walk(inside[one]) if isinstance(each, ast.Name)
        }
        new = {each for each in used & inside.keys() if each not in public} - found
        found |= new
    return found


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def _shorten(lines: list[str | None], docstring: ast.stmt) -> None:
    """Leaves the first paragraph of a docstring; lines that go become None."""
    first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
    blank = next((n for n in range(first, last) if not (lines[n] or "").strip()), None)
    if blank is not None:
        lines[blank - 1] = f'{lines[blank - 1]}"""'
        lines[blank : last + 1] = [None] * (last + 1 - blank)


def _strip_roles(lines: list[str | None], docstring: ast.stmt) -> None:
    for number in range(docstring.lineno - 1, docstring.end_lineno or docstring.lineno):
        lines[number] = lines[number] and ROLE.sub(r"\g<text>", lines[number] or "")
