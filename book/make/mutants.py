"""Small ways to break a function: one operator, number, argument or call at a time."""

import ast
import os
from collections.abc import Iterator
from typing import NamedTuple

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.USub: ast.UAdd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NAMES = [
    ("max", "min"),
    ("amax", "amin"),
    ("any", "all"),
    ("sum", "mean"),
    ("tril", "triu"),
    ("sin", "cos"),
    ("exp", "expm1"),
    ("log", "log2"),
    ("sqrt", "square"),
    ("zeros", "ones"),
]
RENAMED = dict(NAMES) | {there: here for here, there in NAMES}
FIRST = ast.parse("lambda first, *_, **__: first", mode="eval").body


class Mutant(NamedTuple):
    """A node of a file's syntax tree, and the field of it that is to be another."""

    file: str
    tree: ast.Module
    function: str
    node: ast.stmt | ast.expr
    field: str
    value: object

    def apply(self) -> ast.Module:
        setattr(self.node, self.field, self.value)
        return ast.fix_missing_locations(self.tree)

    def __str__(self) -> str:
        before, original = _first_line(self.node), getattr(self.node, self.field)
        self.apply()
        after = _first_line(self.node)
        setattr(self.node, self.field, original)
        where = f"{os.path.relpath(self.file)}:{self.node.lineno} in {self.function}"
        return f"{where}: {before} → {after}"


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def mutants(file: str, executed: set[int]) -> Iterator[Mutant]:
    """Every mutant of the functions of a file, on the lines that were executed."""
    with open(file, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    for function in _functions(tree):
        for statement in function.body:
            for node in _computing(statement, executed):
                if isinstance(node, ast.stmt | ast.expr) and node.lineno in executed:
                    for field, value in _changes(node):
                        yield Mutant(file, tree, function.name, node, field, value)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods, without those inside of them, which are part of their code."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif not isinstance(node, ast.expr):
            yield from _functions(node)


def _computing(node: ast.AST, executed: set[int]) -> Iterator[ast.AST]:
    """The nodes that compute: no annotation or docstring, of an assertion only what it asks, and no
    check that passes, which would stop all the same with another error if it did not.

    A test that fails since its own comparison or its own tolerance was changed shows nothing.
    """
    asked: list[ast.expr] | None = None
    match node:
        case ast.Assert(test=ast.Compare(left=left, comparators=comparators)):
            asked = [left, *comparators]
        case ast.Assert(test=test):
            asked = [test]
        case ast.Call(func=func, args=args) if _asserts(func):
            asked = args
        case ast.If(body=[*_, ast.Raise() as error], orelse=[]) if error.lineno not in executed:
            return
        case ast.Expr(value=ast.Constant()):
            return
    if asked is None:
        yield node
        skipped = {getattr(node, "annotation", None), getattr(node, "returns", None)}
        children = [child for child in ast.iter_child_nodes(node) if child not in skipped]
    else:
        children = [part for part in asked if isinstance(part, ast.Call | ast.BinOp)]
    for child in children:
        yield from _computing(child, executed)


def _asserts(function: ast.expr) -> bool:
    name = ast.unparse(function)
    return "assert" in name or name.startswith("pytest.")


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Each field of a node that can be another, with what it becomes."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) | ast.UnaryOp(op=op):
            if type(op) in OTHER:
                yield "op", OTHER[type(op)]()
        case ast.Compare(ops=[op]):
            yield "ops", [OTHER[type(op)]()]
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() | float() as value):
            yield "value", value + 1
        case ast.Constant(value=str() as value):
            yield "value", f"{value}!"
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Call(args=args, keywords=keywords):
            if args:
                yield "func", FIRST
            if len(args) > 1:
                yield "args", [args[1], args[0], *args[2:]]
            for keyword in keywords:
                yield "keywords", [other for other in keywords if other is not keyword]
        case ast.Expr(value=ast.Call()):
            yield "value", ast.Constant(None)
        case ast.Attribute(attr=name) if name in RENAMED:
            yield "attr", RENAMED[name]
        case ast.Name(id=name) if name in RENAMED:
            yield "id", RENAMED[name]
