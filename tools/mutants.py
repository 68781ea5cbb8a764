"""Small ways to break a function: one operator, one number, one argument at a time.

Each place is a node of the syntax tree and what to make of it, as ``(function, line, what, apply)``
with ``apply()`` changing the tree where it stands.
"""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

OTHER = {
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


class Place(NamedTuple):
    """Where a function can be broken, and how."""

    function: str
    line: int
    what: str
    apply: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.line} in {self.function}: {self.what}"


def places(tree: ast.Module, executed: set[int]) -> list[Place]:
    """Every place of the functions of a file, on the lines that were executed."""
    return [
        Place(function.name, node.lineno, f"{before} → {_text(node, change)}", change)
        for function in _functions(tree)
        for statement in function.body
        for node in _computing(statement)
        if getattr(node, "lineno", None) in executed
        for before, change in [(_first_line(node), change) for change in _changes(node)]
    ]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions and methods, without those inside of them, which are part of their code."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif not isinstance(node, ast.expr):
            yield from _functions(node)


def _computing(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute: no annotation, no docstring, and of an assertion only what it asks.

    A test that fails since its own comparison or its own tolerance was changed shows nothing.
    """
    if isinstance(node, ast.Assert):
        test = node.test
        asked = [test.left, *test.comparators] if isinstance(test, ast.Compare) else [test]
        children = [part for part in asked if isinstance(part, ast.Call | ast.BinOp)]
    elif isinstance(node, ast.Call) and _asserts(node):
        children = [part for part in node.args if isinstance(part, ast.Call | ast.BinOp)]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    else:
        yield node
        skipped = {getattr(node, "annotation", None), getattr(node, "returns", None)}
        children = [child for child in ast.iter_child_nodes(node) if child not in skipped]
    for child in children:
        yield from _computing(child)


def _asserts(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return "assert" in name or name.startswith("pytest.")


def _changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) | ast.UnaryOp(op=op):
            if type(op) in OTHER:
                yield partial(setattr, node, "op", OTHER[type(op)]())
        case ast.Compare(ops=[op]):
            yield partial(setattr, node, "ops", [OTHER[type(op)]()])
        case ast.Constant(value=bool() as value):
            yield partial(setattr, node, "value", not value)
        case ast.Constant(value=int() | float() as value):
            yield partial(setattr, node, "value", value + 1)
        case ast.Constant(value=str() as value):
            yield partial(setattr, node, "value", f"{value}!")
        case ast.If(test=test) | ast.IfExp(test=test):
            yield partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Call(args=[first, second, *others]):
            yield partial(setattr, node, "args", [second, first, *others])
        case ast.Call(keywords=[_, *_] as keywords):
            for keyword in keywords:
                rest = [other for other in keywords if other is not keyword]
                yield partial(setattr, node, "keywords", rest)
        case ast.Expr(value=ast.Call()):
            yield partial(setattr, node, "value", ast.Constant(None))
        case ast.Attribute(attr=name) if name in RENAMED:
            yield partial(setattr, node, "attr", RENAMED[name])
        case ast.Name(id=name) if name in RENAMED:
            yield partial(setattr, node, "id", RENAMED[name])


def _text(node: ast.AST, change: partial) -> str:
    """The node as it will be, which is put back as it was."""
    _, field, _ = change.args
    before = getattr(node, field)
    change()
    after = _first_line(node)
    setattr(node, field, before)
    return after


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]
