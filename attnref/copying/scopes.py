"""Scopes: which names a piece of code takes from around it, and which are its own there."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Use(NamedTuple):
    """A name that is not the code's own, with the attributes that follow it.

    Attributes:
        names: of ``masks.causal(5)`` the ``("masks", "causal")``.
        nodes: where they are, each with those before it: ``masks`` and ``masks.causal``.
        hidden: the code's own names at this place, which nothing from around may have.
    """

    names: tuple[str, ...]
    nodes: tuple[ast.expr, ...]
    hidden: frozenset[str]


def uses(statements: Iterable[ast.stmt], own: frozenset[str] = frozenset()) -> Iterator[Use]:
    """What these statements take from around them, annotations in quotes included.

    Args:
        statements: of a module.
        own: names that are theirs, whatever they do.

    Examples:
        >>> tree = ast.parse("def f(x: Tensor): return [masks.causal(y) for y in x]")
        >>> [use.names for use in uses(tree.body)]
        [('Tensor',), ('masks', 'causal')]
    """
    visitor = _Visitor(own)
    for statement in statements:
        visitor.visit(statement)
    yield from visitor.found


def bound(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that this code binds in its own scope.

    Examples:
        >>> sorted(bound(ast.parse("import a.b as c, d.e\\nfor i in x: y = [j for j in i]").body))
        ['c', 'd', 'i', 'y']
    """
    names: set[str] = set()
    elsewhere: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
                continue
            case ast.ClassDef(name=name):
                names.add(name)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                # A comprehension keeps its names to itself, but for those of := in it.
                inner = (part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
                waiting.extend(part.target for part in inner)
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                names.add(name)
            case ast.Global(names=others):
                elsewhere.update(others)
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(names - elsewhere)


class _Visitor(ast.NodeVisitor):
    def __init__(self, own: frozenset[str]) -> None:
        self.found: list[Use] = []
        self._outer = own  # of the functions around
        self._class = frozenset[str]()  # of the class body that this is, which functions do not see
        self._annotated = False

    def visit_Name(self, node: ast.Name) -> None:
        self._use([node])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        nodes: list[ast.expr] = [node]
        while isinstance(nodes[0], ast.Attribute):
            nodes.insert(0, nodes[0].value)
        self._use(nodes)

    def visit_FunctionDef(self, node: _Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._defaults(node.args)
        for argument in _arguments(node.args):
            self._annotation(argument.annotation)
        self._annotation(node.returns)
        self._visit_body(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._visit_body(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        around, self._class = self._class, bound(node.body)
        for statement in node.body:
            self.visit(statement)
        self._class = around

    def _comprehension(self, node: _Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        around = self._outer
        self._outer |= bound(generator.target for generator in node.generators)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in (*first.ifs, *others, *parts):
            self.visit(part)
        self._outer = around

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        # The strings of a Literal are values, not annotations in quotes.
        before = self._annotated
        self._annotated = before and not ast.unparse(node.value).endswith("Literal")
        self.visit(node.slice)
        self._annotated = before

    def visit_Constant(self, node: ast.Constant) -> None:
        if self._annotated and isinstance(node.value, str):
            quoted = ast.parse(node.value, mode="eval").body
            for part in ast.walk(quoted):
                if isinstance(part, ast.expr):
                    part.lineno, part.end_lineno = node.lineno, node.lineno
                    part.col_offset += node.col_offset + 1  # behind the quote
                    part.end_col_offset = (part.end_col_offset or 0) + node.col_offset + 1
            self.visit(quoted)

    def _use(self, nodes: list[ast.expr]) -> None:
        first, *rest = nodes
        hidden = self._outer | self._class
        if not isinstance(first, ast.Name):
            self.visit(first)
        elif first.id not in hidden:
            attributes = (node.attr for node in rest if isinstance(node, ast.Attribute))
            self.found.append(Use((first.id, *attributes), tuple(nodes), hidden))

    def _annotation(self, node: ast.expr | None) -> None:
        if node is not None:
            self._annotated = True
            self.visit(node)
            self._annotated = False

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)

    def _visit_body(self, arguments: ast.arguments, body: Iterable[ast.AST]) -> None:
        """The body of a function: it sees what the functions around it bind, but no class's."""
        body = list(body)
        around = self._outer, self._class
        self._outer |= bound(body) | {argument.arg for argument in _arguments(arguments)}
        self._class = frozenset()
        for part in body:
            self.visit(part)
        self._outer, self._class = around


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return named + [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
