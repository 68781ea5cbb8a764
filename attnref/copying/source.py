"""What the modules of a package define and import, and what each definition uses."""

import ast
import builtins
import doctest
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from attnref.copying.scopes import Use, bound, uses
from attnref.text import Refusal


class CopyError(Refusal, ValueError):
    """A request that cannot be met; its message is one line for the person who asked."""


class Span(NamedTuple):
    """A piece of a module's text, in bytes, for so the parser counts columns."""

    start: int
    stop: int


class Reference(NamedTuple):
    """Where a definition uses a name from around it, and what that stands for.

    Attributes:
        user: the definition.
        span: the place in the text of its module.
        target: a definition of the package; None for an import from elsewhere or a builtin.
        name: of the target in its module.
        hidden: names that have another meaning at this place.
    """

    user: "Definition"
    span: Span
    target: "Definition | None"
    name: str
    hidden: frozenset[str] = frozenset()


class Examples(NamedTuple):
    """The examples of one docstring, which run together and apart from all others.

    Attributes:
        docstring: the one that they are in.
        lines: the lines of the module that they take, counted from 1.
        imports: those of them that import from the package.
        references: what the others use from around.
    """

    docstring: ast.Constant
    lines: tuple[int, ...]
    imports: tuple[int, ...]
    references: tuple[Reference, ...]


@dataclass(eq=False)
class Definition:
    """One name of a module, or several that are made together, and the statements that do."""

    source: "Source"
    names: tuple[str, ...]
    statements: list[ast.stmt] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.source.dotted}.{self.names[0]}"

    @cached_property
    def references(self) -> list[Reference]:
        """Of the code; the place where a name is defined refers to itself."""
        for name in self.names:
            self.source.check_defined(name, self)
        found = [self.source.reference(use, self) for use in uses(self.statements)]
        for statement in self.statements:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                span = self.source.name_span(statement)
                found.append(Reference(self, span, self, statement.name))
        return found

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """Its own, and those of all that is defined in it."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        nodes = [part for statement in self.statements for part in ast.walk(statement)]
        starts = [node.body[0] for node in nodes if isinstance(node, kinds)]
        values = [start.value for start in starts if isinstance(start, ast.Expr)]
        return [
            value
            for value in values
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
        ]

    @cached_property
    def examples(self) -> list[Examples]:
        """Of each docstring that has any."""
        found = (self.source.examples(docstring, self) for docstring in self.docstrings)
        return [examples for examples in found if examples is not None]

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring in one line, "" without one."""
        text = str(self.docstrings[0].value) if self.docstrings else ""
        return " ".join(text.strip().partition("\n\n")[0].split())


# What an import binds: the module of the package and the name there, "" for the module itself.
Inside = dict[str, tuple[str, str]]


class Source:
    """The text of a module, and what its names stand for.

    Attributes:
        definitions: by each name that they make.
        inside: what is imported from the package.
        outside: for each other imported name the statements that import it.
    """

    def __init__(self, package: "Package", module: str, path: Path) -> None:
        self.package, self.module = package, module
        self.dotted = f"{package.name}.{module}".removesuffix(".")
        self.text = path.read_bytes()
        self.lines = self.text.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))
        self.definitions: dict[str, Definition] = {}
        self.inside: Inside = {}
        self.outside: dict[str, set[str]] = {}
        others: list[ast.stmt] = []
        for statement in ast.parse(self.text).body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    inside, outside = self.imports(statement)
                    self.inside |= inside
                    for name, text in outside.items():
                        self.outside.setdefault(name, set()).add(text)
                case ast.Expr(value=ast.Constant()):
                    pass  # a docstring
                case _:
                    if not self._define(statement):
                        others.append(statement)
        # Names that are made or changed by something else than a definition.
        self._others = {name: node.lineno for node in others for name in bound([node])}
        for node in others:
            changed = {use.names[0] for use in uses([node])} & self.definitions.keys()
            self._others |= dict.fromkeys(changed, node.lineno)

    @cached_property
    def exports(self) -> list[str]:
        """What its ``__all__`` names; nothing without one."""
        if "__all__" not in self.definitions:
            return []
        (statement,) = self.definitions["__all__"].statements
        assert isinstance(statement, ast.Assign)
        return list(ast.literal_eval(statement.value))

    def find_export(self, name: str) -> Definition:
        """What defines a name of its ``__all__``, here or where it is imported from."""
        return self.package.follow((name,), self.module, name, self.dotted)[0]

    def reference(
        self,
        use: Use,
        user: Definition,
        inside: Inside | None = None,
        place: tuple[int, int] = (0, 0),
    ) -> Reference:
        """What a use stands for.

        Args:
            use: in code of this module, or in an example.
            user: the definition that it belongs to.
            inside: what the example imports from the package.
            place: lines and columns of the module before those of the example.
        """
        target, name, length = self._resolve(use.names, user, self.inside | (inside or {}))
        first, last = use.nodes[0], use.nodes[length - 1]
        lines, columns = place
        start = self._starts[first.lineno - 1 + lines] + first.col_offset + columns
        stop = self._starts[_end(last) - 1 + lines] + (last.end_col_offset or 0) + columns
        return Reference(user, Span(start, stop), target, name, use.hidden)

    def examples(self, docstring: ast.Constant, user: Definition) -> Examples | None:
        """The examples of a docstring of this module, None without any."""
        start, stop = self.span(docstring)
        text = self.text[start:stop].decode().removesuffix('"""')
        lines: list[int] = []
        imports: list[int] = []
        inside: Inside = {}
        bodies: list[tuple[tuple[int, int], list[ast.stmt]]] = []
        for example in doctest.DocTestParser().get_examples(text):
            first = docstring.lineno + example.lineno
            stop = first + example.source.count("\n")
            lines += range(first, stop + example.want.count("\n"))
            body = ast.parse(example.source).body
            ours = [
                self.imports(statement)[0]
                for statement in body
                if isinstance(statement, ast.Import | ast.ImportFrom)
            ]
            if any(ours):
                imports += range(first, stop)
                for names in ours:
                    inside |= names
            else:
                bodies.append(((first - 1, example.indent + len(">>> ")), body))
        if not lines:
            return None
        own = bound(statement for _, body in bodies for statement in body)
        references = tuple(
            self.reference(use, user, inside, place)
            for place, body in bodies
            for use in uses(body, own)
        )
        return Examples(docstring, tuple(lines), tuple(imports), references)

    def check_defined(self, name: str, user: Definition) -> None:
        """A copy has definitions and imports, not what other statements do at the import."""
        if name in self._others:
            raise CopyError(
                en=f"{self.dotted}, line {self._others[name]}: expected {name}, which {user} "
                "needs, to be a definition or an import, got another statement that makes or "
                "changes it. Define it in one statement.",
                pt=f"{self.dotted}, linha {self._others[name]}: o esperado era que {name}, de que "
                f"{user} precisa, fosse uma definição ou um import, veio outra instrução que o "
                "cria ou altera. Defina-o em uma só instrução.",
            )

    def imports(self, statement: ast.Import | ast.ImportFrom) -> tuple[Inside, dict[str, str]]:
        """What it binds: names from the package, and others with a statement for each."""
        inside: Inside = {}
        outside: dict[str, str] = {}
        for alias in statement.names:
            name = alias.asname or alias.name
            renamed = f" as {alias.asname}" if alias.asname else ""
            if isinstance(statement, ast.ImportFrom):
                origin, imported = statement.module or "", alias.name
                text = f"from {'.' * statement.level}{origin} import {imported}{renamed}"
            else:
                origin, imported = alias.name, ""
                text = f"import {origin}{renamed}"
                if not alias.asname:
                    name = origin = origin.partition(".")[0]
            root, _, module = origin.partition(".")
            if root == self.package.name:
                inside[name] = (module, imported)
            else:
                outside[name] = text
        return inside, outside

    def span(self, node: ast.expr) -> Span:
        start = self._starts[node.lineno - 1] + node.col_offset
        return Span(start, self._starts[_end(node) - 1] + (node.end_col_offset or 0))

    def line_span(self, first: int, last: int) -> Span:
        """Whole lines, counted from 1."""
        return Span(self._starts[first - 1], self._starts[last])

    def name_span(self, node: ast.FunctionDef | ast.ClassDef) -> Span:
        """The name in ``def name`` or ``class name``."""
        start = self._starts[node.lineno - 1] + node.col_offset
        keyword = re.compile(rb"(def|class)\s+").match(self.text, start)
        assert keyword is not None
        return Span(keyword.end(), keyword.end() + len(node.name.encode()))

    def _define(self, statement: ast.stmt) -> bool:
        """Takes in a statement that makes names and nothing else; False for any other."""
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names: tuple[str, ...] = (name,)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                made = target.elts if isinstance(target, ast.Tuple) else [target]
                names = tuple(node.id for node in made if isinstance(node, ast.Name))
                if len(names) != len(made):
                    return False
            case _:
                return False
        known = [self.definitions[name] for name in names if name in self.definitions]
        definition = known[0] if known else Definition(self, names)
        if definition.names != names:
            return False
        definition.statements.append(statement)  # a function comes after its overloads
        self.definitions |= dict.fromkeys(names, definition)
        return True

    def _resolve(
        self, names: tuple[str, ...], user: Definition, inside: Inside
    ) -> tuple[Definition | None, str, int]:
        """Target and name of a reference, and how many of the names lead there."""
        first = names[0]
        self.check_defined(first, user)
        if first in self.definitions:
            return self.definitions[first], first, 1
        if first in inside:
            return self.package.follow(names, *inside[first], user)
        if first in self.outside or hasattr(builtins, first):
            return None, first, 1
        raise CopyError(
            en=f"{self.dotted}: expected {first}, which {user} needs, to be defined or imported, "
            "got no such name. Define it there.",
            pt=f"{self.dotted}: o esperado era que {first}, de que {user} precisa, fosse definido "
            "ou importado, e não há esse nome. Defina-o ali.",
        )


class Package:
    """The modules of a package, read when they are asked for.

    Args:
        root: its folder, of the same name.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, root.name
        self._sources: dict[str, Source] = {}

    def source(self, module: str) -> Source | None:
        """A module by its name within the package, "" for the package itself."""
        if module not in self._sources:
            path = self.root.joinpath(*module.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if not path.is_file():
                return None
            self._sources[module] = Source(self, module, path)
        return self._sources[module]

    def follow(
        self, names: tuple[str, ...], module: str, name: str, user: object
    ) -> tuple[Definition, str, int]:
        """The definition that names lead to, its name in its module, and how many it takes.

        Args:
            names: as they are written, the first of them imported.
            module: where that leads to,
            name: and its name there, "" for the module itself.
            user: what they belong to, as messages name it.
        """
        length = 1
        while True:
            if not name:
                if length == len(names):
                    raise CopyError(
                        en=f"{'.'.join(names)}: expected a name of this module, for {user} is to "
                        "be copied, got the module itself. Write what is needed of it.",
                        pt=f"{'.'.join(names)}: o esperado era um nome desse módulo, pois {user} "
                        "será copiado, veio o próprio módulo. Escreva o que se usa dele.",
                    )
                name, length = names[length], length + 1
            source = self.source(module)
            if source is not None and name in source.definitions:
                return source.definitions[name], name, length
            if source is not None and source.inside.get(name, (module, name)) != (module, name):
                module, name = source.inside[name]
            elif self.source(f"{module}.{name}".removeprefix(".")) is not None:
                module, name = f"{module}.{name}".removeprefix("."), ""
            else:
                raise CopyError(
                    en=f"{'.'.join(names)}: expected a function, class or constant of {self.name}, "
                    f"because {user} needs it, got none called {name}. Import it from the module "
                    "that defines it.",
                    pt=f"{'.'.join(names)}: o esperado era uma função, classe ou constante de "
                    f"{self.name}, pois {user} precisa dela, e nenhuma se chama {name}. Importe-a "
                    "do módulo que a define.",
                )


def _end(node: ast.expr) -> int:
    assert node.end_lineno is not None  # as always when Python has parsed a text
    return node.end_lineno
