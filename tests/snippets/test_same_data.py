"""Each snippet stands alone, so what pages compare is typed in several: it is the same in all."""

import ast
from pathlib import Path

import pytest

from attnref.exercises.samples import SIX_WORDS

TREES = {
    str(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[2] / "snippets").rglob("*.py"))
}


def defined(name):
    """The text of each snippet's function of this name."""
    return {
        file: ast.unparse(node)
        for file, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == name
    }


@pytest.mark.parametrize("name", ["waves", "noise", "error"])
def test_errors_of_the_variants_are_of_the_same_tokens(name):
    of_variants = {file: text for file, text in defined(name).items() if file in defined("waves")}
    assert len(of_variants) >= 9
    assert len(set(of_variants.values())) == 1, of_variants


def numbers(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def test_the_six_words_are_the_same_everywhere():
    expected = [[round(number, 2) for number in word] for word in SIX_WORDS.tolist()]
    typed = {}
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            found = numbers(node) if isinstance(node, ast.List | ast.Tuple) else None
            if found and list(found[0:1]) == expected[0:1]:
                typed[file] = [list(word) for word in found]
    assert len(typed) >= 5
    assert all(words == expected for words in typed.values()), typed
