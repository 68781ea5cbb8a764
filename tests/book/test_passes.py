"""The passes come in the order that they ask for, and one short module alone knows the engine."""

import ast
from pathlib import Path

import pytest

from book import finishing, staging
from book.passes import order

BOOK = Path(__file__).parent.parent.parent / "book"


def test_an_order_that_cannot_be_is_refused():
    assert order({"a": ("c",), "b": (), "c": ("b",)}) == ["b", "c", "a"]
    with pytest.raises(ValueError, match="a: AFTER names 'd', which is no pass of this step"):
        order({"a": ("d",)})
    with pytest.raises(ValueError, match="cycle"):
        order({"a": ("b",), "b": ("a",)})


@pytest.mark.parametrize("step", [staging, finishing])
def test_each_pass_comes_after_those_that_it_names(step):
    done = set()
    every = {one.__name__.rpartition(".")[2] for one in step.PASSES}
    for one in step.PASSES:
        assert every.intersection(getattr(one, "AFTER", ())) <= done, one.__name__
        done.add(one.__name__.rpartition(".")[2])


def imported(path: Path) -> set[str]:
    """What a module takes from elsewhere, by the first name of each."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_one_module_alone_knows_the_engine():
    knowing = {
        path.name
        for path in BOOK.rglob("*.py")
        if any(name.startswith("mkdocs") for name in imported(path))
        and not path.is_relative_to(BOOK / "make")
    }
    assert knowing == {"engine.py"}


def test_what_the_engine_is_told_is_short():
    assert len((BOOK / "engine.py").read_text(encoding="utf-8").splitlines()) <= 120
