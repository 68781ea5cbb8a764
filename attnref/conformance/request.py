"""What to ask of which function, as a command line or a file says it."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnref.conformance.checker import LIMIT, check_settings, chosen, judge, rules_of
from attnref.conformance.layers import judged
from attnref.conformance.naming import judge_named
from attnref.conformance.property import Property
from attnref.conformance.reading import Reading, check_reading
from attnref.conformance.report import Report
from attnref.conformance.step import load_step, step_subject
from attnref.conformance.subject import CheckError, Subject, load
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
        check_reading(self._said)
        check_settings(**self._settings, rules=self._rules)
        for name in self.expect:
            if name not in self._rules:
                raise CheckError(
                    f"expect: expected names of properties, got {name!r}. There are: "
                    f"{', '.join(self._rules)}."
                )

    @property
    def _is_step(self) -> bool:
        return self.step or self.cache is not None

    @property
    def _rules(self) -> Mapping[str, Property]:
        return rules_of(self._is_step)

    @property
    def _said(self) -> Reading:
        options = {
            option: own
            for option, own in self.names.items()
            if not self._is_step or option != "cache"
        }
        return Reading(
            options,
            self.layout,
            self.mask_means,
            causal=self.always_causal,
            approximate=self.approximate,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        only = self.only
        if self.skip:
            skipped = chosen(self.skip, self._rules)
            only = [name for name in chosen(only, self._rules) if name not in skipped]
        return {
            "only": only,
            "dtype": self.dtype,
            "device": self.device,
            "seed": self.seed,
            "limit": self.limit,
        }

    def _find(self) -> Subject:
        if self._is_step:
            found, makes = load_step(self.function, self.cache)
            return step_subject(found, makes, self.supports, self.function, dict(self.names))
        return judged(
            load(self.function), self.supports, self.function, dict(self.names), dict(self.given)
        )

    def report(self) -> Report:
        """What is found, beside what was expected, in a process of its own where there is a fork.

        Raises:
            CheckError: when it cannot be loaded or asked.
            RuntimeError: when something broke that is not the function.
        """
        ask = functools.partial(judge, said=self._said, **self._settings)
        report = judge_named(self.function, self._find, ask, self.limit)
        results = (
            replace(result, expectation=self.expect.get(result.property))
            for result in report.results
        )
        return replace(report, results=tuple(results))
