"""Brings the catalogues in attnref/locale to what the commands say: ``make sentences``.

A sentence is the first argument of ``Text``, ``choose_help``, ``Refusal`` and its kinds, or the
docstring of a command. In a catalogue a new one waits for its translation, and one that has been
reworded has the old translation, marked as fuzzy; one that is said no more goes.
"""

import ast
import io
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from book.page import ROOT
from hatch_build import compile_catalogues

_SAY = {"Text", "choose_help", "Refusal"}
_WIDTH = 100


def catalogues(root: Path = ROOT) -> list[Path]:
    """One for each language."""
    return sorted(root.glob("attnref/locale/*/LC_MESSAGES/attnref.po"))


def said(root: Path = ROOT) -> Catalog:
    """All sentences of the package, with the files that say them.

    Raises:
        SyntaxError: for a sentence that is put together where it is said, which no catalogue has.
    """
    template = Catalog()
    paths = sorted((root / "attnref").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    kinds = {
        node.name
        for _, node in nodes
        if isinstance(node, ast.ClassDef) and "Refusal" in map(ast.unparse, node.bases)
    }
    for path, tree in trees.items():
        for line, sentence in sorted(_sentences(path, tree, _SAY | kinds)):
            template.add(sentence, locations=[(path.relative_to(root).as_posix(), line)])
    return template


def _sentences(path: Path, tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(name), [ast.JoinedStr() | ast.BinOp(), *_]) if name in names:
                where = (str(path), node.lineno, node.col_offset + 1, ast.unparse(node))
                raise SyntaxError("write the sentence with {places}, and what fills them", where)
            case ast.Call(ast.Name(name), [ast.Constant(str(sentence)), *_]) if name in names:
                if sentence:
                    yield node.lineno, sentence
            case ast.FunctionDef() if "translate_help" in map(ast.unparse, node.decorator_list):
                yield node.lineno, ast.get_docstring(node) or ""


def read(path: Path) -> Catalog:
    """A catalogue, as it is."""
    with path.open("rb") as file:
        return read_po(file)


def update(path: Path, template: Catalog) -> bytes:
    """The text of a catalogue, its own heading and the sentences of ``template``."""
    catalogue, text = read(path), io.BytesIO()
    catalogue.update(template)
    style = {"omit_header": True, "include_lineno": False, "ignore_obsolete": True}
    write_po(text, catalogue, _WIDTH, **style)
    heading, *_ = path.read_bytes().partition(b"\n\n")
    return heading.rstrip() + b"\n\n" + text.getvalue()


if __name__ == "__main__":
    template = said()
    for path in catalogues():
        path.write_bytes(update(path, template))
    compile_catalogues(ROOT)
