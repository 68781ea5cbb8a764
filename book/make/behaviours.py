"""Asks every implementation that is installed, and writes the records that the page quotes.

python -m book.make.behaviours              all projects
python -m book.make.behaviours jax keras    these, by the names of their packages

Each implementation is asked in a process of its own, so that none has to do with what another has
changed in the libraries they share, and a call that ends its process ends no other. A project that
is not installed is named, and its record stays as it was; so does a record that would not change.
What has changed is told, cell by cell.
"""

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from book.make.behaviour_programs import (
    DATA,
    ENDS,
    LATE,
    Cell,
    Implementation,
    Project,
    program,
    projects,
    questions,
)
from book.make.serve import ROOT

LIMIT = 300.0  # seconds for all answers of a process
Record = dict[str, Any]


class Missing(Exception):
    """What keeps a project from being asked."""


def answers(project: Project, who: Implementation, folder: Path = DATA) -> dict[str, Cell]:
    """To every question, from processes of their own: a new one after each that was ended."""
    waiting = list(questions(folder))
    found: dict[str, Cell] = {}
    while waiting:
        told, (answer, output) = _run_programs([str(folder), project.name, who.name, *waiting])
        found |= told
        waiting = [name for name in waiting if name not in found]
        if waiting:
            name = waiting.pop(0)
            found[name] = Cell(answer, program(who, questions(folder)[name]), output)
    return found


def _run_programs(arguments: list[str]) -> tuple[dict[str, Cell], tuple[str, str]]:
    """The answers of one process, and how it ended: for the question that it did not answer."""
    command = [sys.executable, "-m", "book.make.behaviour_programs", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
        told, end = done.stdout, (ENDS, f"signal {-done.returncode}")
        if done.returncode > 0:  # no signal: something that it imports is missing
            raise Missing(done.stderr.strip().splitlines()[-1])
    except subprocess.TimeoutExpired as late:
        raw = late.stdout or b""  # bytes where it ran out of time, whatever was asked for
        told, end = raw if isinstance(raw, str) else raw.decode(), (LATE, f"{LIMIT:.0f} s")
    said = [json.loads(line) for line in told.splitlines() if line.startswith('{"question"')]
    return {one.pop("question"): Cell(**one) for one in said}, end


def record(project: Project, folder: Path = DATA) -> Record:
    """What a project answers here and today; PackageNotFoundError if it is not installed."""
    version = metadata.version(project.package)
    return {
        "project": project.name,
        "package": project.package,
        "version": version,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "system": f"{platform.system()} {platform.machine()}",
        "implementations": {
            name: {
                asked: _cell_entry(cell) for asked, cell in answers(project, who, folder).items()
            }
            for name, who in project.implementations.items()
        },
    }


def _cell_entry(cell: Cell) -> dict[str, str]:
    return {name: text for name, text in asdict(cell).items() if text}


def path_of(project: Project, folder: Path = DATA) -> Path:
    """Where its record is."""
    return folder / "records" / f"{project.package.lower()}.json"


def load(project: Project, folder: Path = DATA) -> Record | None:
    """Its record; None where there is none yet."""
    path = path_of(project, folder)
    if not path.is_file():
        return None
    loaded: Record = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def changes(before: Record | None, after: Record) -> Iterator[str]:
    """A line for each cell whose answer is another one now, and for what came and went."""
    old = {} if before is None else before["implementations"]
    new = after["implementations"]
    for name in old.keys() - new.keys():
        yield f"{name}: no longer asked"
    for name, cells in new.items():
        if name not in old:
            yield f"{name}: not asked before"
        for question, cell in cells.items():
            former = old.get(name, {}).get(question)
            if former is not None and _cell_text(former) != _cell_text(cell):
                yield f"{name}, {question}: {_cell_text(former)} → {_cell_text(cell)}"


def _cell_text(cell: dict[str, str]) -> str:
    output = cell.get("output")
    return cell["answer"] if output is None else f"{cell['answer']} ({output})"


def update(project: Project, folder: Path = DATA) -> str:
    """Asks a project, writes its record if it has changed, and says what has."""
    before = load(project, folder)
    try:
        after = record(project, folder)
    except (metadata.PackageNotFoundError, Missing) as missing:
        why = (
            str(missing) if isinstance(missing, Missing) else f"{project.package} is not installed"
        )
        left = f"its record of {before['version']} stays" if before else "it has no record"
        return f"{project.name}: {why}; {left}."
    versions = after["version"]
    if before is not None and before["version"] != versions:
        versions = f"{before['version']} → {versions}"
    if before is not None and {**after, "date": before["date"]} == before:
        return f"{project.name} {versions}: as before."
    path_of(project, folder).parent.mkdir(exist_ok=True)
    path_of(project, folder).write_text(
        json.dumps(after, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    told = [f"  {line}" for line in changes(before, after)]
    return "\n".join([f"{project.name} {versions}: recorded, {len(told)} changes.", *told])


def select(names: list[str]) -> list[Project]:
    """All projects, or those whose packages are named."""
    known = {project.package.lower(): project for project in projects().values()}
    for name in names:
        if name.lower() not in known:
            sys.exit(f"attnref: {name}: expected a package among {', '.join(known)}.")
    return [known[name.lower()] for name in names] if names else list(known.values())


if __name__ == "__main__":
    for one in select(sys.argv[1:]):
        print(update(one), flush=True)
