"""Notebooks: sound as they are kept, the same in both languages, run, and running alone."""

import ast
import base64
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import contracts
import execution
import nbformat
import notebooks
import pytest
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {language: ROOT / "docs" / language / "notebooks" for language in contracts.LANGUAGES}
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
        "headings": [heading.level for heading in contracts.headings(text)],
        "equations": [
            " ".join((one or other).split()) for one, other in contracts.EQUATION.findall(text)
        ],
        "links": [link.target for link in contracts.links(text)],
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
        pt, en = (skeleton(read(name, language)) for language in contracts.LANGUAGES)
        assert [part for part in pt if pt[part] != en[part]] == [], name
        assert read(name, "en").cells[-1].id == "summary"


def test_all_notebooks_install_in_the_same_way():
    cells = [code_cells(read(path.stem, path.parent.parent.name))[0] for path in PATHS]
    assert {cell.id for cell in cells} == {"install"}
    assert len({cell.source for cell in cells}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_notebook_runs_and_every_cell_shows_what_it_may(name):
    for language, folder in FOLDERS.items():
        path = folder / f"{name}.ipynb"
        notebook = read(name, language)
        ran = execution.run(path, notebook)
        text = notebooks.markdown(path, notebook, ran, language)
        assert text.count("](cell:") == sum("alt" in cell.metadata for cell in notebook.cells)
        assert "attnref/reference.py" in ran.loaded


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


def program(name: str, *, whole: bool) -> str:
    """The code of the downloaded file: all of it, or what it imports."""
    path = FOLDERS["en"] / f"{name}.ipynb"
    ran = execution.run(path, read(name, "en"))
    file = notebooks.bundle(path.read_text(encoding="utf-8"), ran)
    setup, *rest = (cell.source for cell in code_cells(nbformat.reads(file, as_version=4)))
    setup = setup.replace('%pip install --quiet {" ".join(missing)}', "raise SystemExit(missing)")
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
    for folder in FOLDERS.values():
        path = folder / f"{name}.ipynb"
        kept = notebooks.read(path.read_text(encoding="utf-8"))
        ran = execution.run(path, kept)
        text = notebooks.bundle(path.read_text(encoding="utf-8"), ran)
        assert len(text) < 400_000
        published = notebooks.read(text)
        nbformat.validate(published)
        # All but the sections of explorers, which only the page has.
        cells = [cell for cell in kept.cells if "<!-- explorer:" not in cell.source]
        assert [cell.id for cell in published.cells] == [cell.id for cell in cells]
        for ours, theirs in zip(cells, published.cells, strict=True):
            if ours.id == "install":
                before, after = ours.source.split('""')
                assert theirs.source.startswith(before)
                assert theirs.source.endswith(after)
                packed = theirs.source.removeprefix(before).removesuffix(after).strip('"')
                with zipfile.ZipFile(io.BytesIO(base64.b85decode(packed))) as package:
                    assert package.namelist() == sorted(ran.loaded), path
            elif ours.cell_type == "code":
                assert theirs.source == ours.source
            else:
                assert ".md" not in theirs.source


def test_without_attnref_and_without_the_package_the_first_cell_says_what_to_do(tmp_path):
    source = code_cells(read("variance", "en"))[0].source.replace("%pip", "# %pip\n    pass #")
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
        (put("measure", "execution_count", 3), "outputs are made by the build"),
        (
            put("measure", "outputs", [{"output_type": "stream", "name": "stdout", "text": "1"}]),
            "outputs are made by the build",
        ),
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


# What runs, and when it runs again.


@pytest.fixture
def project(tmp_path):
    """A root with a package attnref of its own, and the manner of figures."""
    root = tmp_path / "meus projetos, é"  # as people call their folders
    for name in ("attnref", "docs/figures"):
        (root / name).mkdir(parents=True)
    (root / "attnref/__init__.py").write_text("answer = 42\n")
    for name in ("drawing.py", "typeface.py"):
        shutil.copy(ROOT / "docs/figures" / name, root / "docs/figures" / name)
    shutil.copytree(ROOT / "docs/shared/fonts", root / "docs/shared/fonts")
    return root


def run(project: Path, *sources: str, **alt: str) -> list[str]:
    """The Markdown of each cell's outputs."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
        cell.metadata.update(alt)
    notebook = nbformat.v4.new_notebook(cells=cells)
    ran = execution.run(Path("x.ipynb"), notebook, project)
    return [
        "\n".join(notebooks._output_blocks(Path("x.ipynb"), cell, ran.outputs[cell.id]))
        for cell in cells
    ]


def test_an_error_stops_the_build(project):
    with pytest.raises(PluginError) as stopped:
        run(project, "x = 1", "1 + 1\n1 / 0")
    assert "x.ipynb: cell 'cell-1': ZeroDivisionError: division by zero" in str(stopped.value)


@pytest.fixture
def kernel(project, monkeypatch):
    """Instead of one: its cells put out what is laid into the list, and how often it has run."""
    outputs = []

    class Kernel:
        count = 0

        def __init__(self, notebook, **options):
            self.cells, self.resources = notebook.cells, {}

        def execute(self, env):
            Kernel.count += 1
            _, *ours, last = self.cells
            for cell, found in zip(ours, outputs, strict=False):
                cell.outputs = list(found)
            ours[0].outputs = [*ours[0].outputs, stream(f"run {Kernel.count}\n")]
            last.outputs = [stream(f"{project / 'attnref/__init__.py'}\n")]

    monkeypatch.setattr(execution, "NotebookClient", Kernel)
    return outputs


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def displayed(**data):
    return nbformat.v4.new_output(
        "display_data", data={name.replace("_", "/"): said for name, said in data.items()}
    )


FIGURE = nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg/>"})


@pytest.mark.usefixtures("kernel")
def test_outputs_are_kept_until_the_code_or_the_package_changes(project):
    first = run(project, "x = 1")
    assert run(project, "x = 1") == first
    (project / "attnref/__init__.py").write_text("answer = 43\n")
    second = run(project, "x = 1")
    assert second != first
    assert run(project, "x = 1") == second
    assert run(project, "x = 1\n") != second


@pytest.mark.usefixtures("kernel")
def test_a_text_that_a_cell_names_is_one_of_its_files(project):
    for name in ("read", "other"):
        (project / f"attnref/{name}.txt").write_text("a\n")
    cell = nbformat.v4.new_code_cell('x = "read.txt"')
    cell.id = "cell"
    ran = execution.run(Path("x.ipynb"), nbformat.v4.new_notebook(cells=[cell]), project)
    assert sorted(ran.loaded) == ["attnref/__init__.py", "attnref/read.txt"]


def test_what_a_page_cannot_show_stops_the_build(project, kernel):
    for output, message in (
        (stream("careful", "stderr"), "cell 'cell-1' wrote to its error stream: careful"),
        (
            displayed(text_plain="x", text_html="<b>x</b>"),
            "cell 'cell-1': expected text or a figure as output, got text/plain, text/html",
        ),
        (FIGURE, "cell 'cell-1' drew 1 figures: expected one, with its alternative text"),
    ):
        kernel[:] = [[], [output]]
        with pytest.raises(PluginError) as stopped:
            run(project, "x = 1", f"x = {len(message)}")
        assert message in str(stopped.value)


def test_a_figure_needs_a_figure(project, kernel):
    kernel[:] = [[FIGURE]]
    (shown,) = run(project, "plot()", alt="A line that rises")
    assert "![A line that rises](cell:cell-0)" in shown
    kernel[:] = []
    with pytest.raises(PluginError, match="drew 0 figures"):
        run(project, "x = 1", alt="A line that rises")
