"""Puts code into the page where it includes some, and stops the build where an include is broken.

Code reaches a page only as ``--8<-- "path:section"``, alone on its line in a fenced block: of a
snippet a section between two markers, of the package a definition by its name. Beside it stands
at most which of its lines are marked (book/stage/marks.py). A section that never ends, one defined
twice, an empty one, or a marker with a slip in it would put wrong code on the page.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from book.edition import Edition
from book.page import ROOT, Block, Page, Problem, blocks
from book.stage import bodies

INCLUDE = re.compile(r'^\s*--8<-- "(?P<path>[^":]+)(?::(?P<section>[^":]+))?"$')
# In backticks, so that no line of Python is taken for one.
MARK = re.compile(r"^\s*mark `(?P<code>[^`]+)`$")
MARKER = re.compile(r"^\s*# --8<-- \[(?P<edge>start|end):(?P<section>[\w-]+)\]$")
MARKER_LIKE = re.compile(r"-\s*8\s*[<>]|8\s*[<>]\s*-")

# A language whose blocks must be includes, and where from; the rest may be typed on the page.
SOURCES = {
    "python": ("attnref/", "snippets/"),
    "text": ("snippets/",),
    "toml": ("snippets/",),
    "yaml": ("snippets/",),
}
AFTER = ("behaviour_tables", "figures", "results")  # a page is parsed without its programs
TYPED = {"bash", "behaviours", "bibtex", "markdown", "results"}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    lines = markdown.split("\n")
    for block in reversed(blocks(markdown)):
        fence = lines[block.line - 1]
        indent = fence[: len(fence) - len(fence.lstrip())]
        for number, line in reversed(list(enumerate(block.body, block.line + 1))):
            if include := INCLUDE.match(line):
                shown = _shown(ROOT, include["path"], include["section"])
                lines[number - 1 : number] = [f"{indent}{each}".rstrip() for each in shown]
    return "\n".join(lines)


def _shown(root: Path, path: str, section: str | None) -> list[str]:
    """What an include puts in its place: a section without its margin, or the whole file."""
    if section is not None:
        return textwrap.dedent("\n".join(_section_lines(root, path, section))).split("\n")
    return (root / path).read_text(encoding="utf-8").rstrip("\n").split("\n")


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Every broken include and every typed-in code block of a page."""
    found = []
    inside = set()
    for block in blocks(text):
        inside |= set(range(block.line, block.end + 1))
        found += [Problem(page, line, message) for line, message in _block_problems(block, root)]
    for number, line in enumerate(text.split("\n"), 1):
        if number not in inside and MARKER_LIKE.search(line):
            found.append(
                Problem(page, number, "an include marker outside a code block: " + line.strip())
            )
    return found


def program(block: Block, root: Path) -> list[str] | None:
    """The lines of a block of Python as it is shown; None where ``problems`` reports an include."""
    code: list[str] = []
    for line in block.body:
        include = INCLUDE.match(line)
        if include is None:
            code += [] if MARK.match(line) else [line]
        elif _include_problem(block.language, include["path"], include["section"], root):
            return None
        else:
            code += _section_lines(root, include["path"], include["section"])
    return code


def _section_lines(root: Path, path: str, section: str) -> list[str]:
    if path.startswith("attnref/"):
        return bodies.source(root / path, section).split("\n")
    lines = (root / path).read_text(encoding="utf-8").split("\n")
    markers = [(number, MARKER.match(line)) for number, line in enumerate(lines)]
    start, end = (number for number, marker in markers if marker and marker["section"] == section)
    return [line for line in lines[start + 1 : end] if not MARKER.match(line)]


def _block_problems(block: Block, root: Path) -> Iterator[tuple[int, str]]:
    if block.language == "unclosed":
        yield block.line, "this code block is never closed"
        return
    if block.language == "indented":
        yield block.line, "four blanks make code of this line; put code between fences, ```"
        return
    if block.language not in SOURCES:
        if block.language not in TYPED:
            yield (
                block.line,
                f"language {block.language!r}: expected {', '.join([*SOURCES, *sorted(TYPED)])}",
            )
        for number, line in enumerate(block.body, block.line + 1):
            if MARKER_LIKE.search(line):
                yield number, f"an include in a block that is not {' or '.join(SOURCES)}"
        return
    if not any(line.strip() and not MARK.match(line) for line in block.body):
        yield block.line, "an empty code block"
    for number, line in enumerate(block.body, block.line + 1):
        if not line.strip() or (block.language == "python" and MARK.match(line)):
            continue
        include = INCLUDE.match(line)
        if include is None:
            what = "a mistyped include" if MARKER_LIKE.search(line) else "code typed into the page"
            yield (
                number,
                f'{what}: {line.strip()!r}. Write --8<-- "snippets/room/page/name.py:section", '
                "alone on its line, so that what is read is what is tested",
            )
            continue
        message = _include_problem(block.language, include["path"], include["section"], root)
        if message:
            yield number, message


def _include_problem(language: str, path: str, section: str | None, root: Path) -> str | None:
    if not path.startswith(SOURCES[language]) or ".." in path:
        return f"{path}: a {language} block includes from {' or '.join(SOURCES[language])}"
    file = root / path
    if not file.is_file():
        advice = "; run make record" if file.suffix == ".out" else ""
        return f"{path}: no such file{advice}"
    text = file.read_text(encoding="utf-8")
    if not text.strip():
        return f"{path}: the file is empty; run make record"
    if language == "text":
        if section or file.suffix != ".out":
            return f"{path}: a text block shows the whole recorded output of a snippet, name.out"
        return None
    if section is None or section.isdigit():
        return f"{path}: name a section, as in {path}:section"
    if path.startswith("attnref/"):
        try:
            bodies.find(text, section)
        except bodies.DefinitionError as error:
            return f"{path}: {error}"
        return None
    return _section_problem(path, text.split("\n"), section)


def _section_problem(path: str, lines: list[str], section: str) -> str | None:
    edges: dict[str, list[int]] = {"start": [], "end": []}
    for number, line in enumerate(lines):
        marker = MARKER.match(line)
        if marker is None and MARKER_LIKE.search(line):
            return f"{path}:{number + 1}: a mistyped section marker: {line.strip()}"
        if marker and marker["section"] == section:
            edges[marker["edge"]].append(number)
    starts, ends = edges["start"], edges["end"]
    if not starts:
        return f"{path}: no section {section!r}"
    if len(starts) > 1 or len(ends) > 1:
        return f"{path}: section {section!r} is defined more than once"
    if not ends or ends[0] < starts[0]:
        return f"{path}: section {section!r} never ends; add # --8<-- [end:{section}]"
    body = [line for line in lines[starts[0] + 1 : ends[0]] if not MARKER.match(line)]
    if not any(line.strip() for line in body):
        return f"{path}: section {section!r} is empty"
    return None
