"""Notices that a file has been saved."""

import time
from pathlib import Path

_PAUSE = 0.2  # seconds between two looks

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Another one after each save; None while there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def wait_for_save(path: Path, before: Stamp | None) -> None:
    """Until the file is another one than when its stamp was ``before``.

    An editor may delete the file first, or empty it: that is no save yet, so what is new has to
    stay the same for a moment.
    """
    last = before
    while (now := stamp(path)) in (None, before) or now != last:
        last = now
        time.sleep(_PAUSE)
