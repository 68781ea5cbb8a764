"""The text of a copy, from the pieces of the modules that it needs."""

import ast
import importlib.util
import re
import subprocess
import sys

from attnref.book import install
from attnref.copying.needs import Imports, find_imports, find_names, find_needed
from attnref.copying.source import CopyError, Definition, Examples, Source, Span

_LINE_LENGTH = 100


def assemble(entry: Definition, header: str = "") -> str:
    """The text of a file that holds a definition and what it needs.

    All have their comments and docstrings; examples that show more than the copy holds are left
    out of these.

    Args:
        entry: the function or class to copy.
        header: comments to begin with.

    Raises:
        CopyError: for what cannot stand alone, and without ruff, which formats the copy.
    """
    needed = find_needed(entry)
    shown = [
        examples
        for definition in needed
        for examples in definition.examples
        if all(used.target is None or used.target in needed for used in examples.references)
    ]
    code = [used for definition in needed for used in definition.references]
    everything = [*code, *(used for examples in shown for used in examples.references)]
    imports = find_imports(code)
    names = find_names(entry, everything, taken=find_imports(everything))

    sources = list(dict.fromkeys(definition.source for definition in needed))
    edits: dict[Source, dict[Span, str]] = {source: {} for source in sources}
    for used in everything:
        if used.target is not None:
            edits[used.user.source][used.span] = names[used.target, used.name]
    for definition in needed:
        source = definition.source
        for examples in definition.examples:
            if examples in shown:
                edits[source] |= _import_edits(examples, source, imports)
            else:
                edits[source][source.span(examples.docstring)] = _drop_examples(examples, source)

    parts = [header, *sorted(line for lines in imports.values() for line in lines)]
    for source in sources:
        if len(sources) > 1:
            parts.append(f"# From {source.dotted}.\n")
        statements = [
            statement
            for definition in needed
            if definition.source is source
            for statement in definition.statements
        ]
        parts.append(_text(source, statements, edits[source]))
    return _format("\n".join(parts))


def _import_edits(examples: Examples, source: Source, imports: Imports) -> dict[Span, str]:
    """Examples that run in the copy: imports that its code does not need are made there."""
    first = source.line_span(examples.lines[0], examples.lines[0])
    line = source.lines[examples.lines[0] - 1].decode()
    indent = line[: len(line) - len(line.lstrip())]
    statements = {
        statement
        for used in examples.references
        if used.target is None and used.name not in imports
        for statement in source.outside.get(used.name, ())
    }
    text = "".join(f"{indent}>>> {statement}\n" for statement in sorted(statements))
    edits = {Span(first.start, first.start): text} if text else {}
    return edits | {source.line_span(number, number): "" for number in examples.imports}


def _drop_examples(examples: Examples, source: Source) -> str:
    """The docstring that they are in, without them and their heading."""
    start, stop = source.span(examples.docstring)
    lines = source.text[start:stop].decode().splitlines()
    first = examples.docstring.lineno
    kept = [line for number, line in enumerate(lines, first) if number not in examples.lines]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).removesuffix('"""')
    text = re.sub(r"\n *Examples:\s*\Z", "", text).rstrip()
    indent = " " * examples.docstring.col_offset
    return f'{text}\n{indent}"""' if "\n" in text else f'{text}"""'


def _text(source: Source, statements: list[ast.stmt], edits: dict[Span, str]) -> str:
    """These statements with the comments above them and the edits made."""
    parts: list[str] = []
    last = 0
    for statement in statements:
        decorators = getattr(statement, "decorator_list", [])
        first = min(node.lineno for node in (statement, *decorators))
        while first > 1 and source.lines[first - 2].startswith(b"#"):
            first -= 1
        if parts:
            parts.append("" if first == last + 1 else "\n")
        last = statement.end_lineno or first
        parts.append(_apply_edits(source, source.line_span(first, last), edits))
    # What marks the sections that pages show means nothing in a copy.
    return re.sub(r"^ *# --8<-- .*\n", "", "".join(parts), flags=re.MULTILINE)


def _apply_edits(source: Source, span: Span, edits: dict[Span, str]) -> str:
    parts: list[bytes] = []
    place = span.start
    for edit in sorted(edits):
        if span.start <= edit.start and edit.stop <= span.stop:
            parts += [source.text[place : edit.start], edits[edit].encode()]
            place = edit.stop
    return b"".join([*parts, source.text[place : span.stop]]).decode()


def _format(text: str) -> str:
    """In ruff's format, imports sorted."""
    if importlib.util.find_spec("ruff") is None:
        raise CopyError(
            en="ruff: expected it to be installed, for it formats what is copied, got no such "
            f"package. {install('cli', 'en')}",
            pt="ruff: o esperado era que estivesse instalado, pois formata o que se copia, e não "
            f"está. {install('cli', 'pt')}",
        )
    sort = ("check", "--select=I", "--fix", '--config=lint.isort.known-third-party=["torch"]')
    for command in (sort, ("format",)):
        options = ("--isolated", "--quiet", f"--line-length={_LINE_LENGTH}", "-")
        text = subprocess.run(
            # -P, or a ruff.py of the current folder would run in its place.
            [sys.executable, "-P", "-m", "ruff", *command, *options],
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout
        if not text:
            raise CopyError(
                en="ruff: expected the formatted copy, got nothing. Install ruff again.",
                pt="ruff: o esperado era a cópia formatada, e não veio nada. Reinstale o ruff.",
            )
    return text
