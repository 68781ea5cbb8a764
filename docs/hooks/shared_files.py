"""Adds to each language's site the files of docs/shared: styles, and the fonts of formulas."""

from pathlib import Path

from mkdocs.structure.files import File, Files

SHARED = Path(__file__).parent.parent / "shared"


def on_files(files: Files, config) -> Files:
    for path in sorted(SHARED.rglob("*")):
        if path.is_file():
            name = path.relative_to(SHARED).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
