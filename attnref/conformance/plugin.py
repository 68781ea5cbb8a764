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
from attnref.conformance.naming import judge_named
from attnref.conformance.project import NAME, project
from attnref.conformance.reading import Reading
from attnref.conformance.request import Request
from attnref.conformance.result import Result
from attnref.conformance.settings import BOOLEAN, SETTINGS, Settings, parse
from attnref.conformance.subject import CheckError, Subject
from attnref.conformance.verdict import Verdict
from attnref.text import LANGUAGES, one_of, preferred_language


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for each setting, and the language."""
    group, lang = parser.getgroup("attnref"), preferred_language(os.environ)
    group.addoption("--attention-lang", help="default: that of the locale")
    for each in SETTINGS:
        about: dict[str, Any] = {"dest": f"attention_{each.name}", "help": each.help.say(lang)}
        flags = each.flags("--attention-")
        if each.kind is BOOLEAN:
            for flag, value in zip(flags, (True, False), strict=True):
                group.addoption(flag, action="store_const", const=value, **about)
        else:
            several = each.typed == list[str]
            about |= {"action": "append"} if several else {"type": each.typed}
            group.addoption(*flags, metavar=each.spelled.upper(), **about)


class Attention(pytest.Collector):
    """A function, whose properties are collected."""

    about: Subject
    reading: Reading
    settings: Settings
    lang: str

    def load(self, request: Request) -> None:
        """The function, and how it is read, once for all items."""
        load = functools.cache(request.load)
        # First in a process of its own: what hangs or ends it there would end all tests here.
        judge_named(self.name, load, lambda loaded: None, request.settings.limit)
        self.about, self.settings = load()
        self.reading, _ = recognise(self.about, self.settings)

    def collect(self) -> Iterator[pytest.Item]:
        """One item per property, in their order."""
        for name in self.settings.property_names:
            yield Item.from_parent(self, name=name)


class Item(pytest.Item):
    """One property of the function; what is not offered is skipped."""

    parent: Attention

    def runtest(self) -> None:
        """Asks about this property alone."""
        settings = replace(self.parent.settings, only=[self.name], skip=())
        (result,) = judge(self.parent.about, settings, self.parent.reading).results
        lang = self.parent.lang
        self.user_properties.append(("verdict", result.verdict.value))
        if result.fails(settings.strict):
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
        return "\n".join([result.line(lang), *result.details(lang, self.parent.name)])

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
    option = vars(session.config.option)
    target = option["attention"]
    asked = option["attention_lang"] or preferred_language(os.environ)
    lang = asked if asked in LANGUAGES else preferred_language(os.environ)
    nodes = []
    try:
        if asked != lang:
            raise CheckError(one_of("lang", LANGUAGES, asked))
        said = parse({each.name: option.get(f"attention_{each.name}") for each in SETTINGS})
        ours = project(None if target == NAME else target)
        with contextlib.chdir(ours.folder):
            for request in ours.requests:
                target = request.function
                node = Attention.from_parent(session, name=target, nodeid=target)
                node.lang = lang
                node.load(request.with_options(said))
                nodes.append(node)
    except (CheckError, RuntimeError) as error:
        about = f"{target}: " if option["attention"] == NAME and target != NAME else ""
        told = error.say(lang) if isinstance(error, CheckError) else str(error)
        raise pytest.UsageError(f"--attention, {about}{told}") from None
    for node in nodes:
        items.extend(session.genitems(node))
