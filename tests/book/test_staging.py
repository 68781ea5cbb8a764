"""Staging writes what has changed, removes what is gone, and while somebody writes does no more."""

import json
import subprocess
import sys
from typing import NamedTuple

import nbformat
import pytest

from book.stage import notebooks
from tests.book import small_project
from tests.book.small_project import FILES

NOTEBOOK = "docs/en/notebooks/one.ipynb"
INSTALL = f'{notebooks.PACKAGE}\nprint("installed")'
# What is changed before each time, by file: its text, or None where it is removed.
CHANGES = {
    "first": {},
    "nothing": {},
    "nothing, built anew": {},
    "page": {"docs/en/other.md": FILES["docs/en/other.md"].replace("Another {", "Other {")},
    "program": {"snippets/sum.py": FILES["snippets/sum.py"].replace("1 + 2", "2 + 3")},
    "test": {"tests/test_it.py": FILES["tests/test_it.py"].replace("test_it", "test_that")},
    "removed": {NOTEBOOK: None},
}
ANEW = ("first", "nothing, built anew")
# Stages the small site after each change, in one process. Gives what each time has written and
# removed, and whether what is known of the pages was kept.
STAGE = """
import json, sys
from pathlib import Path

from book import live
from book.edition import Edition
from book.page import ROOT

sys.modules["torch"] = None  # staging does without
answers, there, last = {}, {}, None
changes, anew = json.load(sys.stdin)
for name, change in changes.items():
    for file, text in change.items():
        Path(file).unlink() if text is None else Path(file).write_text(text, encoding="utf-8")
    edition = live.stage(Edition("en", ROOT, reading={"paths": ["package"]}), name not in anew)
    now = {
        path.relative_to(edition.staged).as_posix(): path.stat().st_ctime_ns
        for path in edition.staged.rglob("*")
        if path.is_file()
    }
    written = [place for place in now if now[place] != there.get(place)]
    answers[name] = sorted(written), sorted(there.keys() - now.keys()), edition is last
    there, last = now, edition
    if name == "first":
        answers["texts"] = {
            place: Path(edition.staged, place).read_text("utf-8")
            for place in now
            if place.endswith((".md", ".ipynb"))
        }
print(json.dumps(answers))
"""


class Staged(NamedTuple):
    """What one time has written and removed, and whether the pages were known from before."""

    written: list[str]
    removed: list[str]
    kept: bool


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    small_project.make(root)
    cells = [
        nbformat.v4.new_markdown_cell("# One\n\nSee [another](../other.md).", id="top"),
        nbformat.v4.new_code_cell(INSTALL, id="install", execution_count=None),
        nbformat.v4.new_markdown_cell("## The end", id="the-end"),
    ]
    matter = {"description": "A notebook that installs what it needs, and ends.", "files": []}
    (root / NOTEBOOK).parent.mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=matter)
    (root / NOTEBOOK).write_text(nbformat.writes(notebook), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", STAGE],
        cwd=root,
        input=json.dumps([CHANGES, ANEW]),
        capture_output=True,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def staged(ran):
    return {name: Staged(*ran[name]) for name in CHANGES}


def test_all_that_is_published_is_staged(staged):
    pages = {file.removeprefix("docs/en/") for file in FILES if file.startswith("docs/en/")}
    beside = {"figures/rise.svg", "source/snippets/sum.py", "style/site.css"}
    assert pages | beside <= {*staged["first"].written}


def test_what_has_not_changed_is_not_written(staged):
    assert staged["nothing"] == Staged([], [], kept=True)
    assert staged["nothing, built anew"] == Staged([], [], kept=False)


def test_an_edit_stages_the_pages_that_show_it_and_no_other(staged):
    assert staged["page"] == Staged(["other.md"], [], kept=True)
    assert staged["program"] == Staged(["page.md", "source/snippets/sum.py"], [], kept=True)


def test_any_other_edit_stages_all_that_it_changes(staged):
    """So does one of the package, which is then read again."""
    written, removed, kept = staged["test"]
    assert "reference/claims/page.md" in written
    assert (removed, kept) == ([], False)


def test_what_no_page_has_any_more_is_removed(staged):
    assert staged["removed"].removed == ["notebooks/.one.md", "notebooks/one.ipynb"]


def test_a_notebook_is_staged_as_it_is_downloaded_with_its_page_beside_it(ran):
    published = notebooks.read(ran["texts"]["notebooks/one.ipynb"])
    assert "files" not in published.metadata
    assert published.cells[0].source == "# One\n\n*This notebook is a page of .*\n\nSee another."
    assert published.cells[1].source.startswith(notebooks.PACKAGE[:-1])
    assert published.cells[1].source != INSTALL
    assert "See [another](../other.md)." in ran["texts"]["notebooks/.one.md"]
    assert "## The end {#the-end}" in ran["texts"]["notebooks/.one.md"]
