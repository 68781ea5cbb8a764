"""What is public in the package, and where pages and snippets name it.

Public is what the ``__all__`` of a module names. The package is read by griffe as text, as
mkdocstrings does, and never imported; the functions here take its tree.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import griffe

from book.page import HEADING, LINK, Problem, blocks, lines_outside_blocks
from book.stage.includes import INCLUDE

CODE = re.compile(r"(?<!`)`(?P<code>[^`\n]+)`(?!`)")
# What a link holds is passed over.
SPAN = re.compile(f"{LINK.pattern}|{CODE.pattern}")
NAME = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<call>\(.*\))?")
FILE = re.compile(r"\.(?:py|pyc|md|yml|out|json|svg|toml|pt|en)$")
TITLE = re.compile(r"\s*(?:\?\?\?|!!!|===)")  # of an admonition
# Names that PyTorch has too, where nothing else is said.
FOREIGN = {"scaled_dot_product_attention"}


def load(root: Path, settings: Mapping[str, Any]) -> griffe.Module:
    """The package, read as mkdocstrings would read it; ``settings`` are what it is told."""
    loader = griffe.GriffeLoader(
        extensions=griffe.load_extensions(),
        search_paths=[root / path for path in settings.get("paths", ["."])],
        docstring_parser=griffe.Parser.google,
        docstring_options=settings.get("options", {}).get("docstring_options", {}),
    )
    package = loader.load("attnref", try_relative_path=False)
    loader.resolve_aliases(implicit=False, external=False)
    assert isinstance(package, griffe.Module)
    return package


@cache
def public_names(package: griffe.Module) -> dict[str, griffe.Object]:
    """Modules, their names and the methods of these, by path; first what the top offers."""
    exported = [_target(package.members[name]) for name in exports(package)]
    first = {one.module.path for one in exported if not one.is_module}

    def rank(module: griffe.Module) -> tuple[bool, str]:
        return module.path not in first, module.path

    found: dict[str, griffe.Object] = {}
    for module in sorted(_modules(package), key=rank):
        found[module.path] = module
        for name in ordered_exports(module):
            path, one = f"{module.path}.{name}", _target(module.members[name])
            found[path] = one
            for method in map(_target, one.members.values() if one.is_class else ()):
                if not method.name.startswith("_") and method.docstring:
                    found[f"{path}.{method.name}"] = method
    return found


@cache
def canonical(package: griffe.Module) -> dict[str, str]:
    """The path by which something is public, by the one where it is defined."""
    return {one.canonical_path: path for path, one in public_names(package).items()}


def ordered_exports(module: griffe.Module) -> list[str]:
    """What a module names, as its lines follow; a package, whose imports are sorted, says how."""
    if module.is_init_module:
        return exports(module)
    return sorted(exports(module), key=list(module.members).index)


def exports(module: griffe.Module) -> list[str]:
    """What its ``__all__`` names, as it is written."""
    return [str(name) for name in module.exports or ()]


def _modules(folder: griffe.Module) -> Iterator[griffe.Module]:
    """Those below a folder that have an ``__all__``, and not only names that others offer too."""
    for module in folder.members.values():
        if isinstance(module, griffe.Module):
            offered = [_target(module.members[name]) for name in exports(module)]
            if any(one.parent is module or one.name not in exports(one.module) for one in offered):
                yield module
            yield from _modules(module)


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


@cache
def modules(package: griffe.Module) -> dict[str, griffe.Module]:
    """The public modules, by path."""
    return {
        path: one for path, one in public_names(package).items() if isinstance(one, griffe.Module)
    }


@cache
def entries(package: griffe.Module) -> dict[str, griffe.Object]:
    """The public functions and classes, by path; methods have their place in their class."""
    return {
        path: one
        for path, one in public_names(package).items()
        if (one.is_function or one.is_class) and path.rpartition(".")[0] in modules(package)
    }


@cache
def _endings(package: griffe.Module) -> dict[str, str]:
    """Each path, shortened from its front; where several meet, the first is meant.

    Of functions and classes the name is left at least, of others that of what they are in, too.
    """
    found: dict[str, str] = {}
    for path in public_names(package):
        parts = path.split(".")
        for start in range(len(parts) - (path not in entries(package))):
            found.setdefault(".".join(parts[start:]), path)
    return found


def resolve(code: str, package: griffe.Module) -> str | None:
    """The path of what inline code names, None where it is nothing public or something else.

    A name may stand alone where it cannot be mistaken: ``attention_weights``, ``KVCache``, or
    with its arguments. Words of everyday use, and names that a module has too, are known only
    with their module: ``masks.padding``, ``masks.sliding_window``.
    """
    match = NAME.fullmatch(code)
    if match is None or (match["call"] and not _one_call(match["call"])):
        return None
    name = match["name"]
    path = _endings(package).get(name)
    if path is None and name.startswith("attnref."):
        one = package.members.get(name.removeprefix("attnref."))
        path = canonical(package).get(_target(one).canonical_path) if one else None
    if path is None or "." in name:
        return path
    holder = _holders(package).get(name)
    other = isinstance(holder, griffe.Module) and not path.startswith(holder.path)
    distinct = match["call"] or (("_" in name or name != name.lower()) and not other)
    return path if distinct and name not in FOREIGN else None


def _one_call(arguments: str) -> bool:
    """Whether the first parenthesis is closed by the last."""
    depth = 0
    for number, letter in enumerate(arguments, 1):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return number == len(arguments)
    return False


def misspellings(page: Path, text: str, package: griffe.Module) -> list[Problem]:
    """Each name of the package, with the module or class that should have it, that there is not."""
    found = []
    for number, line in lines_outside_blocks(text):
        for match in CODE.finditer(line):
            if message := misspelling(match["code"], package):
                found.append(Problem(page, number, message))
    return found


def misspelling(code: str, package: griffe.Module) -> str | None:
    """What is wrong with ``masks.causall``, None for what does not begin with a name of ours."""
    match = NAME.match(code)
    if match is None or FILE.search(match["name"]):
        return None
    first, *rest = match["name"].split(".")
    start, holder = first, _holders(package).get(first)
    for part in rest:
        # What a value has is not known, nor what a class has from elsewhere.
        if holder is None or not _holds(holder) or _is_layer(holder):
            return None
        if part not in holder.members:
            known = {name: f"{start}.{name}" for name in holder.members if name[0] != "_"}
            near = difflib.get_close_matches(part, known, n=1)
            near = near or difflib.get_close_matches(part, _endings(package), n=1)
            meant = f"; did you mean `{(_endings(package) | known)[near[0]]}`?" if near else ""
            return f"`{start}.{part}`: there is no {part} in {holder.path}{meant}"
        start, holder = f"{start}.{part}", _own_target(holder.members[part], package)
    return None


@cache
def _holders(package: griffe.Module) -> dict[str, griffe.Object]:
    """The package, its rooms and its public classes, by their own names."""
    found = {
        path.rpartition(".")[-1]: one
        for path, one in public_names(package).items()
        # Modules of a room, such as masks.mask, share their names with variables of the pages.
        if one.is_class or (one.is_module and path.split(".")[-2] not in exports(package))
    }
    return {**found, package.name: package}


def _holds(one: griffe.Object) -> bool:
    return one.is_module or one.is_class


def _own_target(
    member: griffe.Object | griffe.Alias, package: griffe.Module
) -> griffe.Object | None:
    """What a member is, None for what is imported from elsewhere."""
    if not isinstance(member, griffe.Alias):
        return member
    return _target(member) if member.target_path.startswith(f"{package.name}.") else None


def _is_layer(one: griffe.Object) -> bool:
    return isinstance(one, griffe.Class) and "nn.Module" in map(str, one.bases)


def add_links(text: str, package: griffe.Module, link: Callable[[str], str]) -> str:
    """The page with a link where each name first stands in a section; ``link`` says whereto."""
    return _replace_names(text, package, lambda code, path: f"[`{code}`]({link(path)})")


def mentions(text: str, package: griffe.Module) -> list[str]:
    """The paths of all names that a page links, in order."""
    found: dict[str, None] = {}
    _replace_names(text, package, lambda code, path: found.setdefault(path) or "")
    return list(found)


def _replace_names(text: str, package: griffe.Module, show: Callable[[str, str], str]) -> str:
    lines, seen = text.split("\n"), set[str]()
    for number, line in lines_outside_blocks(text):
        if HEADING.match(line):
            seen = set()
            continue
        if TITLE.match(line):
            continue

        def replace(match: re.Match[str], seen: set[str] = seen) -> str:
            path = resolve(match["code"], package) if match["code"] else None
            if path is None or path in seen:
                return match[0]
            seen.add(path)
            return show(match["code"], path)

        lines[number - 1] = SPAN.sub(replace, line)
    return "\n".join(lines)


def snippet_uses(text: str, root: Path, package: griffe.Module, folder: str = "") -> list[str]:
    """The paths of all functions and classes that the programs of a page use, in order.

    Those of one folder alone, where it is given.
    """
    programs = [
        root / include["path"]
        for block in blocks(text)
        if block.language == "python"
        for line in block.body
        if (include := INCLUDE.match(line)) and include["path"].startswith(folder)
    ]
    found = [path for one in programs if one.is_file() for path in program_uses(one, package)]
    return list(dict.fromkeys(found))


def program_uses(program: Path, package: griffe.Module) -> list[str]:
    """The paths of all functions and classes that a program takes from the package."""
    return _uses(program, program.stat().st_mtime_ns, package)


@cache
def _uses(program: Path, changed: int, package: griffe.Module) -> list[str]:
    """The same; the program is read once a change."""
    bound: dict[str, str] = {}
    chains = []
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            bound |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            bound |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.Attribute):
            chains.append(ast.unparse(node).partition("."))
    named = [
        *bound.values(),
        *(f"{bound[first]}.{rest}" for first, _, rest in chains if first in bound),
    ]
    found = [resolve(name, package) for name in named if name.startswith(f"{package.name}.")]
    return [path for path in dict.fromkeys(found) if path in entries(package)]


def speaking(pages: Mapping[str, str], root: Path, package: griffe.Module) -> dict[str, list[str]]:
    """Those pages, given by their paths, that name each thing or use it, but for the reference."""
    found: dict[str, list[str]] = {}
    for page, text in pages.items():
        if not page.startswith("reference/"):
            for path in dict.fromkeys(
                (*mentions(text, package), *snippet_uses(text, root, package))
            ):
                found.setdefault(path, []).append(page)
    return found
