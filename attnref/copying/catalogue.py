"""The methods on one screen: where each is, what it leaves out, and what it is part of."""

import ast
import difflib
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import attnref
from attnref.book import page_address
from attnref.text import Refusal, Text

FOLDER = Path(__file__).parent.parent / "minimal"
_ORIGIN = re.compile(r"Explained in (?P<page>[\w/-]+)(; with every option: (?P<whole>[\w.]+))?\.")
_LEFT_OUT = re.compile(r"Left out: (?P<said>.*?)\.?(?= Source: )")
NO_SUCH = Text("NAME: {what} {name!r}. {where}")
NEAR = Text("NAME: {what} {name!r}. Did you mean {near}? {where}")
_SUGGESTIONS = 5
_NO_CODE = frozenset(
    (
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    )
)


class Entry(NamedTuple):
    """A file of ``attnref/minimal``.

    Attributes:
        name: of the file, and what ``attnref copy`` calls it.
        text: of the file.
        summary: its first line.
        page: the one that explains it, of those of :mod:`attnref.book`.
        whole: the path of what has every option; "" where nothing has more.
        left_out: what the method has and the file does not, in the words of its docstring.
        lines: how many have code.
    """

    name: str
    text: str
    summary: str
    page: str
    whole: str
    left_out: str
    lines: int


@cache
def entries() -> tuple[Entry, ...]:
    """All that can be copied, by name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("[!_]*.py")))


def find(name: str) -> Entry:
    """The entry of a name.

    Raises:
        Refusal: for a name that none has, with those that are near.
    """
    known = entries()
    for entry in known:
        if name.removeprefix("attnref.minimal.") == entry.name:
            return entry
    raise no_such(
        name,
        [entry.name for entry in known],
        what=Text("there is no method on one screen called"),
        where=Text("attnref copy --list names them all; what has every option comes with --whole."),
    )


def no_such(name: str, known: list[str], *, what: Text, where: Text) -> Refusal:
    """That a name is none of those that are known, with those that look like it or hold it.

    >>> what, where = Text("no method is called"), Text("Look.")
    >>> print(no_such("casual", ["causal", "moba"], what=what, where=where))
    NAME: no method is called 'casual'. Did you mean causal? Look.
    """
    asked = name.removeprefix("attnref.")
    alike = difflib.get_close_matches(asked, known, n=_SUGGESTIONS)
    holding = (one for one in known if asked in one)
    near = list(dict.fromkeys([*alike, *holding]))[:_SUGGESTIONS]
    return Refusal(
        NEAR if near else NO_SUCH, what=what, name=name, near=", ".join(near), where=where
    )


def header(entry: Entry) -> str:
    """The lines above a copy: where it is from, and under which licence."""
    return (
        f"# From attnref {attnref.__version__}, attnref/minimal/{entry.name}.py; see "
        f"{page_address(entry.page, 'en')}\n"
        "# SPDX-License-Identifier: MIT-0 (no notice has to be kept)\n"
    )


def code_lines(text: str) -> int:
    """How many lines have code: no docstring, no comment alone, nothing blank.

    >>> code_lines('"It adds."\\n# so\\n\\nx = (1 +\\n     1)\\n')
    2
    """
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.Module) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def _read(path: Path) -> Entry:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented: list[ast.Module | ast.FunctionDef] = [tree]
    documented += [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    module, *told = (" ".join((ast.get_docstring(node) or "").split()) for node in documented)
    origin = _ORIGIN.search(module)
    assert origin, f"{path}: expected the page that explains it"
    left_out = next(match["said"] for one in told if (match := _LEFT_OUT.search(one)))
    summary = module.partition(" Explained in ")[0]
    return Entry(
        path.stem, text, summary, origin["page"], origin["whole"] or "", left_out, code_lines(text)
    )
