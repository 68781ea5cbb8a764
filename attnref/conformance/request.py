"""What to ask of which function, as a command line or a file says it."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnref.conformance.checker import LIMIT, Told, check_settings, judge, select
from attnref.conformance.layers import make_subject
from attnref.conformance.loading import load
from attnref.conformance.naming import judge_named
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.property import Property
from attnref.conformance.reading import Reading, check_reading
from attnref.conformance.report import Report
from attnref.conformance.step_signature import load_step, step_subject
from attnref.conformance.subject import Subject
from attnref.conformance.verdict import Expectation


@dataclass(frozen=True)
class Request:
    """A function by its name, how it is read, what it is asked, and what is expected of it.

    The fields are the options of ``attnref check``; ``names`` are those of ``--map``, ``given``
    those of ``--with``. What is said is checked at once, before the function is loaded.

    Raises:
        CheckError: naming the option, what was expected and what came.
    """

    function: str
    supports: Sequence[str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    layout: str | None = None
    mask_means: str | None = None
    always_causal: bool | None = None
    approximate: bool = False
    step: bool = False
    cache: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] | None = None
    skip: Sequence[str] = ()
    strict: bool = False
    dtype: str | None = None
    device: str = "cpu"
    seed: int = 0
    limit: float = LIMIT
    expect: Mapping[str, Expectation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_reading(self.reading)
        check_settings(
            only=self.property_names,
            dtype=self.dtype,
            device=self.device,
            seed=self.seed,
            limit=self.limit,
            rules=self.rules,
        )

    @property
    def is_step(self) -> bool:
        """Whether it is a decoding step, which one with a cache is."""
        return self.step or self.cache is not None

    @property
    def rules(self) -> Mapping[str, Property]:
        """What it may be asked."""
        return STEP_PROPERTIES if self.is_step else PROPERTIES

    @property
    def property_names(self) -> list[str]:
        """The properties that it is asked: what is left of ``only``, or of all, without ``skip``.

        Raises:
            CheckError: naming one that there is not, or that nothing is left.
        """
        skipped = select(self.skip, self.rules, "skip") if self.skip else []
        left = [name for name in select(self.only, self.rules) if name not in skipped]
        return select(left, self.rules)

    @property
    def reading(self) -> Reading:
        """What is said of it."""
        options = {
            option: own
            for option, own in self.names.items()
            if not self.is_step or option not in ("cache", "position")
        }
        return Reading(
            options,
            self.layout,
            self.mask_means,
            causal=self.always_causal,
            approximate=self.approximate,
        )

    def find(self) -> Subject:
        """The function, as it is asked.

        Raises:
            CheckError: when it is not found, or does not fit what is said of it.
        """
        if self.is_step:
            found, makes = load_step(self.function, self.cache)
            return step_subject(found, makes, self.supports, self.function, self.names)
        return make_subject(
            load(self.function), self.supports, self.function, self.names, self.given
        )

    def report(self, told: Told | None = None) -> Report:
        """What is found, beside what was expected, in a process of its own where there is a fork.

        What is about to be asked is ``told``.

        Raises:
            CheckError: when it cannot be loaded or asked.
            RuntimeError: when something broke that is not the function.
        """
        ask = functools.partial(
            judge,
            said=self.reading,
            only=self.property_names,
            dtype=self.dtype,
            device=self.device,
            seed=self.seed,
            limit=self.limit,
        )
        return self.expecting(judge_named(self.function, self.find, ask, self.limit, told))

    def expecting(self, report: Report) -> Report:
        """The same report, beside what was expected of what is asked."""
        results = (
            replace(result, expectation=self.expect.get(result.property))
            for result in report.results
        )
        return replace(report, results=tuple(results))
