"""What can be copied: every public function and class but those of ``cost``, and its page.

Public is what the ``__all__`` of a module names.
"""

import ast
import difflib
import re
from pathlib import Path
from typing import NamedTuple

from attnref.copying.source import CopyError, Definition, Package, Source

# The page of a module, or of one of its names. Other variants have a page of their own name.
PAGES = {
    "adaptive_scaling": "scale/factors-compared",
    "bounded_scores": "scale/factors-compared",
    "cache": "foundations/kv-cache",
    "masks": "foundations/masks",
    "masks.tree": "variants/draft-trees",
    "multihead": "foundations/multi-head",
    "paged_cache": "variants/paged",
    "positions": "foundations/positions",
    "reference": "foundations/matrix-form",
    "roofline": "complexity/roofline",
    "scaling": "scale/factors-compared",
    "score_statistics": "scale/saturation",
    "similarity": "foundations/dot-product",
    "softmax": "foundations/softmax-or-sum",
    "streaming_cache": "variants/sinks",
    "variants.indexer": "variants/selected",
    "variants.moba": "variants/selected",
    "variants.native_sparse": "variants/selected",
}

# What is public, and too large to be copied, or nothing by itself.
TOOLS = {"conformance", "cost", "distributed", "oracle"}
PARTS = {"PagedSequence"}

_KINDS = ast.FunctionDef | ast.ClassDef
_SUGGESTIONS = 5


class Entry(NamedTuple):
    """A function or class that can be copied.

    Attributes:
        name: what to call it: its own name, after that of its module where others have it too,
            another module among them.
        path: where it is offered; its code may be in a module below.
        definition: its code.
        page: the one that explains it, of those of :mod:`attnref.book`.
    """

    name: str
    path: str
    definition: Definition
    page: str

    @property
    def module(self) -> str:
        """The one that offers it, by its whole name."""
        return self.path.rpartition(".")[0]

    @property
    def summary(self) -> str:
        """One sentence, without the marks of its docstring."""
        return re.sub(r"(?::\w+:)?`+~?([^`]*)`+", r"\1", self.definition.summary)


def package() -> Package:
    """The package that holds this module, as text."""
    return Package(Path(__file__).parent.parent)


def catalogue(package: Package) -> list[Entry]:
    """The functions and classes that the package and its variants offer, by name."""
    offered = [
        (source.module, name, definition)
        for source in _modules(package)
        for name in source.exports
        if name not in PARTS
        and isinstance((definition := source.find_export(name)).statements[-1], _KINDS)
    ]
    # One who says sliding_window may mean the method or the mask.
    names = [name for _, name, _ in offered]
    modules = {module for module, _, _ in offered}
    entries = []
    for module, name, definition in offered:
        others = [other for other in modules - {module} if _last_part(other) == name]
        unique = name if names.count(name) == 1 and not others else f"{_last_part(module)}.{name}"
        path = f"{package.name}.{module}.{name}"
        entries.append(Entry(unique, path, definition, _page(module, name)))
    return sorted(entries, key=lambda entry: entry.name.lower())


def find(name: str, entries: list[Entry]) -> Entry:
    """The one that a name means: ``online``, ``softmax.online``, ``attnref.softmax.online``.

    Raises:
        CopyError: for a name that none has, with those that are near, or several have.
    """
    matching = [entry for entry in entries if f".{entry.path}".endswith(f".{name}")]
    # A dot says which one; a bare name has to be the whole one.
    if len(matching) == 1 and ("." in name or matching[0].name == name):
        return matching[0]
    if matching:
        inside = [entry for entry in entries if _last_part(entry.module) == name]
        named = dict.fromkeys(entry.name for entry in (*inside[:_SUGGESTIONS], *matching))
        raise CopyError(
            en=f"NAME: expected one function or class, got {name!r}, which is the name of several. "
            f"Did you mean {_join_words(list(named))}?",
            pt=f"NAME: o esperado era uma função ou classe, veio {name!r}, que é o nome de várias. "
            f"Seria {_join_words(list(named), 'ou')}?",
        )
    near = _suggest(name, entries)
    raise CopyError(
        en=f"NAME: expected a function or class of the package, got {name!r}. "
        + (f"Did you mean {_join_words(near)}? " if near else "")
        + "attnref copy --list names them all.",
        pt=f"NAME: o esperado era uma função ou classe do pacote, veio {name!r}. "
        + (f"Seria {_join_words(near, 'ou')}? " if near else "")
        + "attnref copy --list mostra todas.",
    )


def _modules(package: Package) -> list[Source]:
    """Those that the package names in its ``__all__``, or takes a name from, and the variants."""
    top = package.source("")
    assert top is not None
    known = [name for name in top.exports if package.source(name) or name in top.inside]
    offered = [name if package.source(name) else top.inside[name][0] for name in known]
    offered = [module for module in offered if module.partition(".")[0] not in TOOLS]
    variants = sorted((package.root / "variants").glob("[!_]*.py"))
    modules = dict.fromkeys([*offered, *(f"variants.{path.stem}" for path in variants)])
    return [source for module in modules if (source := package.source(module)) is not None]


def _page(module: str, name: str) -> str:
    folder, _, variant = module.rpartition(".")
    own = PAGES.get(module) or f"variants/{variant.replace('_', '-')}" if folder else PAGES[module]
    return PAGES.get(f"{module}.{name}", own)


def _last_part(module: str) -> str:
    return module.rpartition(".")[-1]


def _suggest(name: str, entries: list[Entry]) -> list[str]:
    """Names that look like this one, hold it, or are in a module called so."""
    last = name.rpartition(".")[-1].lower()
    names = {entry.definition.names[0].lower(): entry.name for entry in entries}
    alike = difflib.get_close_matches(last, names, n=_SUGGESTIONS)
    holding = [one for one in names if last in one]
    inside = [
        entry.definition.names[0].lower() for entry in entries if _last_part(entry.module) == last
    ]
    found = dict.fromkeys(names[one] for one in (*alike, *holding, *inside))
    return list(found)[:_SUGGESTIONS]


def _join_words(names: list[str], word: str = "or") -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last
