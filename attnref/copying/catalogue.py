"""What can be copied: every public function and class with an example, and its page."""

import ast
import difflib
import re
from pathlib import Path
from typing import NamedTuple

from attnref.copying.source import CopyError, Definition, Package

# Where the site stands, with a slash at the end; empty while it has no address.
SITE = ""

# The page of a module, or of one of its names. Each variant has a page of its own name.
PAGES = {
    "adaptive_scaling": "scale/factors-compared/",
    "bounded_scores": "scale/factors-compared/",
    "cost": "complexity/operations/",
    "masks": "foundations/masks/",
    "multihead": "foundations/multi-head/",
    "multihead.KVCache": "foundations/kv-cache/",
    "positions": "foundations/positions/",
    "reference": "foundations/matrix-form/",
    "roofline": "complexity/roofline/",
    "scaling": "scale/factors-compared/",
    "score_statistics": "scale/saturation/",
    "similarity": "foundations/dot-product/",
    "softmax": "foundations/softmax-or-sum/",
}

_SUGGESTIONS = 5


class Entry(NamedTuple):
    """A function or class that can be copied.

    Attributes:
        name: what to call it: its own name, after that of its module where others have it too.
        definition: its code.
        page: the address of the page that explains it.
    """

    name: str
    definition: Definition
    page: str

    @property
    def summary(self) -> str:
        """One sentence, without the marks of its docstring."""
        return re.sub(r"(?::\w+:)?`+~?([^`]*)`+", r"\1", self.definition.summary)


def package() -> Package:
    """The package that holds this module, as text."""
    return Package(Path(__file__).parent.parent)


def catalogue(package: Package) -> list[Entry]:
    """All that the package offers by its ``__all__``, and all its variants, by name."""
    found: dict[Definition, None] = {}
    for module, name in _offered(package):
        source = package.source(module)
        assert source is not None
        for definition in [source.definitions[name]] if name else source.definitions.values():
            if _stands_alone(definition):
                found[definition] = None
    names = [definition.names[0] for definition in found]
    entries = []
    for definition in found:
        module, name = definition.source.module, definition.names[0]
        unique = name if names.count(name) == 1 else f"{module.rpartition('.')[-1]}.{name}"
        entries.append(Entry(unique, definition, _page(module, name)))
    return sorted(entries, key=lambda entry: entry.name.lower())


def find(name: str, entries: list[Entry]) -> Entry:
    """The one that a name means: ``online``, ``softmax.online``, ``attnref.softmax.online``.

    Raises:
        CopyError: for a name that none has, with those that are near, or several have.
    """
    matching = [entry for entry in entries if f".{entry.definition}".endswith(f".{name}")]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise CopyError(
            f"NAME: expected one function or class, got {name!r}, which is the name of several. "
            f"Write {_either([entry.name for entry in matching])}."
        )
    near = _near(name, entries)
    raise CopyError(
        f"NAME: expected a function or class of the package, got {name!r}. "
        + (f"Did you mean {_either(near)}? " if near else "")
        + "attnref copy --list names them all."
    )


def _offered(package: Package) -> list[tuple[str, str]]:
    """Modules and the names in them, "" for all."""
    top = package.source("")
    assert top is not None
    (statement,) = top.definitions["__all__"].statements
    assert isinstance(statement, ast.Assign)
    modules = []
    for name in ast.literal_eval(statement.value):
        if package.source(name) is not None:
            modules.append((name, ""))
        else:
            modules.append(top.inside[name])
    variants = sorted((package.root / "variants").glob("[!_]*.py"))
    return modules + [(f"variants.{path.stem}", "") for path in variants]


def _stands_alone(definition: Definition) -> bool:
    """Public, and shown in use: a type that only some function returns has no example."""
    docstrings = definition.docstrings
    kinds = ast.FunctionDef | ast.ClassDef
    return (
        isinstance(definition.statements[-1], kinds)
        and not definition.names[0].startswith("_")
        and bool(docstrings)
        and ">>> " in str(docstrings[0].value)
    )


def _page(module: str, name: str) -> str:
    folder, _, variant = module.rpartition(".")
    own = f"variants/{variant.replace('_', '-')}/" if folder else PAGES[module]
    return f"{SITE}en/{PAGES.get(f'{module}.{name}', own)}"


def _near(name: str, entries: list[Entry]) -> list[str]:
    """Names that look like this one, hold it, or stand in a module called so."""
    last = name.rpartition(".")[-1].lower()
    names = {entry.definition.names[0].lower(): entry.name for entry in entries}
    alike = difflib.get_close_matches(last, names, n=_SUGGESTIONS)
    holding = [one for one in names if last in one]
    inside = [
        entry.definition.names[0].lower()
        for entry in entries
        if entry.definition.source.module.rpartition(".")[-1] == last
    ]
    found = dict.fromkeys(names[one] for one in (*alike, *holding, *inside))
    return list(found)[:_SUGGESTIONS]


def _either(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
