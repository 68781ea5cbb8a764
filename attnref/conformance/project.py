"""What a project wants to have checked, as its ``pyproject.toml`` says."""

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnref.conformance.request import Request, read_requests
from attnref.conformance.subject import CheckError
from attnref.text import Text

NAME = "pyproject.toml"
EXAMPLE = Text("""\
[tool.attnref.check."my_module:attention"]
skip = ["memory_growth"]  # the options of the command, all of them optional

[tool.attnref.check."my_module:attention".expect.fully_masked]
verdict = "unsafe"
reason = "each of our queries has a key\"""")
NO_FILE = Text(
    "function: none is named, and there is no {file} in {folder} or above it that says what to "
    "check. Name module:function or path/to/file.py:function, or write there for example:\n\n"
    "{example}"
)
NO_SECTION = Text("{place}: no table says what to check. Write for example:\n\n{example}")
NOT_READ = Text("{place}: this is not a valid TOML file: {error}. Fix that first.")


@dataclass(frozen=True)
class Project:
    """What is asked for, where names of files are seen from the folder."""

    folder: Path
    requests: Sequence[Request]


def project(function: str | None = None) -> Project:
    """What the ``pyproject.toml`` of this folder, or of the nearest above it, says of functions.

    Or of that ``function`` alone, of which it need not say anything.

    Raises:
        CheckError: naming the file, the table and the key, what was expected there and how to fix
            it; also when nothing is said.
    """
    here, file = Path.cwd(), _find_file(Path.cwd())
    found = Project(here, []) if file is None else _read(file)
    if function is not None:
        wanted = _place(function, here)
        for request in found.requests:
            if _place(request.function, found.folder) == wanted:
                return Project(found.folder, [request])
        return Project(here, [Request(function)])
    if file is None:
        about = {"file": NAME, "folder": str(here), "example": EXAMPLE}
        raise CheckError(NO_FILE.fill(about))
    if not found.requests:
        about = {"place": os.path.relpath(file), "example": EXAMPLE}
        raise CheckError(NO_SECTION.fill(about))
    return found


def _place(function: str, folder: Path) -> tuple[str, str]:
    """What a name says, whatever folder its path is seen from."""
    place, _, attribute = function.rpartition(":")
    return (str((folder / place).resolve()) if place.endswith(".py") else place, attribute)


def _find_file(folder: Path) -> Path | None:
    candidates = (each / NAME for each in (folder, *folder.parents))
    return next((each for each in candidates if each.is_file()), None)


def _read(file: Path) -> Project:
    name = os.path.relpath(file)
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # of its bytes, too
        raise CheckError(NOT_READ.fill({"place": name, "error": error})) from None
    return Project(file.parent, read_requests(name, found))
