"""Remembers which files were solved, so that a list need not run them again.

Kept is a digest of all that decided: the file and what it imports beside it, this package, PyTorch,
NumPy and Python. If any of these is another one now, the file counts as not judged. A file that
imports more than these is never remembered.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

_PACKAGE = Path(__file__).parents[1]
# What can be imported and is the same as long as Python, PyTorch and NumPy are.
_KNOWN = frozenset(
    {"__future__", "collections", "functools", "itertools", "math", "numpy", "torch", "typing"}
)


class Unforeseeable(Exception):
    """More decides what the file does than can be told from here."""


def digest(path: Path) -> str | None:
    """Of all that decides the verdict on a file; None if that cannot be told."""
    sources: dict[Path, bytes] = {}
    try:
        _collect(path, sources)
    except (OSError, SyntaxError, ValueError, Unforeseeable):
        return None
    total = hashlib.sha256(_judge_digest())
    for each in sorted(sources):
        total.update(repr((each.name, sources[each])).encode())
    return total.hexdigest()


def is_solved(path: Path) -> bool:
    """Whether the file, as it is now, was found solved."""
    found = digest(path)
    return found is not None and _read().get(_name(path)) == found


def remember(path: Path, judged: str | None) -> None:
    """Remember that the file is solved, unless it has changed since ``judged`` was its digest.

    None forgets it. What cannot be written is not remembered.
    """
    kept = _read()
    before = kept.pop(_name(path), None)
    if judged is not None and judged == digest(path):
        kept[_name(path)] = judged
    if kept.get(_name(path)) == before:
        return
    place = _place()
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        written = place.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        written.replace(place)


def _collect(path: Path, sources: dict[Path, bytes]) -> None:
    """The file, and the files beside it that it imports, with what these import."""
    if path in sources:
        return
    sources[path] = path.read_bytes()
    for name in import_names(sources[path]):
        beside = path.with_name(f"{name}.py")
        if name in _KNOWN:
            continue
        if not beside.exists() or name in sys.stdlib_module_names:
            raise Unforeseeable
        _collect(beside, sources)


def import_names(source: bytes) -> Iterator[str]:
    """The modules that it imports, each by the first part of its name.

    Raises:
        SyntaxError: when it is not Python; or ValueError.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0] if node.level == 0 else ""


@functools.cache
def _judge_digest() -> bytes:
    """A digest of what judges."""
    versions = (sys.version, platform.machine(), torch.__version__, np.__version__)
    total = hashlib.sha256(repr(versions).encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        total.update(path.read_bytes())
    return total.digest()


def _name(path: Path) -> str:
    return str(path.resolve())


def _place() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "attnref" / "solved.json"


def _read() -> dict[str, str]:
    """By the files' names the digests that were solved; empty if there is nothing to be read."""
    try:
        kept = json.loads(_place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
