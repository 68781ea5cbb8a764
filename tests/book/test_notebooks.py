"""Notebooks: sound as they are kept, the same in both languages, running as recorded, and alone."""

import ast
import base64
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from book.edition import Edition
from book.make import compare
from book.make import notebook as execution
from book.page import LANGUAGES, BookError, Page, headings, links
from book.stage import notebooks, numbers, parity

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {language: ROOT / "docs" / language / "notebooks" for language in LANGUAGES}
NAMES = sorted(path.stem for path in FOLDERS["en"].glob("*.ipynb"))
PATHS = [folder / f"{name}.ipynb" for folder in FOLDERS.values() for name in NAMES]


def read(name: str, language: str) -> nbformat.NotebookNode:
    return notebooks.read((FOLDERS[language] / f"{name}.ipynb").read_text(encoding="utf-8"))


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def skeleton(notebook: nbformat.NotebookNode) -> dict[str, list]:
    """What must be the same in both languages, in order."""
    code, prose = [], []
    for cell in notebook.cells:
        (code if cell.cell_type == "code" else prose).append(cell.source)
    text = "\n".join(prose)
    return {
        "cells": [(cell.id, cell.cell_type, "alt" in cell.metadata) for cell in notebook.cells],
        "code": code,
        "headings": [heading.level for heading in headings(text)],
        "equations": [
            " ".join((one or other).split()) for one, other in parity.EQUATION.findall(text)
        ],
        "links": [link.target for link in links(text)],
    }


def test_each_notebook_is_in_both_languages_and_in_the_navigation():
    assert sorted(path.stem for path in FOLDERS["pt"].glob("*.ipynb")) == NAMES
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [name for name in NAMES if f"notebooks/{name}.ipynb" not in listed]


def test_notebooks_are_kept_as_they_should_be():
    problems = [
        problem
        for path in PATHS
        for problem in notebooks.problems(path, path.read_text(encoding="utf-8"), ROOT)
    ]
    assert not problems, "\n".join(map(str, problems))


def test_both_languages_have_the_same_code_and_the_same_skeleton():
    for name in NAMES:
        pt, en = (skeleton(read(name, language)) for language in LANGUAGES)
        assert [part for part in pt if pt[part] != en[part]] == [], name
        assert read(name, "en").cells[-1].id == "summary"


def test_all_notebooks_install_in_the_same_way():
    cells = [code_cells(read(path.stem, path.parent.parent.name))[0] for path in PATHS]
    assert {cell.id for cell in cells} == {"install"}
    (source,) = {cell.source for cell in cells}
    known = re.search(r"^repo_url: (\S*)", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert f'REPOSITORY = "{known[1] if known else ""}"' in source, "as repo_url in mkdocs.yml"


# Trained on another processor, its losses end otherwise: that takes a minute, too.
LONG = "training"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.audit] * (name == LONG)) for name in NAMES]
)
def test_a_notebook_puts_out_what_is_recorded(name):
    """Its code is the same in both languages, so it runs once."""
    ran = execution.run(FOLDERS["en"] / f"{name}.ipynb")
    for language in LANGUAGES:
        notebook = read(name, language)
        assert notebook.metadata.files == ran.files, "run make record"
        for cell in code_cells(notebook):
            recorded = notebooks.put_out(cell.outputs)
            now = notebooks.put_out(ran.outputs[cell.id])
            assert [kind for kind, _ in recorded] == [kind for kind, _ in now], cell.id
            for (kind, was), (_, text) in zip(recorded, now, strict=True):
                if "measured" in cell.metadata.get("tags", ()):  # times are of their machine
                    assert kind == "svg" or wordy(was) == wordy(text), cell.id
                else:
                    different = list(compare.differences(was, text, drawn=kind == "svg"))
                    assert not different, f"{name}, {cell.id}, run make record: {different[0]}"


def wordy(text: str) -> list[str]:
    """What is printed, without its numbers."""
    return numbers.NUMBER.sub("#", text).split()


def test_what_is_drawn_has_its_alternative_text():
    for path in PATHS:
        edition = Edition(path.parents[1].name, ROOT)
        page = Page(f"notebooks/{path.name}", path, path.read_text(encoding="utf-8"))
        text = notebooks.stage("", page, edition)
        drawn = [cell for cell in notebooks.read(page.source).cells if "alt" in cell.metadata]
        for cell in drawn:
            place = f"figures/{path.stem}-{cell.id}.svg"
            assert f"![{cell.metadata.alt}](../{place})" in text
            assert "<svg" in edition.files.pop(place)
        assert [*edition.files] == [page.uri]


# As they are downloaded.


# Runs each program where attnref is not installed, with the libraries loaded before: a process that
# has loaded them is forked for each.
STRANGER = """
import json, os, sys, traceback
from pathlib import Path

sys.path = [p for p in sys.path if not Path(p or '.', 'attnref').exists()]
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot, numpy, torch

answers = {}
for name, program in json.load(sys.stdin).items():
    said = os.open('said', os.O_CREAT | os.O_TRUNC | os.O_RDWR)
    if not (child := os.fork()):
        os.dup2(said, 1), os.dup2(said, 2)
        try:
            exec(compile(program, name, 'exec'), {'__name__': '__main__'})
            import attnref
            print(attnref.__file__, flush=True)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    answers[name] = status, Path('said').read_text(encoding='utf-8')
print(json.dumps(answers))
"""


PIP = re.compile(r"%pip .*")


def downloaded(name: str, language: str, **known: str) -> nbformat.NotebookNode:
    """The file of a page in an edition of which this is known."""
    edition = Edition(language, ROOT, site_name="attnref", **known)
    page = edition.pages[f"notebooks/{name}.ipynb"]
    text = notebooks.bundle(page, edition)
    assert len(text) < 500_000
    return notebooks.read(text)


def program(name: str, *, whole: bool) -> str:
    """The code of the downloaded file: all of it, or what it imports."""
    setup, *rest = (cell.source for cell in code_cells(downloaded(name, "en")))
    setup = PIP.sub("raise SystemExit(missing)", setup)
    text = "\n\n".join([setup, *rest])
    if whole:
        return text
    imports = (ast.Import, ast.ImportFrom)
    needed = [node for node in ast.parse(text).body if isinstance(node, imports)]
    return "\n".join([setup, *map(ast.unparse, needed)])


def alone(folder: Path, programs: dict[str, str]) -> dict[str, list]:
    """By the names of the programs: exit status, and what was printed."""
    ran = subprocess.run(
        [sys.executable, "-c", STRANGER],
        cwd=folder,
        env={"PATH": "", "MPLCONFIGDIR": str(folder), "PYTHONUTF8": "1"},
        input=json.dumps(programs),
        capture_output=True,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def assert_it_ran(status: int, said: str) -> None:
    assert status == 0, said
    assert Path(said.split()[-1]).parent.parent.name == "attnref.zip"


def test_a_downloaded_notebook_runs_alone(tmp_path):
    assert_it_ran(*alone(tmp_path, {"whole": program("variance", whole=True)})["whole"])


@pytest.mark.audit
def test_each_downloaded_notebook_holds_what_it_imports(tmp_path):
    answers = alone(tmp_path, {name: program(name, whole=False) for name in NAMES})
    for answer in answers.values():
        assert_it_ran(*answer)


@pytest.mark.parametrize("name", NAMES)
def test_a_downloaded_notebook_is_the_one_that_is_kept_with_attnref_in_it(name):
    for language in LANGUAGES:
        kept, published = read(name, language), downloaded(name, language)
        nbformat.validate(published)
        # All but the sections of explorers, which only the page has.
        cells = [cell for cell in kept.cells if "<!-- explorer:" not in cell.source]
        assert [cell.id for cell in published.cells] == [cell.id for cell in cells]
        for ours, theirs in zip(cells, published.cells, strict=True):
            if ours.id == "install":
                before, after = ours.source.split('""', 1)
                assert theirs.source.startswith(before)
                assert theirs.source.endswith(after)
                packed = theirs.source.removeprefix(before).removesuffix(after).strip('"')
                with zipfile.ZipFile(io.BytesIO(base64.b85decode(packed))) as package:
                    assert package.namelist() == kept.metadata.files, name
            elif ours.cell_type == "code":
                assert (theirs.source, theirs.outputs) == (ours.source, ours.outputs)
            else:
                assert not links(theirs.source)
        assert any(cell.outputs for cell in code_cells(published))


def test_a_downloaded_notebook_leads_back_to_the_book():
    first = downloaded("training", "en").cells[0].source
    assert first.startswith(
        "# Training with five scale factors\n\n*This notebook is a page of attn"
    )
    assert "[" not in first
    published = downloaded("training", "en", site_url="https://book.example/en/")
    first, *_, last = (cell.source for cell in published.cells)
    assert "*This notebook is a page of [attnref](https://book.example/en/).*" in first
    place = "https://book.example/en/scale/initialisation-and-training/"
    for text in (first, last):
        assert f"[Initialisation and training]({place})" in text


def test_colab_opens_what_is_on_github_and_nothing_else():
    path = "blob/main/docs/en/notebooks/variance.ipynb"
    for address, expected in (
        ("https://github.com/owner/name/", [f"{notebooks.COLAB}owner/name/{path}"]),
        ("https://gitlab.com/owner/name", []),
        ("", []),
    ):
        edition = Edition("en", ROOT, repo_url=address)
        text = notebooks.stage("", edition.pages["notebooks/variance.ipynb"], edition)
        assert re.findall(r'href="(https://colab[^"]+)"', text) == expected


def test_without_attnref_and_without_the_package_the_first_cell_says_what_to_do(tmp_path):
    source = PIP.sub("pass", code_cells(read("variance", "en"))[0].source)
    program = source.replace('find_spec("attnref") is None', "True")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 1
    assert "attnref is missing: run pip install . in a clone of it, or download" in result.stderr


# Each of these would reach the reader.


def edited(change) -> str:
    """The text of a sound notebook after a change to what it holds."""
    content = json.loads((FOLDERS["en"] / "variance.ipynb").read_text(encoding="utf-8"))
    change(content, {cell["id"]: cell for cell in content["cells"]})
    return json.dumps(content, indent=1)


def put(ident, key, value):
    return lambda content, cells: cells[ident].__setitem__(key, value)


def told(**metadata):
    return lambda content, cells: content["metadata"].update(metadata)


def prose(text):
    return put("shape", "source", text)


def test_a_slip_is_found_where_it_stands():
    for change, message in (
        (put("measure", "execution_count", 3), "outputs are written by make record"),
        (put("measure", "source", "x" * 80), "expected lines of 79 characters at most"),
        (put("measure", "id", "Measure_1"), "id 'Measure_1': expected English words with hyphens"),
        (put("install", "source", "import torch"), 'with PACKAGE = ""'),
        (put("top", "source", "Variance"), "begins with # and the title"),
        (prose("Text.\n\n## A heading"), "a heading at the beginning of its cell"),
        (prose("## One\n\n## Two"), "a heading at the beginning of its cell"),
        (prose("## The law $d_k$"), "expected a heading without formulas"),
        (prose('!!! warning "No"'), "'!!!' means nothing in Jupyter"),
        (prose("See [@vaswani2017]."), "'[@' means nothing in Jupyter"),
        (prose("[so](claim:x)"), "'](claim:' means nothing in Jupyter"),
        (prose("## Law {#law}"), "'{#' means nothing in Jupyter"),
        (prose("It is 0.25 here."), "0.25 is typed: let a cell print it"),
        (told(description="short"), "a description of 30 to 200 characters"),
        (told(widgets={}), "metadata 'widgets': expected description"),
        (lambda content, cells: content.update(nbformat_minor=4), "format 4.5"),
    ):
        text = edited(change)
        (problem,) = notebooks.problems(Path("x.ipynb"), text, ROOT)
        assert message in problem.message
        if problem.line > 1:
            assert '"id": ' in text.split("\n")[problem.line - 1]


# What a cell may put out.


def run(folder: Path, *sources: str) -> execution.Run:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    path = folder / "x.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), "utf-8")
    return execution.run(path)


def test_an_error_is_told_with_its_cell(tmp_path):
    with pytest.raises(
        ValueError, match=r"x\.ipynb: cell 'cell-1': ZeroDivisionError: division by"
    ):
        run(tmp_path, "x = 1", "1 + 1\n1 / 0")


@pytest.fixture
def kernel(monkeypatch):
    """Instead of one: its cells put out what is laid into the list."""
    outputs = []

    class Kernel:
        def __init__(self, notebook, **options):
            self.cells, self.resources = notebook.cells, {}

        def execute(self, env):
            _, *ours, last = self.cells
            for cell, found in zip(ours, outputs, strict=False):
                cell.outputs = list(found)
            last.outputs = [stream(f"{ROOT / 'attnref/__init__.py'}\n")]

    monkeypatch.setattr(execution, "NotebookClient", Kernel)
    return outputs


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def displayed(**data):
    return nbformat.v4.new_output(
        "display_data", data={name.replace("_", "/"): said for name, said in data.items()}
    )


@pytest.mark.usefixtures("kernel")
def test_a_text_that_a_cell_names_is_one_of_its_files(tmp_path):
    assert run(tmp_path, 'x = "corpus.txt"').files == ["attnref/__init__.py", "attnref/corpus.txt"]


def test_what_a_page_cannot_show_is_told(tmp_path, kernel):
    for output, message in (
        (stream("careful", "stderr"), "cell 'cell-1' wrote to its error stream: careful"),
        (
            displayed(text_plain="x", text_html="<b>x</b>"),
            "cell 'cell-1': expected text or a figure as output, got text/plain, text/html",
        ),
    ):
        kernel[:] = [[], [output]]
        with pytest.raises(ValueError, match=re.escape(message)):
            run(tmp_path, "x = 1", "x = 2")


def test_what_comes_in_pieces_is_one_output(tmp_path, kernel):
    kernel[:] = [[stream("a"), stream("b\n"), displayed(text_plain="c")]]
    outputs = run(tmp_path, "x = 1").outputs["cell-0"]
    assert notebooks.put_out(outputs) == [("text", "ab\n"), ("text", "c")]


def test_a_figure_and_its_words_need_each_other():
    cell = nbformat.v4.new_code_cell("plot()", id="here")
    cell.metadata.alt = "A line that rises"
    page, edition = Page("notebooks/x.ipynb", Path("x.ipynb"), ""), Edition("en", ROOT)
    with pytest.raises(BookError, match="drew 0 figures: expected one, with its alternative"):
        list(notebooks.output_blocks(page, cell, edition))
    cell.outputs = [nbformat.v4.new_output("display_data", data={notebooks.SVG: "<svg/>"})]
    (shown,) = notebooks.output_blocks(page, cell, edition)
    assert "![A line that rises](../figures/x-here.svg)" in shown
    assert edition.files == {"figures/x-here.svg": "<svg/>"}
    del cell.metadata["alt"]
    with pytest.raises(BookError, match="drew 1 figures"):
        list(notebooks.output_blocks(page, cell, edition))
