"""Ties each claim of a page to the test that verifies it.

A page states ``[what is claimed](claim:its-id)``; a test carries ``@pytest.mark.claim("its-id")``.
The statement then shows the path of its test, as a link to the page of claims, where the test
itself can be read. A claim without a test stops the build, and so does one whose test asserts
nothing that it computes. Whether a test fails when the claim is false, ``make audit`` tries out.
"""

import ast
import os
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mkdocs.exceptions import PluginError
from pages import ROOT, Problem, lines_outside_blocks, stop_at, title

# The statement may hold formulas with brackets of their own, one level deep.
CLAIM = re.compile(r"\[(?P<statement>(?:[^\[\]]|\[[^\[\]]*\])+)\]\(claim:(?P<id>[a-z0-9-]*)\)")
PAGE = "reference/claims.md"
PLACE = "<!-- every claim -->"
WORDS = {
    "pt": {"stated": "Afirmada em", "test": "Teste"},
    "en": {"stated": "Stated in", "test": "Test"},
}


@dataclass(frozen=True)
class Test:
    """A test function: where it stands, how it reads, and whether it asserts what it computes."""

    path: str
    name: str
    source: str
    line: int
    asserts: bool


def tests_by_claim(root: Path) -> dict[str, list[Test]]:
    """The tests that are marked with each claim id, read without importing them."""
    found: dict[str, list[Test]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for claim, *test in _marked(path, path.stat().st_mtime_ns):
            found.setdefault(claim, []).append(Test(name, *test))
    return found


@cache
def _marked(path: Path, changed: int) -> list[tuple[str, str, str, int, bool]]:
    """Each claim of a file with the parts of its :class:`Test`; the file is read once a change."""
    text = path.read_text(encoding="utf-8")
    if "mark.claim" not in text:
        return []
    found = []
    lines = text.split("\n")
    nodes = list(ast.walk(ast.parse(text)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    helpers = {name: value for node in nodes for name, value in _bindings(node)}
    helpers |= {node.name: node for node in functions}
    for node in functions:
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.claim":
                first = min(line.lineno for line in node.decorator_list)
                source = "\n".join(lines[first - 1 : node.end_lineno])
                asserts = _asserts(node, helpers)
                found.append((call.args[0].value, node.name, source, node.lineno, asserts))
    return found


def _asserts(test: ast.FunctionDef, helpers: dict[str, ast.AST]) -> bool:
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
                if _asserts(helper, others):
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


def claims_of(text: str) -> list[tuple[str, str]]:
    """``(id, statement)`` of each claim of a page, in order."""
    return [(match["id"], " ".join(match["statement"].split())) for match in _stated(text)]


def _stated(text: str) -> list[re.Match]:
    """The claims of a page, but for those that a fenced block shows as code."""
    prose = {number for number, _ in lines_outside_blocks(text)}
    return [match for match in CLAIM.finditer(text) if _line(text, match) in prose]


def _line(text: str, match: re.Match) -> int:
    return text.count("\n", 0, match.start()) + 1


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Each claim of a page that no test verifies, and each test of one that cannot fail."""
    tests = tests_by_claim(root)
    found = []
    for match in _stated(text):
        if match["id"] not in tests:
            advice = f'mark the test that verifies it with @pytest.mark.claim("{match["id"]}")'
            found.append(
                Problem(page, _line(text, match), f"claim {match['id']!r} has no test; {advice}")
            )
        for test in tests.get(match["id"], []):
            if not test.asserts:
                message = (
                    f"{test.name} is the test of claim {match['id']!r} and asserts nothing that it "
                    "computes; assert what would be otherwise if the claim were false"
                )
                found.append(Problem(root / test.path, test.line, message))
    return found


@cache
def _tests() -> dict[str, list[Test]]:
    return tests_by_claim(ROOT)


def on_pre_build(config) -> None:
    _tests.cache_clear()


def on_page_markdown(markdown: str, page, config, files) -> str:
    stop_at(problems, page)
    target = posixpath.relpath(PAGE, posixpath.dirname(page.file.src_uri) or ".")

    prose = {number for number, _ in lines_outside_blocks(markdown)}

    def show(match: re.Match) -> str:
        if _line(markdown, match) not in prose:
            return match[0]
        test = _tests()[match["id"]][0]
        link = f"[`{test.path}`]({target}#{match['id']}){{ .claim-test }}"
        statement = f'<span class="claim-statement">{match["statement"]}</span>'
        return f'<span class="claim" id="claim-{match["id"]}">{statement} {link}</span>'

    markdown = CLAIM.sub(show, markdown)
    if page.file.src_uri == PAGE:
        if PLACE not in markdown:
            raise PluginError(f"{page.file.abs_src_path}:1: expected the line {PLACE}")
        markdown = markdown.replace(PLACE, _catalogue(Path(config.docs_dir), files))
    return markdown


def _catalogue(docs_dir: Path, files) -> str:
    """Each claim in the order of the pages: statement, pages, tests with their code."""
    words = WORDS[docs_dir.name]
    stated: dict[str, list[tuple[str, str]]] = {}
    for file in sorted(files.documentation_pages(), key=lambda file: file.src_uri):
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        for claim, statement in claims_of(text):
            stated.setdefault(claim, []).append((file.src_uri, statement))
    parts = []
    for claim, places in stated.items():
        statement = places[0][1][0].upper() + places[0][1][1:] + "."
        pages = ", ".join(
            f"[{title(docs_dir / uri)}]({os.path.relpath(uri, 'reference')}#claim-{claim})"
            for uri in dict.fromkeys(uri for uri, _ in places)
        )
        parts.append(f"## `{claim}` {{#{claim}}}\n\n{statement}\n\n{words['stated']}: {pages}.\n")
        for test in _tests()[claim]:
            # Not in colours, which would make of this page more than a browser likes to hold; nor
            # in the index, where code would hide prose.
            parts.append(
                f"{words['test']}: `{test.path}::{test.name}`\n\n"
                f"<div data-search-exclude markdown>\n\n```text\n{test.source}\n```\n\n</div>\n"
            )
    return "\n".join(parts)
