"""Runs a notebook, once for both languages: what its cells put out is kept in its files.

Figures come out in the manner of docs/figures, as the page shows them. What a cell writes to its
error stream, a warning say, is an error.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from traitlets.config import Config

ROOT = Path(__file__).parents[2]
SVG = "image/svg+xml"
LIMIT = 300  # seconds that a cell may take
# Before the first cell and after the last one; of neither does the page show anything.
BEFORE = """
import matplotlib
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib_inline.backend_inline import set_matplotlib_formats
from docs.figures import drawing

ramp = [to_rgba(drawing.SHADE, 0), to_rgba(drawing.SHADE, 1)]
matplotlib.colormaps.register(LinearSegmentedColormap.from_list("page", ramp))
colours = [drawing.FIRST, drawing.SECOND, drawing.THIRD, drawing.SHADE, drawing.SOFT]
matplotlib.rcParams.update(drawing.STYLE | {
    "axes.labelsize": drawing.SMALL,
    "axes.prop_cycle": cycler(color=colours),
    "axes.titlesize": drawing.NORMAL,
    "figure.constrained_layout.use": True,
    "figure.figsize": (drawing.WIDTH / 72, 260 / 72),
    "image.cmap": "page",
    "legend.fontsize": drawing.SMALL,
    "legend.frameon": False,
})
set_matplotlib_formats("svg", bbox_inches=None)
%reset -f
"""
AFTER = """
import sys
print(*{m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "attnref"}, sep="\\n")
"""


@dataclass(frozen=True)
class Run:
    """What the cells put out, by their ids, and the files of attnref that they loaded."""

    outputs: dict[str, list[nbformat.NotebookNode]]
    files: list[str]


def versions(path: Path) -> list[Path]:
    """The notebook in each language."""
    return sorted(path.parents[2].glob(f"*/notebooks/{path.name}"))


def texts(path: Path, root: Path = ROOT) -> dict[Path, str]:
    """The notebook in each language with what it puts out, by the path where it is kept."""
    ran, made = run(path, root), {}
    for one in versions(path):
        notebook = _read(one)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = ran.outputs[cell.id]
        notebook.metadata["files"] = ran.files
        made[one] = f"{nbformat.writes(notebook)}\n"
    return made


def run(path: Path, root: Path = ROOT) -> Run:
    """What a notebook puts out now.

    Raises:
        ValueError: when a cell raises, warns, takes too long, or puts out what a page cannot show.
    """
    code = [(cell.id, cell.source) for cell in _read(path).cells if cell.cell_type == "code"]
    cells = [nbformat.v4.new_code_cell(source) for source in (BEFORE, *dict(code).values(), AFTER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    places = [str(root), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    env["OMP_NUM_THREADS"] = "1"  # each thread has memory of its own, and its order of sums
    with tempfile.TemporaryDirectory() as folder:
        # The kernel is reached through files, where nobody else on the machine can listen.
        config = Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})
        client = NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", config=config)
        client.resources["metadata"] = {"path": folder}
        try:
            client.execute(env=env)
        except (CellExecutionError, CellTimeoutError) as error:
            count = sum("execution_count" in c and bool(c.execution_count) for c in cells) - 2
            place = code[count][0] if 0 <= count < len(code) else "…"
            raise ValueError(f"{path}: cell {place!r}: {_reason(error)}") from None
    outputs = {
        ident: [_output(path, ident, output) for output in _merge_streams(cell.outputs)]
        for (ident, _), cell in zip(code, cells[1:-1], strict=True)
    }
    printed = "".join(output.text for output in cells[-1].outputs)
    loaded = [Path(name) for name in printed.split("\n") if name]  # empty where none was loaded
    # A text is no module, and is read by its name.
    named = (root / "attnref").glob("*.txt")
    loaded += [text for text in named if any(text.name in source for _, source in code)]
    return Run(outputs, sorted(file.relative_to(root).as_posix() for file in loaded))


def _read(path: Path) -> nbformat.NotebookNode:
    text = path.read_text(encoding="utf-8")
    notebook: nbformat.NotebookNode = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    return notebook


def _reason(error: Exception) -> str:
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}"
    return f"it takes longer than {LIMIT} seconds"


def _merge_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """A stream may come in pieces, as its kernel happened to send them."""
    merged: list[nbformat.NotebookNode] = []
    for output in outputs:
        name = output.get("name")
        if name and merged and merged[-1].get("name") == name:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def _output(path: Path, ident: str, output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if output.output_type == "stream":
        if output.name == "stderr":
            raise ValueError(f"{path}: cell {ident!r} wrote to its error stream: {output.text}")
        return output
    if SVG in output.data:
        from docs.figures import inline_svg  # beside the figures; with matplotlib

        try:
            drawing = inline_svg.inline(output.data[SVG], ident)
        except ValueError as error:
            raise ValueError(f"{path}: cell {ident!r}: {error}") from None
        kind, data = "display_data", {SVG: drawing}
    elif list(output.data) == ["text/plain"]:
        kind, data = "execute_result", output.data
    else:
        kinds = ", ".join(output.data)
        raise ValueError(
            f"{path}: cell {ident!r}: expected text or a figure as output, got {kinds}"
        )
    kept: nbformat.NotebookNode = nbformat.v4.new_output(kind, data=data)
    return kept
