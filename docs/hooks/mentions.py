"""Which public names a page speaks of in its text, and which its snippets use.

A name counts where it first stands in a section, as inline code, outside of headings and links.
"""

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from includes import INCLUDE
from pages import HEADING, LINK, blocks, lines_outside_blocks
from public_names import OTHERS, Name, modules, names, read

from attnref.copying.source import CopyError

CODE = re.compile(r"(?<!`)`(?P<code>[^`\n]+)`(?!`)")
# What a link holds is passed over.
SPAN = re.compile(f"{LINK.pattern}|{CODE.pattern}")
# Names that PyTorch has too, where nothing else is said.
FOREIGN = {"scaled_dot_product_attention"}
TITLE = re.compile(r"\s*(?:\?\?\?|!!!|===)")  # of an admonition


def resolve(code: str, root: Path) -> Name | None:
    """What inline code names, None where it names nothing public or might mean something else.

    A name may stand alone where it cannot be mistaken: ``attention_weights``, ``KVCache``, or
    with its arguments. Words of everyday use, and names that a module has too, are known only
    with their module: ``masks.padding``, ``masks.sliding_window``.
    """
    match = re.fullmatch(r"(?P<ours>attnref\.)?(?P<name>[A-Za-z_][\w.]*)(?P<call>\(.*\))?", code)
    if match is None or (match["call"] and not _one_call(match["call"])):
        return None
    name = match["name"]
    if match["ours"] and name in modules(root):
        return modules(root)[name]
    meant = by_ending(root).get(name)
    if name in FOREIGN and not match["ours"]:
        return None
    if meant is None or match["ours"] or match["call"] or "." in name:
        return meant
    stems = {module.rpartition(".")[-1]: module for module in modules(root)}
    distinct = "_" in name or name != name.lower()
    return meant if distinct and stems.get(name, meant.module) == meant.module else None


@cache
def by_ending(root: Path) -> dict[str, Name]:
    """Names and methods by each ending of their keys; what can be copied comes first."""
    found: dict[str, Name] = {}
    for name in names(root).values():
        parts = name.key.split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), name)
        for method in name.methods:
            found.setdefault(method.anchor, method)
            found.setdefault(method.key, method)
    return found


def _one_call(arguments: str) -> bool:
    """Whether the first parenthesis is closed by the last."""
    depth = 0
    for number, letter in enumerate(arguments, 1):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return number == len(arguments)
    return False


def linked(text: str, root: Path, link: Callable[[Name, str], str]) -> str:
    """The page with the first mention of each name in each section shown by ``link``."""
    lines, seen = text.split("\n"), set()
    for number, line in lines_outside_blocks(text):
        if HEADING.match(line):
            seen = set()
            continue
        if TITLE.match(line):
            continue

        def show(match: re.Match, seen: set[str] = seen) -> str:
            name = resolve(match["code"], root) if match["code"] else None
            if name is None or name.key in seen:
                return match[0]
            seen.add(name.key)
            return link(name, match["code"])

        lines[number - 1] = SPAN.sub(show, line)
    return "\n".join(lines)


def mentioned(text: str, root: Path) -> list[str]:
    """The keys of all names that a page links, in order."""
    found: dict[str, None] = {}

    def note(name: Name, code: str) -> str:
        found[name.key] = None
        return code

    linked(text, root, note)
    return list(found)


def used(text: str, root: Path) -> list[str]:
    """The keys of all names that the snippets of a page use, in order."""
    paths = [
        root / include["path"]
        for block in blocks(text)
        if block.language == "python"
        for line in block.body
        if (include := INCLUDE.match(line))
    ]
    found = {key: None for path in paths if path.is_file() for key in used_by(path, root)}
    return list(found)


@cache
def used_by(path: Path, root: Path) -> tuple[str, ...]:
    """The keys of all names that a program imports from the package."""
    package, known = read(root), names(root)
    top, inside, found = package.source(""), {}, {}
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            inside |= top.imports(node)[0]
    chains = [(name,) for name, (_, imported) in inside.items() if imported]
    chains += [chain for node in nodes if (chain := _chain(node)) and chain[0] in inside]
    for chain in chains:
        module, name = inside[chain[0]]
        if module in OTHERS:
            found[f"{module}.{name}"] = None
            continue
        try:
            definition, name, _ = package.follow(chain, module, name, chain[0])
        except (CopyError, IndexError):
            continue  # a module, whose names have chains of their own
        found[f"{definition.source.module}.{name}"] = None
    return tuple(key for key in found if key in known)


def _chain(node: ast.AST) -> tuple[str, ...]:
    """``("masks", "causal")`` for ``masks.causal``, nothing for what is no chain of names."""
    chain: tuple[str, ...] = ()
    while isinstance(node, ast.Attribute):
        chain, node = (node.attr, *chain), node.value
    return (node.id, *chain) if isinstance(node, ast.Name) and chain else ()


@cache
def speaking(root: Path, language: str) -> dict[str, tuple[str, ...]]:
    """The pages that speak of each name or use it, by its key; the reference is not among them."""
    found: dict[str, list[str]] = {}
    folder = root / "docs" / language
    for path in sorted(folder.rglob("*.md")):
        page = path.relative_to(folder).as_posix()
        if page.startswith("reference/"):
            continue
        text = path.read_text(encoding="utf-8")
        for key in dict.fromkeys((*mentioned(text, root), *used(text, root))):
            found.setdefault(key, []).append(page)
    return {key: tuple(pages) for key, pages in found.items()}


CACHED = (by_ending, used_by, speaking)
