"""Runs what the pages show and whose inputs have changed, and keeps what it made.

    python -m book.make.record                        all that has changed
    python -m book.make.record foundations/dropout    what this page shows, whether changed or not

What a snippet prints stands beside it, as name.out; a figure is drawn into docs/figures/drawn; a
notebook keeps what its cells put out; values.py of an explorer writes what is first shown into
shown.json beside it, and docs/package.py what only the package can tell. So a build of the site
runs nothing. Each runs in a process of its own, which tells what files of the project it read: as
long as these, and the versions of what it stands on, stay as they are, it does not run again.
"""

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from book.page import ROOT
from book.recorded import PACKAGE, figures, first_values, notebooks, page_scripts, snippets

KEPT = ROOT / ".cache" / "recorded.json"
VERSIONS = {name: version(name) for name in ("torch", "numpy", "matplotlib")}


def run(snippet: Path) -> str:
    """What the snippet prints when it is run as a script."""
    printed = io.StringIO()
    with (
        _without_warnings(),
        _extend_path(snippet),
        _forget_neighbours(snippet),
        contextlib.redirect_stdout(printed),
    ):
        runpy.run_path(str(snippet), run_name="__main__")
    return printed.getvalue()


def draw(script: Path) -> dict[Path, str]:
    """The figure in each language, as SVG, by the path where it is recorded."""
    with _without_warnings():
        from docs.figures import inline_svg  # with matplotlib, which snippets do without

        figure = runpy.run_path(str(script))
        return {
            script.parents[1] / "drawn" / f"{script.stem}.{language}.svg": inline_svg.render(
                figure["draw"], text, script.stem
            )
            for language, text in figure["TEXT"].items()
        }


def shown(script: Path) -> dict[Path, str]:
    """What a page first shows, by the path where it is recorded."""
    with _without_warnings():
        found = runpy.run_path(str(script))
    if script.name == PACKAGE:
        return {script.with_suffix(".json"): _json(found["told"]())}
    spoken: dict[str, dict[str, object]] = found.get("SPOKEN", {})
    states = {language: found["STATE"] | spoken.get(language, {}) for language in ("en", "pt")}
    drawing = found.get("drawing", dict)
    first = {
        language: {"state": state, "values": found["values"](state), "drawing": drawing(state)}
        for language, state in states.items()
    }
    return {script.with_name("shown.json"): _json({"program": found["PROGRAM"], **first})}


def _json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, default=list) + "\n"


def _shared_folders(script: Path) -> list[Path]:
    """Where a script finds what it shares with others: beside it, and in the folder above."""
    return [script.parent, script.parents[1]]


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """They would go to stderr, not on the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _extend_path(script: Path) -> Iterator[None]:
    """As for a script that somebody runs, whose folder Python knows."""
    before = sys.path[:]
    sys.path[:0] = map(str, _shared_folders(script))
    try:
        yield
    finally:
        sys.path[:] = before


@contextlib.contextmanager
def _forget_neighbours(script: Path) -> Iterator[None]:
    """As in a process of its own: a module of the same name as a neighbour is not taken for it."""
    neighbours = {path.stem for folder in _shared_folders(script) for path in folder.glob("*.py")}

    def loaded_neighbours() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in neighbours]

    others = {name: sys.modules.pop(name) for name in loaded_neighbours()}
    try:
        yield
    finally:
        for name in loaded_neighbours():
            del sys.modules[name]
        sys.modules.update(others)


# Recording: what has changed, and no more.


def trace(script: Path, root: Path) -> tuple[dict[str, str], list[str]]:
    """The files that a script makes, with their text, and those of the project that it reads.

    For a process of its own: it listens to every file that is opened from then on.
    """
    read = {script}

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            read.add(Path(os.path.abspath(arguments[0])))

    sys.addaudithook(listen)
    if script.is_relative_to(root / "snippets"):
        files = {script.with_suffix(".out"): run(script)}
    elif script.suffix == ".ipynb":
        from book.make import notebook  # with Jupyter's client, which nothing else here wants

        with _without_warnings():
            files = notebook.texts(script, root)
        content = json.loads(files[script])
        read |= {root / name for name in content["metadata"]["files"]}
    elif script.name in ("values.py", PACKAGE):
        files = shown(script)
    else:
        files = draw(script)
    # A module may come from its compiled form, which is opened in place of its text.
    read |= {Path(file) for m in list(sys.modules.values()) if (file := getattr(m, "__file__", ""))}
    own = [path for path in read if _is_input(path, root) and path not in files]
    return (
        {path.relative_to(root).as_posix(): text for path, text in files.items()},
        sorted(path.relative_to(root).as_posix() for path in own),
    )


def _is_input(path: Path, root: Path) -> bool:
    if not path.is_relative_to(root) or not path.is_file():
        return False
    first, *_ = path.relative_to(root).parts
    return not first.startswith(".") and "__pycache__" not in path.parts and path != Path(__file__)


def record(scripts: list[Path], root: Path, kept: Path) -> Iterator[tuple[str, str]]:
    """Runs these scripts, and says of each file that they make whether it is as it was."""
    known = _load_digests(kept)
    try:
        for script, (files, read) in zip(scripts, _each_alone(scripts, root), strict=True):
            for name, text in files.items():
                path = root / name
                same = path.is_file() and path.read_text(encoding="utf-8") == text
                if not same:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
                yield ("unchanged" if same else "written"), name
            known[script.relative_to(root).as_posix()] = {
                name: _digest(root / name) for name in [*read, *files]
            }
    finally:  # what has run so far need not run again
        kept.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"versions": VERSIONS, "files": known}, indent=1)
        kept.write_text(text, encoding="utf-8")


def _each_alone(scripts: list[Path], root: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """What each script makes and reads, in their order; as many run at once as there are cores."""
    # Loaded before the processes part and used by none of them so far: each starts at once, and
    # with nothing that another has left behind.
    import matplotlib.figure  # noqa: F401
    import torch  # noqa: F401

    context = multiprocessing.get_context("fork")
    running: deque[tuple[Path, Connection]] = deque()
    for script in [*scripts, *[None] * (os.cpu_count() or 1)]:
        if running and (script is None or len(running) == os.cpu_count()):
            yield _answer(*running.popleft())
        if script is not None:
            answer, sender = context.Pipe(duplex=False)
            context.Process(target=_send, args=(sender, script, root)).start()
            sender.close()
            running.append((script, answer))


def _send(sender: Connection, script: Path, root: Path) -> None:
    import torch

    torch.set_num_threads(1)  # the other cores have scripts of their own
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what profilers say of themselves
    try:
        sender.send(trace(script, root))
    except BaseException:
        sender.send(traceback.format_exc())


def _answer(script: Path, answer: Connection) -> tuple[dict[str, str], list[str]]:
    found: tuple[dict[str, str], list[str]] | str
    try:
        found = answer.recv()
    except EOFError:
        found = "its process ended without a word"
    if isinstance(found, str):
        sys.exit(f"{found}\nattnref: {script} failed; the lines above say why.")
    return found


def changed_scripts(scripts: list[Path], root: Path, kept: Path) -> list[Path]:
    """Those of which something that they read or made is not as it was."""
    known, digest = _load_digests(kept), {}

    def is_same(name: str, before: str) -> bool:
        if name not in digest:
            digest[name] = _digest(root / name) if (root / name).is_file() else ""
        return digest[name] == before

    def is_as_it_was(script: Path) -> bool:
        files = known.get(script.relative_to(root).as_posix())
        return files is not None and all(is_same(*file) for file in files.items())

    return [script for script in scripts if not is_as_it_was(script)]


def _load_digests(kept: Path) -> dict[str, dict[str, str]]:
    entry = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    return entry["files"] if entry.get("versions") == VERSIONS else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main(pages: list[str]) -> None:
    everything = [*snippets(), *figures(), *first_values(), *notebooks()]
    try:
        scripts = [script for page in pages for script in page_scripts(page)]
    except ValueError as error:
        sys.exit(f"attnref: {error}.")
    wanted = scripts if pages else changed_scripts(everything, ROOT, KEPT)
    for state, name in record(wanted, ROOT, KEPT) if wanted else ():
        print(f"{state:>9}  {name}", flush=True)
    if not pages:
        print(f"attnref: {len(everything) - len(wanted)} of {len(everything)} had nothing new.")


if __name__ == "__main__":
    main(sys.argv[1:])
