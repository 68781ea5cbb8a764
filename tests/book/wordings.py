"""The contract of wordings: what docs/wordings.yml forbids, in all that is written to be read.

It looks at prose only. On pages and in messages, code, formulas, addresses and ids are passed
over; of Python files, strings and comments are read, each in its language.
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from babel.messages.pofile import read_po

from book.page import CODE, LANGUAGES, Problem, blocks, read_yaml

LIST = "docs/wordings.yml"
NOT_PROSE = re.compile(
    rf"{CODE}|\$\$.+?\$\$|(?<!\$)\$(?!\s)[^$]+?\$"
    r"|\]\([^)\n]*\)|\{ ?[#:.][^}\n]*\}|<[^>\n]*>",
    re.DOTALL,
)
PYTHON = ("attnref", "snippets", "docs/figures")


@dataclass(frozen=True)
class Piece:
    """Prose as it is written in a file, with its language and its first line."""

    path: Path
    line: int
    language: str
    text: str


def problems(root: Path) -> list[Problem]:
    """Each forbidden wording with its place and the better one, and exceptions without use."""
    rules = read_yaml((root / LIST).read_text(encoding="utf-8"))
    everything = list(pieces(root))
    found = []
    for languages, of_them in ((LANGUAGES, "both"), *(((one,), one) for one in LANGUAGES)):
        here = [piece for piece in everything if piece.language in languages]
        for rule in rules[of_them]:
            found += find_broken(rule, here, root)
    return found


def find_broken(rule: dict, here: list[Piece], root: Path) -> Iterator[Problem]:
    """Where one rule is broken, and its exceptions that nothing needs."""
    pattern = compile_pattern(rule["not"])
    unneeded = {words: compile_pattern(words) for words in rule.get("except", ())}
    allowed = dict(unneeded)
    for piece in here:
        for match in pattern.finditer(piece.text):
            over = [
                words
                for words, one in allowed.items()
                for other in one.finditer(piece.text)
                if other.start() <= match.start() and match.end() <= other.end()
            ]
            for words in over:
                unneeded.pop(words, None)
            if not over:
                line = piece.line + piece.text.count("\n", 0, match.start())
                words = " ".join(match[0].replace("\x00", " ").split())
                yield Problem(piece.path, line, f"{words!r}: write {rule['but']}")
    for words in unneeded:
        message = f"the exception {words!r} of {rule['not']!r} is needed nowhere; remove it"
        yield Problem(root / LIST, 1, message)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """With a blank that also stands for the end of a line."""
    spaced = pattern.replace(" ", r"\s+")
    return re.compile(spaced, re.IGNORECASE | re.MULTILINE)


def pieces(root: Path) -> Iterator[Piece]:
    """All prose of the project that its readers see, and that of those who build it."""
    for path in (root / "README.md", root / "CONTRIBUTING.md"):
        if path.is_file():
            yield from page_pieces(path, "en")
    yield from page_pieces(root / "CONTRIBUTING.pt.md", "pt")
    for language in LANGUAGES:
        for path in sorted((root / "docs" / language).rglob("*.md")):
            yield from page_pieces(path, language)
        for path in sorted((root / "docs" / language).rglob("*.ipynb")):
            yield from notebook_pieces(path, language)
        for path in sorted((root / "attnref").rglob(f"{language}.toml")):
            yield Piece(path, 1, language, blank_code(path.read_text(encoding="utf-8")))
        for path in (root / "attnref" / "locale" / language).rglob("*.po"):
            for message in read_po(path.read_text(encoding="utf-8").splitlines(keepends=True)):
                yield Piece(path, message.lineno or 1, language, blank_code(str(message.string)))
    yield from yaml_pieces(root / "docs" / "glossary.yml", None)
    yield from yaml_pieces(root / "docs" / "api.pt.yml", "pt")
    for folder in PYTHON:
        for path in sorted((root / folder).rglob("*.py")):
            yield from python_pieces(path)
    for path in sorted((root / "snippets").rglob("*.out")):
        yield Piece(path, 1, "en", path.read_text(encoding="utf-8"))


def page_pieces(path: Path, language: str) -> Iterator[Piece]:
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    for block in blocks(text):
        lines[block.line - 1 : block.end] = [""] * (block.end - block.line + 1)
    yield Piece(path, 1, language, blank_code("\n".join(lines)))


def notebook_pieces(path: Path, language: str) -> Iterator[Piece]:
    """What its cells say and what its figures show; code is in English in both languages."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip().rstrip(",") for line in text.split("\n")]
    last = 0
    for cell in json.loads(text)["cells"]:
        spoken = language if cell["cell_type"] == "markdown" else "en"
        for line in "".join(cell["source"]).splitlines(keepends=True):
            quoted = json.dumps(line, ensure_ascii=False)
            last = next((n for n in range(last, len(lines)) if lines[n] == quoted), last)
            said = blank_code(line) if spoken == language else line.partition("# ")[2]
            if cell["cell_type"] == "markdown" or "# " in line:
                yield Piece(path, last + 1, spoken, said)
    for number, line in enumerate(lines, 1):
        if line.startswith(('"alt": ', '"description": ')):
            yield Piece(path, number, language, line)


def yaml_pieces(path: Path, language: str | None) -> Iterator[Piece]:
    """The scalars of a file, each in the language of the key above it, ``pt`` or ``en``."""

    def walk(node: yaml.Node, language: str | None) -> Iterator[Piece]:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                yield from walk(value, key.value if key.value in LANGUAGES else language)
        elif isinstance(node, yaml.SequenceNode):
            for each in node.value:
                yield from walk(each, language)
        elif language:
            yield Piece(path, node.start_mark.line + 1, language, blank_code(node.value))

    if path.is_file():
        yield from walk(yaml.compose(path.read_text(encoding="utf-8"), yaml.CSafeLoader), language)


def python_pieces(path: Path) -> Iterator[Piece]:
    """Strings, in the language of the key beside them, and comments, which are in English."""
    text = path.read_text(encoding="utf-8")

    def walk(node: ast.AST, language: str) -> Iterator[Piece]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Piece(path, node.lineno, language, blank_code(node.value))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) else None
                yield from walk(value, name if name in LANGUAGES else language)
        else:
            for child in ast.iter_child_nodes(node):
                yield from walk(child, language)

    yield from walk(ast.parse(text), "en")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Piece(path, token.start[0], "en", blank_code(token.string))


def blank_code(text: str) -> str:
    """The text with a blank in place of each sign of code, formulas, addresses and ids."""
    return NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", "\x00", match[0]), text)
