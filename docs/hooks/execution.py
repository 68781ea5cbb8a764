"""Runs a notebook, once for both languages, and keeps what its cells put out.

It is kept in .cache/notebooks, outside of git, and holds as long as the code is the same, the
files of attnref that it loaded are, and so are the versions of what it stands on. Figures come
out in the manner of docs/figures. What a cell writes to its error stream, a warning say, stops
the build as an error does.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import nbformat
from filelock import FileLock
from mkdocs.exceptions import PluginError
from mkdocs.plugins import get_plugin_logger
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from pages import ROOT
from traitlets.config import Config

log = get_plugin_logger("notebooks")

KEPT = Path(".cache", "notebooks")
LIMIT = 300  # seconds that a cell may take
# Before the first cell and after the last one; of neither does the page show anything.
BEFORE = """
import matplotlib
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib_inline.backend_inline import set_matplotlib_formats
import drawing

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
    """What the cells put out, by their ids, and digests of the files of attnref they loaded.

    An output is a pair: ``text`` or ``svg``, and what was put out.
    """

    outputs: dict[str, list[tuple[str, str]]]
    loaded: dict[str, str]


def run(path: Path, notebook: nbformat.NotebookNode, root: Path = ROOT) -> Run:
    """What the notebook puts out, from an earlier run if nothing has changed since.

    Raises:
        PluginError: when a cell raises, warns, takes too long, or puts out what a page cannot show.
    """
    code = [(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    digest = _digest(json.dumps(code) + _surroundings(root))
    kept = root / KEPT / f"{path.stem}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{kept}.lock"):  # several builds may want it at once, and one has to run it
        if kept.is_file():
            entry = json.loads(kept.read_text(encoding="utf-8"))
            if entry.pop("digest") == digest and entry["loaded"] == _digests(entry["loaded"], root):
                return Run(**entry)
        log.info(f"running {path.name}, which takes a while; what it puts out is kept")
        found = _run(path, code, root)
        kept.write_text(json.dumps({"digest": digest, **vars(found)}), encoding="utf-8")
        return found


def _run(path: Path, code: list[tuple[str, str]], root: Path) -> Run:
    cells = [nbformat.v4.new_code_cell(source) for source in (BEFORE, *dict(code).values(), AFTER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    places = [str(root), str(root / "docs" / "figures"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
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
            raise PluginError(f"{path}: cell {place!r}: {_reason(error)}") from None
    outputs = {
        ident: [_output(path, ident, output) for output in _merge_streams(cell.outputs)]
        for (ident, _), cell in zip(code, cells[1:-1], strict=True)
    }
    printed = "".join(output.text for output in cells[-1].outputs)
    loaded = [Path(name) for name in printed.split("\n") if name]  # empty where none was loaded
    # A text is no module, and is read by its name.
    texts = (root / "attnref").glob("*.txt")
    loaded += [text for text in texts if any(text.name in source for _, source in code)]
    names = sorted(path.relative_to(root).as_posix() for path in loaded)
    return Run(outputs, _digests(names, root))


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


def _output(path: Path, ident: str, output: nbformat.NotebookNode) -> tuple[str, str]:
    if output.output_type == "stream":
        if output.name == "stderr":
            raise PluginError(f"{path}: cell {ident!r} wrote to its error stream: {output.text}")
        return "text", output.text
    if "image/svg+xml" in output.data:
        return "svg", output.data["image/svg+xml"]
    if list(output.data) == ["text/plain"]:
        return "text", output.data["text/plain"]
    kinds = ", ".join(output.data)
    raise PluginError(f"{path}: cell {ident!r}: expected text or a figure as output, got {kinds}")


def _surroundings(root: Path) -> str:
    """What an output depends on beside the code and attnref."""
    docs = root / "docs"
    manner = [docs / "figures" / "drawing.py", docs / "figures" / "typeface.py"]
    fonts = sorted((docs / "shared" / "fonts").glob("sans-*"))
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (*manner, *fonts)]
    versions = [version(name) for name in ("torch", "numpy", "matplotlib", "ipykernel")]
    return "\n".join((BEFORE, AFTER, *digests, *versions))


def _digests(names: Iterable[str], root: Path) -> dict[str, str]:
    """Of each file that is there, by its name."""
    there = [name for name in names if (root / name).is_file()]
    return {name: _digest((root / name).read_text(encoding="utf-8")) for name in there}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
