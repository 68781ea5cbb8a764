"""The check itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from attnref.conformance.examination import examine
from attnref.conformance.properties import PROPERTIES
from attnref.conformance.property import Property
from attnref.conformance.report import Report, Result
from attnref.conformance.subject import Subject, SubjectError, subject
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding, Verdict

DTYPES = ("float32", "float64", "bfloat16", "float16")


def check(
    function: Callable[..., Any],
    *,
    supports: Sequence[str] | None = None,
    only: Iterable[str] | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    limit: float | None = 10.0,
) -> Report:
    """Judges an attention function."""
    return run(subject(function, supports), only=only, dtype=dtype, device=device, seed=seed, limit=limit)


def run(
    about: Subject,
    *,
    only: Iterable[str] | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    limit: float | None = 10.0,
) -> Report:
    trial = Trial(about, getattr(torch, dtype), torch.device(device))
    results = []
    for prop in chosen(only):
        finding = examine(prop, trial, seed)
        results.append(Result(prop, finding or Finding(Verdict.PASS, prop.statement)))
    return Report(about.name, dtype, device, seed, tuple(results))


def chosen(only: Iterable[str] | None) -> tuple[Property, ...]:
    """The properties of these names, in their own order."""
    if only is None:
        return tuple(PROPERTIES.values())
    names = tuple(only)
    unknown = [name for name in names if name not in PROPERTIES]
    if unknown:
        raise SubjectError(
            f"only: expected names of properties, got {unknown[0]!r}. There are: "
            f"{', '.join(PROPERTIES)}."
        )
    return tuple(prop for name, prop in PROPERTIES.items() if name in names)
