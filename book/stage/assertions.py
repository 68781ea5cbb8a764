"""Whether a test asserts something that it computes, read without running it."""

import ast
import re


def definitions(tree: ast.Module) -> dict[str, ast.AST]:
    """The functions of a file, and the expressions that it binds to a name, at its top level."""
    found: dict[str, ast.AST] = dict(pair for node in tree.body for pair in _bindings(node))
    return found | {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def asserts(test: ast.FunctionDef, helpers: dict[str, ast.AST]) -> bool:
    """Whether a function asserts something that it computes, itself or by others of its file."""
    fixed = " ".join(ast.unparse(call) for call in test.decorator_list)
    computed = {arg.arg for arg in test.args.args if not re.search(rf"\b{arg.arg}\b", fixed)}

    def depends(expression: ast.AST) -> bool:
        return any(
            isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in computed)
            for node in ast.walk(expression)
        )

    nodes = list(ast.walk(test))
    bound = [pair for node in nodes for pair in _bindings(node)]
    helpers = helpers | dict(bound)
    # A name may depend on one that is bound further down, in a loop.
    while found := {name for name, value in bound if name not in computed and depends(value)}:
        computed |= found
    for node in nodes:
        if isinstance(node, ast.Assert) and depends(node.test):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            helper = helpers.get(name)
            if isinstance(helper, ast.expr):  # such as close = partial(assert_close, …)
                name = ast.unparse(helper)
            if name == "pytest.raises" or ("assert" in name and any(map(depends, node.args))):
                return True
            if isinstance(helper, ast.FunctionDef):
                others = {key: value for key, value in helpers.items() if value is not helper}
                if asserts(helper, others):
                    return True
    return False


def _bindings(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The names that a statement binds, each with the expression that it comes from."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            targets = [target]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            targets = [target]
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            targets = [target]
        case ast.Call(func=ast.Attribute(value=ast.Name() as target)):  # results.append(…)
            targets, value = [target], node
        case _:
            return []
    names = (name for target in targets for name in ast.walk(target))
    return [(name.id, value) for name in names if isinstance(name, ast.Name)]
