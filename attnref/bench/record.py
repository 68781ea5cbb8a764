"""What a measurement leaves behind: a record in JSON, which knows when it is stale."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attnref.bench.fingerprint import fingerprint


@dataclass(frozen=True, kw_only=True)
class Result:
    """One method at one length; times in seconds per call, error as in ``relative_error``."""

    task: str
    method: str
    n: int
    query: list[int]
    key: list[int]
    median: float
    lower: float
    upper: float
    samples: int
    error: float
    peak_bytes: int
    sdpa_backend: str


@dataclass(frozen=True)
class Skipped:
    """What was not measured, and why; n is None where it was not tried at any length."""

    task: str
    method: str
    n: int | None
    reason: str


@dataclass(frozen=True)
class Record:
    """All of one measurement.

    ``code`` says for each method of the package where it is defined, what calls it and what the
    fingerprint of both was: how many features or landmarks it gets is said by its caller.
    """

    provenance: dict[str, Any]
    settings: dict[str, Any]
    code: dict[str, dict[str, Any]]
    results: list[Result] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def tasks(self) -> list[str]:
        """In the order of measurement."""
        return list(dict.fromkeys(result.task for result in self.results))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> "Record":
        stored = json.loads(path.read_text(encoding="utf-8"))
        results = [Result(**result) for result in stored.pop("results")]
        skipped = [Skipped(**skip) for skip in stored.pop("skipped")]
        return cls(**stored, results=results, skipped=skipped)


def entry(module: str, name: str, called: list[str]) -> dict[str, Any]:
    """Where a method is defined, the functions of this package that call it, and their code."""
    callers = [("attnref.bench.cases", function) for function in called]
    digest = fingerprint((module, name), *callers)
    return {"module": module, "name": name, "called": called, "fingerprint": digest}


def stale(record: Record) -> list[str]:
    """The measured methods whose code has changed since, or is gone; docstrings do not count."""
    changed = []
    for method, place in record.code.items():
        try:
            now = entry(place["module"], place["name"], place.get("called", []))["fingerprint"]
        except (ModuleNotFoundError, ValueError):
            now = "gone"
        if now != place["fingerprint"]:
            changed.append(method)
    return changed
