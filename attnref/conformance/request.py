"""What to ask of which function, and how the tables of a ``pyproject.toml`` say so."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from attnref.conformance.checker import Told, find_subject, judge
from attnref.conformance.loading import load, load_beside
from attnref.conformance.naming import judge_named
from attnref.conformance.report import Report
from attnref.conformance.settings import (
    PROPERTY,
    SETTINGS,
    TABLE,
    Kind,
    Option,
    Settings,
    check_known,
)
from attnref.conformance.subject import CheckError, Subject
from attnref.conformance.verdict import Expectation, Verdict
from attnref.text import Text

SECTION = ("tool", "attnref", "check")
Place = tuple[str, ...]  # a file, and keys

NO_NAME = Text(
    "{place}: {name!r} is not the name of a function in quotes, module:function or "
    'path/to/file.py:function. Write for example [tool.attnref.check."my:attention"].'
)
AT = Text("{place}: {error}")
KEY = Text("the name of a key")
VERDICT = Text("a verdict")
OF_KIND = Text("{place}: expected {kind}, got {value}. Write for example {key} = {example}")
NO_REASON = Text(
    '{place}: the reason why this is accepted is missing. Write for example reason = "each of '
    'our queries has a key"'
)
LEFT_OUT = Text(
    "{place}: only or skip leaves this property out, so it is not tested. Remove it here or there."
)
_ENTRY = {"verdict": "unsafe", "reason": "…"}
_OF_ENTRY = [Option(example, name=name) for name, example in _ENTRY.items()]
_EXPECT = Option({"fully_masked": _ENTRY}, name="expect")
VERDICTS = {verdict.value: verdict for verdict in Verdict if verdict is not Verdict.PASS}


@dataclass(frozen=True)
class Request:
    """A function by its name, and what is said of it."""

    function: str
    settings: Settings = field(default_factory=Settings)

    def with_options(self, said: Mapping[str, Any]) -> Self:
        """The same, where options do not say otherwise."""
        return replace(self, settings=replace(self.settings, **said))

    def load(self) -> tuple[Subject, Settings]:
        """The function as it is asked, and the settings with the functions that they name.

        Raises:
            CheckError: when one is not found, or does not fit what is said of it.
        """
        function, settings = load(self.function), self.settings
        for setting in ("cache", "against"):
            named = getattr(settings, setting)
            if named is not None:
                found = load_beside(named, self.function, setting)
                settings = replace(settings, **{setting: found})
        return find_subject(function, settings, self.function), settings

    def report(self, told: Told | None = None) -> Report:
        """What is found, in a process of its own where there is a fork.

        What is about to be asked is ``told``.

        Raises:
            CheckError: when it cannot be loaded or asked.
            RuntimeError: when something broke that is not the function.
        """

        def ask(loaded: tuple[Subject, Settings], **telling: Any) -> Report:
            return judge(*loaded, **telling)

        return judge_named(self.function, self.load, ask, self.settings.limit, told)


def read_requests(file: str, found: Mapping[str, object]) -> list[Request]:
    """What the tables of a file ask for; nothing where the section is missing.

    Raises:
        CheckError: naming the file, the table and the key, what was expected there and what came.
    """
    table, place = dict(found), Place()
    for depth, name in enumerate(SECTION, 1):
        place = (file, *SECTION[:depth])
        table = _table(table.get(name, {}), place)
        for key in table if name == "attnref" else ():
            check_known(_location(place), key, SECTION[depth:], KEY)
    return [_request(name, said, (*place, name)) for name, said in table.items()]


def _request(name: str, table: object, place: Place) -> Request:
    if not all(name.rpartition(":")):
        raise _refusal(NO_NAME, place[:-1], name=name)
    said = _table(table, place, [*SETTINGS, _EXPECT])
    of_expect = (*place, "expect")
    expect = {
        key: _expectation(entry, (*of_expect, key)) for key, entry in said.pop("expect", {}).items()
    }
    try:
        settings = Settings(**said, expect=expect)
    except CheckError as error:
        at = _location(place)
        raise CheckError(AT.fill({"place": at, "error": error.text})) from None
    for key in expect:
        check_known(_location(of_expect), key, settings.rules, PROPERTY)
        if key not in settings.property_names:
            raise _refusal(LEFT_OUT, (*of_expect, key))
    return Request(name, settings)


def _expectation(entry: object, place: Place) -> Expectation:
    said = _table(entry, place, _OF_ENTRY, _ENTRY)
    verdict, reason = said.get("verdict", ""), said.get("reason", "").strip()
    check_known(_location((*place, "verdict")), verdict, VERDICTS, VERDICT)
    if not reason:
        raise _refusal(NO_REASON, place)
    return Expectation(VERDICTS[verdict], reason)


def _table(
    value: object, place: Place, options: Sequence[Option] = (), example: object = ()
) -> dict[str, Any]:
    """What a table says, by the names of the options, if there are any, and then nothing else."""
    _check_kind(value, TABLE, place, example)
    assert isinstance(value, dict)
    known = {option.spelled: option for option in options}
    for key, item in value.items() if options else ():
        check_known(_location(place), key, known, KEY)
        _check_kind(item, known[key].kind, (*place, key), known[key].example)
    return {known[key].name if options else key: item for key, item in value.items()}


def _check_kind(value: object, kind: Kind, place: Place, example: object) -> None:
    if not kind.fits(value):
        about = {"kind": kind.said, "key": place[-1], "example": _toml(example)}
        raise _refusal(OF_KIND, place, value=repr(value), **about)


def _refusal(text: Text, place: Place, **about: object) -> CheckError:
    return CheckError(text.fill({**about, "place": _location(place)}))


def _location(place: Place) -> str:
    """The file and the keys that lead to a value in it."""
    file, *keys = place
    return f"{file}, " + ".".join(
        key if key.replace("-", "_").isidentifier() else f'"{key}"' for key in keys
    )


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    return "{ … }" if value == () else json.dumps(value, ensure_ascii=False)
