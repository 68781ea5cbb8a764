"""What the package offers: its public names, with their code and what they say of themselves.

The package is read as text by :mod:`attnref.copying`, which knows what can be copied; that is
public, and so are the types that it returns, the second opinion, the checker and the exercises.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from attnref.copying.catalogue import catalogue
from attnref.copying.source import Definition, Package

# Public beside what can be copied; the last two say what in their __all__.
OTHERS = ("oracle", "conformance", "exercises")
WIDTH = 72  # of a signature in one line


@dataclass(frozen=True)
class Name:
    """A public function, class or method, or a module.

    Attributes:
        key: how it is called within the package: ``masks.causal``, ``masks.Mask.dense``.
        module: the one that offers it: ``masks``.
        node: its code.
        docstring: what it says of itself.
        copy: what ``attnref copy`` calls it, "" where it cannot be copied.
        page: the page of the book that explains it, "" where none is named.
        path: the file that it stands in.
        methods: of a class, those that are public and say what they do.
    """

    key: str
    module: str
    node: ast.FunctionDef | ast.ClassDef | ast.Module
    docstring: str
    path: str
    copy: str = ""
    page: str = ""
    methods: tuple["Name", ...] = field(default=(), repr=False)

    @property
    def anchor(self) -> str:
        if isinstance(self.node, ast.Module):
            return f"module-{self.key.replace('.', '-')}"
        return self.key.removeprefix(f"{self.module}.")

    @property
    def short(self) -> str:
        """With the module that it is imported from, unless that is the package itself."""
        own = self.module in ("reference", "multihead") or self.module.startswith("variants.")
        return self.anchor if own else self.key


@cache
def read(root: Path) -> Package:
    """The package as text; each of its modules is parsed once."""
    return Package(root / "attnref")


@cache
def modules(root: Path) -> dict[str, Name]:
    """The public modules by their names: those of what can be copied, and the others."""
    package, found = read(root), {}
    offered = [entry.definition.source.module for entry in catalogue(package)]
    for module in (*dict.fromkeys(sorted(offered)), *OTHERS):
        source = package.source(module)
        tree = ast.parse(source.text)
        path = f"attnref/{module.replace('.', '/')}"
        path += "/__init__.py" if (root / path).is_dir() else ".py"
        found[module] = Name(module, module, tree, ast.get_docstring(tree) or "", path)
    return found


@cache
def names(root: Path) -> dict[str, Name]:
    """What is public, by its key: functions that have an example, and all classes."""
    package, found = read(root), {}
    entries = {str(entry.definition): entry for entry in catalogue(package)}
    for module in modules(root):
        for name, definition in _offered(package, module):
            node = definition.statements[-1]
            docstring = ast.get_docstring(node) or ""
            shown = isinstance(node, ast.ClassDef) or ">>> " in docstring or module in OTHERS[1:]
            if name.startswith("_") or not shown or not docstring:
                continue
            entry = entries.get(str(definition))
            inside = definition.source.module
            found[f"{module}.{name}"] = Name(
                key=f"{module}.{name}",
                module=module,
                node=node,
                docstring=docstring,
                copy=entry.name if entry else "",
                page=entry.page.removeprefix("en/").rstrip("/") + ".md" if entry else "",
                path=f"attnref/{inside.replace('.', '/')}.py",
                methods=tuple(_methods(f"{module}.{name}", module, node)),
            )
    return found


def _offered(package: Package, module: str) -> Iterator[tuple[str, Definition]]:
    """The functions and classes of a module, or those that its ``__all__`` names."""
    source = package.source(module)
    if "__all__" in source.definitions:
        (statement,) = source.definitions["__all__"].statements
        listed = {
            name: package.follow((name,), *source.inside[name], f"{module}.__all__")[0]
            for name in ast.literal_eval(statement.value)
        }
    else:
        listed = source.definitions
    for name, definition in listed.items():
        if isinstance(definition.statements[-1], ast.FunctionDef | ast.ClassDef):
            yield name, definition


def _methods(key: str, module: str, node: ast.AST) -> Iterator[Name]:
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        said = ast.get_docstring(part) if isinstance(part, ast.FunctionDef) else None
        if said and not part.name.startswith("_"):
            yield Name(f"{key}.{part.name}", module, part, said, "")


def tests(name: Name, root: Path) -> list[str]:
    """The file or the folder that tests a module."""
    folder, _, stem = name.module.rpartition(".")
    mirror = f"tests/{folder}/test_{stem}.py" if folder else f"tests/test_{stem}.py"
    return [path for path in (mirror, f"tests/{name.module}") if (root / path).exists()]


def signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    """How it is called, in one line where it fits, else one argument a line."""
    if isinstance(node, ast.ClassDef):
        start, end = f"class {node.name}", ""
        init = [part for part in node.body if getattr(part, "name", "") == "__init__"]
        arguments = _arguments(init[0].args)[1:] if init else _fields(node)
    else:
        kinds = [ast.unparse(decorator) for decorator in node.decorator_list]
        end = f" -> {ast.unparse(node.returns)}"
        if "property" in kinds:
            return f"{node.name}{end}"
        start = "".join(f"@{kind}\n" for kind in kinds if "method" in kind) + node.name
        arguments = _arguments(node.args)
        if arguments and arguments[0] in ("self", "cls"):
            del arguments[0]
    line = f"{start}({', '.join(arguments)}){end}"
    if len(line.rpartition("\n")[-1]) <= WIDTH:
        return line
    return "\n".join((f"{start}(", *(f"    {argument}," for argument in arguments), f"){end}"))


def _arguments(args: ast.arguments) -> list[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    found = [_argument(*pair) for pair in zip(plain, defaults, strict=True)]
    if args.posonlyargs:
        found.insert(len(args.posonlyargs), "/")
    if args.vararg:
        found.append(f"*{_argument(args.vararg)}")
    elif args.kwonlyargs:
        found.append("*")
    found += [_argument(*pair) for pair in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        found.append(f"**{_argument(args.kwarg)}")
    return found


def _argument(argument: ast.arg, default: ast.expr | None = None) -> str:
    annotation, equals = argument.annotation, " = "
    if annotation is None:
        shown, equals = argument.arg, "="
    else:
        shown = f"{argument.arg}: {ast.unparse(annotation)}"
    if default is None:
        return shown
    text = isinstance(default, ast.Constant) and isinstance(default.value, str)
    return f"{shown}{equals}{json.dumps(default.value) if text else ast.unparse(default)}"


def _fields(node: ast.ClassDef) -> list[str]:
    """Of a dataclass or a named tuple."""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    keyword = any("kw_only=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    shown = [
        ast.unparse(ast.AnnAssign(part.target, part.annotation, part.value, 1)) for part in fields
    ]
    return ["*", *shown] if keyword else shown


CACHED = (read, modules, names)
