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


@dataclass(frozen=True, kw_only=True)
class RankResult(Result):
    """One method on so many ranks, each with so many threads; n is the length of the whole.

    Times are those of the slowest rank, and memory is that of the one that holds most.
    ``messages`` is the time of what it sends, alone, and ``cores`` how many processor cores all
    ranks together kept busy while it ran; None where that is not known.
    """

    ranks: int
    threads: int
    messages: float | None
    cores: float | None

    def speed_against(self, other: "RankResult") -> float:
        """How many times as many pairs of query and key a second; each sees those up to its own."""
        pairs = self.n * (self.n + 1) / (other.n * (other.n + 1))
        return pairs * other.median / self.median


@dataclass(frozen=True)
class Skipped:
    """What was not measured, and why; n is None where it was not tried at any length."""

    task: str
    method: str
    n: int | None
    reason: str


@dataclass(frozen=True)
class RankSkipped(Skipped):
    """What was not measured on so many ranks; None where on no number of them."""

    ranks: int | None


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

    def rank_results(self) -> list[RankResult]:
        """The results of a measurement across ranks; none of any other."""
        return [result for result in self.results if isinstance(result, RankResult)]

    def single_rank_result(self, result: RankResult) -> RankResult | None:
        """The same method with as many threads on one rank, at the same n of the task."""
        n = result.n // result.ranks if result.task == "weak" else result.n
        wanted = (result.task, result.method, result.threads, 1, n)
        same = (
            x for x in self.rank_results() if (x.task, x.method, x.threads, x.ranks, x.n) == wanted
        )
        return next(same, None)

    def tasks(self) -> list[str]:
        """In the order of measurement."""
        return list(dict.fromkeys(result.task for result in self.results))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> "Record":
        stored = json.loads(path.read_text(encoding="utf-8"))
        results = [
            RankResult(**result) if "ranks" in result else Result(**result)
            for result in stored.pop("results")
        ]
        skipped = [
            RankSkipped(**skip) if "ranks" in skip else Skipped(**skip)
            for skip in stored.pop("skipped")
        ]
        return cls(**stored, results=results, skipped=skipped)


_CASES = "attnref.bench.cases"


def entry(module: str, name: str, called: list[str], cases: str = _CASES) -> dict[str, Any]:
    """Where a method is defined, the functions of ``cases`` that call it, and their code."""
    digest = fingerprint((module, name), *((cases, function) for function in called))
    kept = {"module": module, "name": name, "called": called, "fingerprint": digest}
    return kept if cases == _CASES else kept | {"cases": cases}


def stale_methods(record: Record) -> list[str]:
    """The measured methods whose code has changed since, or is gone; docstrings do not count."""
    changed = []
    for method, place in record.code.items():
        try:
            now = entry(
                place["module"],
                place["name"],
                place.get("called", []),
                place.get("cases", _CASES),
            )["fingerprint"]
        except (ModuleNotFoundError, ValueError):
            now = "gone"
        if now != place["fingerprint"]:
            changed.append(method)
    return changed
