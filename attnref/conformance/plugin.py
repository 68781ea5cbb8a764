"""The properties as items of a pytest run, one each, for the function that --attention names.

``pytest_attnref``, which pytest loads, registers this module when the option is given.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from attnref.conformance.checker import check_settings, chosen, judge, recognise
from attnref.conformance.layers import judged, literals
from attnref.conformance.naming import judge_named
from attnref.conformance.reading import Reading
from attnref.conformance.report import Result
from attnref.conformance.subject import CheckError, Subject, listed, load, paired
from attnref.conformance.text import preferred
from attnref.conformance.verdict import Verdict


class Attention(pytest.Collector):
    """A function, whose properties are collected."""

    about: Subject
    reading: Reading
    names: list[str]
    settings: dict[str, Any]
    lang: str

    def collect(self) -> Iterator[pytest.Item]:
        """One item per property, in their order."""
        for name in self.names:
            yield Item.from_parent(self, name=name)


class Item(pytest.Item):
    """One property of the function; what is not offered is skipped."""

    parent: Attention

    def runtest(self) -> None:
        """Asks about this property alone."""
        report = judge(
            self.parent.about, self.parent.reading, only=[self.name], **self.parent.settings
        )
        (result,) = report.results
        lang = self.parent.lang
        self.user_properties.append(("verdict", result.verdict.value))
        if result.verdict in (Verdict.NOT_CLAIMED, Verdict.NOT_ASKED):
            pytest.skip(result.diagnosis(lang))
        if not report.passed(self.config.getoption("attention_strict")):
            raise Failed(result)
        if result.verdict is not Verdict.PASS:
            self.add_report_section("call", result.verdict.value, result.diagnosis(lang))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The diagnosis and the counterexample; the traceback only of what broke in here."""
        if not isinstance(excinfo.value, Failed):
            return super().repr_failure(excinfo, style)
        lang = self.parent.lang
        result = excinfo.value.result
        return "\n".join([result.diagnosis(lang), *result.details(lang)])

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """What the heading of a failure says."""
        return self.path, None, f"{self.parent.name} {self.name}"


def _recognised(
    about: Subject, said: Reading, *, dtype: str | None, device: str, seed: int, limit: float
) -> Reading:
    """Once for all items."""
    return recognise(about, said, dtype=dtype, device=device, limit=limit)[0]


class Failed(Exception):
    """A property that failed; ``result`` says why."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.diagnosis())
        self.result = result


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the items
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Adds the properties to whatever else was collected."""
    option = session.config.getoption
    target = option("attention")
    node = Attention.from_parent(session, name=target, nodeid=target)
    try:
        supports = option("attention_supports")
        offered = None if supports is None else listed(supports)
        settings = ("dtype", "device", "seed", "limit")
        node.settings = {name: option(f"attention_{name}") for name in settings}
        names = paired(listed(option("attention_map") or ""))
        check_settings(only=None, **node.settings)
        node.names = chosen(session.config.option.attention_only)
        given = literals(option("attention_with") or [])
        find = functools.cache(lambda: judged(load(target), offered, target, names, given))
        # First in a process of its own: what hangs or ends it there would end all tests here.
        judge_named(target, find, lambda about: None, node.settings["limit"])
        node.about = find()
        node.reading = _recognised(node.about, Reading(names), **node.settings)
    except (CheckError, RuntimeError) as error:
        raise pytest.UsageError(f"--attention, {error}") from None
    node.lang = option("attention_lang") or preferred(os.environ)
    items.extend(session.genitems(node))
