"""Runs every snippet and writes what it prints beside it, as name.out."""

import contextlib
import io
import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def snippets(root: Path = ROOT) -> list[Path]:
    return sorted((root / "snippets").rglob("*.py"))


def run(snippet: Path) -> str:
    """What the snippet prints when it is run as a script."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(snippet), run_name="__main__")
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
