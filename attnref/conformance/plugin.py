"""The properties as items of a pytest run, one each, for what --attention names.

``pytest_attnref``, which pytest loads, registers this module when the option is given.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from attnref.conformance.checker import judge, recognise
from attnref.conformance.layers import literals
from attnref.conformance.naming import judge_named
from attnref.conformance.project import NAME, function_project, project
from attnref.conformance.reading import Reading
from attnref.conformance.request import Request
from attnref.conformance.result import Result
from attnref.conformance.subject import CheckError, Subject, parse_pairs, split_list
from attnref.conformance.verdict import Verdict
from attnref.text import LANGUAGES, one_of, preferred_language


class Attention(pytest.Collector):
    """A function, whose properties are collected."""

    about: Subject
    reading: Reading
    request: Request
    lang: str

    def load(self) -> None:
        """The function, and how it is read, once for all items."""
        request = self.request
        find = functools.cache(request.find)
        # First in a process of its own: what hangs or ends it there would end all tests here.
        judge_named(self.name, find, lambda about: None, request.limit)
        self.about = find()
        self.reading, _ = recognise(
            self.about,
            request.reading,
            dtype=request.dtype,
            device=request.device,
            limit=request.limit,
        )

    def collect(self) -> Iterator[pytest.Item]:
        """One item per property, in their order."""
        for name in self.request.property_names:
            yield Item.from_parent(self, name=name)


class Item(pytest.Item):
    """One property of the function; what is not offered is skipped."""

    parent: Attention

    def runtest(self) -> None:
        """Asks about this property alone."""
        request = self.parent.request
        report = judge(
            self.parent.about,
            self.parent.reading,
            only=[self.name],
            dtype=request.dtype,
            device=request.device,
            seed=request.seed,
            limit=request.limit,
        )
        (result,) = request.expecting(report).results
        lang = self.parent.lang
        self.user_properties.append(("verdict", result.verdict.value))
        if result.fails(request.strict):
            raise Failed(result)
        if result.expected:
            pytest.xfail(result.line(lang))
        if result.verdict in (Verdict.NOT_CLAIMED, Verdict.NOT_ASKED):
            pytest.skip(result.diagnosis(lang))
        if result.verdict is not Verdict.PASS:
            self.add_report_section("call", result.verdict.value, result.diagnosis(lang))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The diagnosis and the counterexample; the traceback only of what broke in here."""
        if not isinstance(excinfo.value, Failed):
            return super().repr_failure(excinfo, style)
        lang = self.parent.lang
        result = excinfo.value.result
        return "\n".join([result.line(lang), *result.details(lang)])

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """What the heading of a failure says."""
        return self.path, None, f"{self.parent.name} {self.name}"


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
    asked = option("attention_lang") or preferred_language(os.environ)
    lang = asked if asked in LANGUAGES else preferred_language(os.environ)
    nodes = []
    try:
        if asked != lang:
            raise CheckError(one_of("lang", LANGUAGES, asked))
        ours = project() if target == NAME else function_project(target)
        requests = [
            replace(request, **_request_options(session.config)) for request in ours.requests
        ]
        with contextlib.chdir(ours.folder):
            for request in requests:
                target = request.function
                node = Attention.from_parent(session, name=target, nodeid=target)
                node.request, node.lang = request, lang
                node.load()
                nodes.append(node)
    except (CheckError, RuntimeError) as error:
        about = f"{target}: " if option("attention") == NAME and target != NAME else ""
        said = error.say(lang) if isinstance(error, CheckError) else str(error)
        raise pytest.UsageError(f"--attention, {about}{said}") from None
    for node in nodes:
        items.extend(session.genitems(node))


def _request_options(config: pytest.Config) -> dict[str, Any]:
    """What the options say, by the fields of the request."""

    def option(name: str) -> Any:
        return config.getoption(f"attention_{name}")

    supports, names, given = option("supports"), option("map"), option("with")
    said = {
        "supports": supports if supports is None else split_list(supports),
        "names": names and parse_pairs(split_list(names)),
        "given": given and literals(given),
        "only": config.option.attention_only,
        "strict": option("strict") or None,
        **{name: option(name) for name in ("dtype", "device", "seed", "limit")},
    }
    return {name: value for name, value in said.items() if value is not None}
