"""Runs every snippet and writes what it prints beside it, as name.out."""

import contextlib
import io
import runpy
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).parent.parent


def snippets(root: Path = ROOT) -> list[Path]:
    """The files with a section to show; others, without one, are what several of them share."""
    return [
        path
        for path in sorted((root / "snippets").rglob("*.py"))
        if "# --8<-- [start:" in path.read_text(encoding="utf-8")
    ]


def run(snippet: Path) -> str:
    """What the snippet prints when it is run as a script."""
    printed = io.StringIO()
    # As `python path` does: what stands beside a snippet can be imported from it.
    sys.path.insert(0, str(snippet.parent))
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would go to stderr, not on the page
            runpy.run_path(str(snippet), run_name="__main__")
    finally:
        sys.path.remove(str(snippet.parent))
    return printed.getvalue()


def main() -> None:
    for snippet in snippets():
        output = snippet.with_suffix(".out")
        before = output.read_text(encoding="utf-8") if output.exists() else None
        now = run(snippet)
        if now != before:
            output.write_text(now, encoding="utf-8")
        state = "unchanged" if now == before else "written"
        print(f"{state:>9}  {output.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
