"""Runs every snippet and writes what it prints beside it, as name.out; draws every figure."""

import contextlib
import io
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def snippets(root: Path = ROOT) -> list[Path]:
    """The files with a section to show; others, without one, are what several of them share."""
    return _holding("# --8<-- [start:", root / "snippets")


def figures(root: Path = ROOT) -> list[Path]:
    """The scripts with text to set in a drawing; others are what several of them share."""
    return _holding("\nTEXT = {", root / "docs" / "figures")


def run(snippet: Path) -> str:
    """What the snippet prints when it is run as a script."""
    printed = io.StringIO()
    with _beside(snippet), _alone(snippet), contextlib.redirect_stdout(printed):
        runpy.run_path(str(snippet), run_name="__main__")
    return printed.getvalue()


def draw(script: Path) -> dict[Path, str]:
    """The figure in each language, as SVG, by the path where it is recorded."""
    with _beside(script):
        import inline_svg  # beside the figures; with matplotlib, which snippets do without

        figure = runpy.run_path(str(script))
        return {
            script.with_suffix(f".{language}.svg"): inline_svg.render(
                figure["draw"], text, script.stem
            )
            for language, text in figure["TEXT"].items()
        }


def _holding(mark: str, folder: Path) -> list[Path]:
    return [
        path for path in sorted(folder.rglob("*.py")) if mark in path.read_text(encoding="utf-8")
    ]


@contextlib.contextmanager
def _beside(script: Path) -> Iterator[None]:
    """As `python path` does: what stands beside a script can be imported from it."""
    sys.path.insert(0, str(script.parent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would go to stderr, not on the page
            yield
    finally:
        sys.path.remove(str(script.parent))


@contextlib.contextmanager
def _alone(script: Path) -> Iterator[None]:
    """As in a process of its own: a module of the same name as a neighbour is not taken for it."""
    neighbours = {path.stem for path in script.parent.iterdir()}

    def loaded() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in neighbours]

    others = {name: sys.modules.pop(name) for name in loaded()}
    try:
        yield
    finally:
        for name in loaded():
            del sys.modules[name]
        sys.modules.update(others)


def _write(path: Path, now: str) -> None:
    before = path.read_text(encoding="utf-8") if path.exists() else None
    if now != before:
        path.write_text(now, encoding="utf-8")
    state = "unchanged" if now == before else "written"
    print(f"{state:>9}  {path.relative_to(ROOT)}")


def main() -> None:
    for snippet in snippets():
        _write(snippet.with_suffix(".out"), run(snippet))
    for script in figures():
        for path, drawing in draw(script).items():
            _write(path, drawing)


if __name__ == "__main__":
    main()
