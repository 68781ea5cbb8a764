"""Which names a piece of code takes from around it: Python's own rules, one case each."""

import ast
import symtable

from attnref.copying.scopes import bound, uses


def taken(code: str) -> set[str]:
    return {".".join(use.names) for use in uses(ast.parse(code).body)}


FROM_AROUND = [
    ("def f(a, /, b, *c, d, **e): return a, b, c, d, e, g", {"g"}),
    ("def f(a=b, *, c=d) -> e: x: y = z", {"b", "d", "e", "y", "z"}),
    ("async def f(a: b): await c", {"b", "c"}),
    ("@a.b\ndef f(): pass", {"a.b"}),
    ("def f(): return a.b.c[d].e", {"a.b.c", "d"}),
    ("def f(): return g().a.b", {"g"}),
    ("def f(): return (a + b).c", {"a", "b"}),
    ("def f(a):\n    def g(b): return a, b, c\n    return g", {"c"}),
    ("def f(): return lambda a, b=c: (a, b, d)", {"c", "d"}),
    ("def f(a): return [b for b in a if c(b)]", {"c"}),
    ("def f(): return [a for a in a]", {"a"}),
    ("def f(): return {a: b for a, b in c for d in e(a)}", {"c", "e"}),
    ("def f(): return [a for b in c if (d := b)], d, a", {"a", "c"}),
    ("def f():\n    global a\n    a = 1", {"a"}),
    ("def f():\n    import a.b\n    from c import d as e\n    return a, e, d", {"d"}),
    ("def f():\n    try: pass\n    except a as b: return b", {"a"}),
    ("def f(a):\n    with b(a) as c: del c", {"b"}),
    (
        "def f(a):\n    match a:\n        case [b, *c]: return b, c\n        case d: return d",
        set(),
    ),
    (
        "def f(a):\n    match a:\n        case {'b': 1, **c}: return c\n        case D(): pass",
        {"D"},
    ),
    ("class A(B, c=d):\n    e = z\n    g = e", {"B", "d", "z"}),
    ("class A:\n    a = 1\n    def f(self): return a", {"a"}),
    ("def f(a):\n    class B:\n        def g(self): return a\n    return B", set()),
    ("class A:\n    b: B = c", {"B", "c"}),
    ('def f(a: "B | C[d.e]") -> "F": pass', {"B", "C", "d.e", "F"}),
    ("def f(a: Literal['b'], c: 'D') -> t.Literal['e']: pass", {"Literal", "D", "t.Literal"}),
    ("def f(): return 'a'", set()),
]


def test_names_from_around():
    expected = dict(FROM_AROUND)
    assert {code: taken(code) - {"f", "A"} for code in expected} == expected


def test_own_names_are_known_at_each_place():
    (use,) = uses(ast.parse("def f(a):\n    def g(b): return m.c\n    d = 1").body)
    assert use.hidden == {"a", "g", "d", "b"}


def test_names_may_be_given():
    assert [use.names for use in uses(ast.parse("a(b)").body, frozenset("a"))] == [("b",)]


def test_an_annotation_in_quotes_has_its_place():
    (use,) = uses(ast.parse('x: "A.b" = 1').body[:1], frozenset("x"))
    assert [(node.col_offset, node.end_col_offset) for node in use.nodes] == [(4, 5), (4, 7)]


def test_python_agrees_about_what_is_bound():
    """On the functions of the package, judged by the compiler's own table."""
    import attnref.masks.patterns
    import attnref.multihead

    for module in (attnref.masks.patterns, attnref.multihead):
        with open(module.__file__, encoding="utf-8") as file:
            text = file.read()
        tables = {
            (table.get_name(), table.get_lineno()): table
            for table in children(symtable.symtable(text, "", "exec"))
            if isinstance(table, symtable.Function)
        }
        functions = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
        ]
        assert functions
        for node in functions:
            parameters = {
                argument.arg for argument in ast.walk(node.args) if type(argument) is ast.arg
            }
            locals_ = set(tables[node.name, node.lineno].get_locals())
            assert bound(node.body) | parameters == locals_, node.name


def children(table):
    for child in table.get_children():
        yield child
        yield from children(child)
