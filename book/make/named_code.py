"""Reads again, in clones, each place of the code of others that docs/named-code.yml names.

python -m book.make.named_code FOLDER     with a clone of each repository in FOLDER/owner/name
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
LIST = "docs/named-code.yml"


class Place(NamedTuple):
    """A line of a file of a commit, and a piece of what is on it."""

    model: str
    repository: str
    commit: str
    file: str
    line: int
    piece: str


def addresses(root: Path) -> dict[str, str]:
    """The address of each entry of the bibliography that has one."""
    text = (root / "docs" / "references.bib").read_text(encoding="utf-8")
    found = {}
    for entry in text.split("\n@"):
        key, url = re.search(r"\{([\w-]+),", entry), re.search(r"\burl\s*=\s*\{([^}]*)\}", entry)
        if key and url:
            found[key[1]] = url[1]
    return found


def places(root: Path = ROOT) -> Iterator[Place]:
    """Each place whose line is known, with repository and commit from the bibliography."""
    urls = addresses(root)
    listed = yaml.safe_load((root / LIST).read_text(encoding="utf-8"))
    for sections in listed.values():
        for entries in sections.values():
            for entry in entries:
                for at in entry.get("at", ()):
                    _, _, _, owner, name, _, commit, *_ = urls[at["source"]].split("/")
                    if "line" in at:
                        where = f"{owner}/{name}", commit, at["file"], at["line"], at["piece"]
                        yield Place(entry["model"], *where)


def line_at(folder: Path, place: Place) -> str | None:
    """The line at that place of the clone, or None where there is no clone or no such file."""
    shown = subprocess.run(
        ["git", "-C", folder / place.repository, "show", f"{place.commit}:{place.file}"],
        capture_output=True,
        text=True,
    )
    lines = shown.stdout.split("\n")
    return lines[place.line - 1] if not shown.returncode and place.line <= len(lines) else None


def problem(place: Place, folder: Path) -> str | None:
    line = line_at(folder, place)
    where = f"{place.model}: {place.repository}@{place.commit} {place.file}:{place.line}"
    if line is None:
        return f"{where}: no clone, commit or line"
    return None if place.piece in line else f"{where}: has {line.strip()!r}, not {place.piece!r}"


def main(folder: Path) -> None:
    known = list(places())
    found = [one for place in known if (one := problem(place, folder))]
    print("\n".join([*found, f"attnref: {len(known) - len(found)} of {len(known)} places hold."]))
    sys.exit(bool(found))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
