"""Turns the docstrings of the package into Markdown, as mkdocstrings expects them.

They are written for Python's help, in Google's style with two of Sphinx's marks: roles, and code
after ``::``. Other lines that are indented below a text are formulas.
"""

import ast
import re
import textwrap
from collections.abc import Iterable

import griffe

from book.page import BookError
from book.stage.formulas_as_text import display, latex
from book.stage.names import canonical

ROLE = re.compile(r":(?P<role>[a-z]+):`~?(?P<text>[^`]+)`")
ARXIV = re.compile(r"arXiv (?P<id>\d{4}\.\d{4,5})")
SOURCE = re.compile(r"^Source: ", re.MULTILINE)
# What belongs to a line is indented deeper than it, also behind an empty line.
MORE = r"(?:\n+(?P=indent) +\S.*)"
FORMULA = re.compile(
    r"^(?P<said>(?![A-Z][a-z]+:$)\S.*(?<!::))\n\n(?P<lines>(?: {4} *(?!>>>)\S.*(?:\n|\Z))+)",
    re.MULTILINE,
)
# Code has none of these signs.
INLINE = re.compile(r"``(?P<formula>[^`\n]*[^\x00-\x7f…×–`][^`\n]*)``")
CODE = re.compile(rf"^(?P<indent> *)(?P<said>.*)::(?P<body>{MORE}+)", re.MULTILINE)
# Parameters that are explained together are shown apart, each with its type and default.
TOGETHER = re.compile(
    rf"^(?P<indent> +)(?P<names>[a-z]\w*(?:, [a-z]\w*)+)(?P<text>: .*{MORE}*)", re.MULTILINE
)


def markdown(one: griffe.Object, package: griffe.Module, source: str) -> str:
    """The docstring of something, with links from its roles; ``source`` labels its sources."""
    if one.docstring is None:
        return ""
    text, first = one.docstring.value, one.docstring.lineno or 1

    def show(match: re.Match[str]) -> str:
        line = first + text.count("\n", 0, match.start())
        path = _path(match["text"], one, package, f"{one.filepath}:{line}")
        return f"[`{match['text']}`][{path}]" if path else f"`{match['text']}`"

    shown = ROLE.sub(show, text)
    shown = INLINE.sub(lambda found: f"${latex(' '.join(found['formula'].split()))}$", shown)
    shown = FORMULA.sub(_formula, shown)
    shown = CODE.sub(_code, shown)
    shown = TOGETHER.sub(_split_names, shown)
    shown = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\g<id>)", shown)
    return SOURCE.sub(f"{source} ", shown)


def _formula(match: re.Match[str]) -> str:
    lines = textwrap.dedent(match["lines"]).strip().split("\n")
    return "\n".join([match["said"], "", *display(lines), ""])


def _code(match: re.Match[str]) -> str:
    said = f"{match['indent']}{match['said']}:\n\n" if match["said"] else ""
    lines = textwrap.dedent(match["body"]).strip().split("\n")
    return said + _block(match["indent"], "```python", lines, "```")


def _block(indent: str, start: str, lines: Iterable[str], end: str) -> str:
    return "\n".join(f"{indent}{line}".rstrip() for line in (start, *lines, end))


def _split_names(match: re.Match[str]) -> str:
    names = match["names"].split(", ")
    return "\n".join(f"{match['indent']}{name}{match['text']}" for name in names)


def _path(text: str, user: griffe.Object, package: griffe.Module, place: str) -> str | None:
    """Where the reference has what a role names, which it finds as Python would; None if nowhere.

    Raises:
        BookError: for a name that there is not.
    """
    scope = user if user.is_class or user.is_module else user.parent
    first, _, rest = text.partition(".")
    try:
        path = first if first == package.name else scope.resolve(first)  # type: ignore[union-attr]
        found = package.modules_collection.get_member(f"{path}.{rest}".rstrip("."))
    except (griffe.NameResolutionError, KeyError):
        raise BookError(f"{place}: `{text}`: there is no such name") from None
    return canonical(package).get(found.canonical_path)


def code(one: griffe.Object) -> str:
    """Its code without the docstrings, which the reference shows beside it."""
    said: set[int] = set()
    for node in ast.walk(ast.parse(one.source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            first = node.body[0]
            said |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(one.source.split("\n"), 1)
    return "\n".join(line for number, line in lines if number not in said)
