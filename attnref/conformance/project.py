"""``[tool.attnref]`` of a ``pyproject.toml``: what a project has judged, and what it expects."""

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attnref.conformance.request import Request
from attnref.conformance.subject import CheckError
from attnref.conformance.verdict import Expectation, Verdict

NAME = "pyproject.toml"
EXAMPLE = """\
[tool.attnref.check."my_package.attention:attention"]
skip = ["memory_growth"]

[tool.attnref.check."my_package.attention:attention".expect.fully_masked]
verdict = "unsafe"
reason = "no row of ours is masked throughout"
"""


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _named(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# The field of a request, what the value must be, and its test, by the key.
_KEYS: Mapping[str, tuple[str, str, Callable[[object], bool]]] = {
    "supports": ("supports", "a list of names", _words),
    "map": ("names", "a table of names", _named),
    "layout": ("layout", "a name", lambda value: isinstance(value, str)),
    "mask-means": ("mask_means", "a name", lambda value: isinstance(value, str)),
    "always-causal": ("always_causal", "true or false", lambda value: isinstance(value, bool)),
    "approximate": ("approximate", "true or false", lambda value: isinstance(value, bool)),
    "step": ("step", "true or false", lambda value: isinstance(value, bool)),
    "cache": ("cache", "module:function", lambda value: isinstance(value, str)),
    "with": ("given", "a table", lambda value: isinstance(value, dict)),
    "only": ("only", "a list of properties", _words),
    "skip": ("skip", "a list of properties", _words),
    "strict": ("strict", "true or false", lambda value: isinstance(value, bool)),
    "dtype": ("dtype", "a name", lambda value: isinstance(value, str)),
    "device": ("device", "a name", lambda value: isinstance(value, str)),
    "seed": ("seed", "a whole number", lambda value: type(value) is int),
    "limit": ("limit", "a number of seconds", _number),
    "expect": ("expect", "a table of properties", lambda value: isinstance(value, dict)),
}
_LEVELS = [verdict.value for verdict in Verdict if verdict is not Verdict.PASS]


def find(start: Path) -> Path:
    """The ``pyproject.toml`` of ``start``, or of the nearest folder above it.

    Raises:
        CheckError: when there is none.
    """
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return folder / NAME
    raise CheckError(
        f"function: expected one, or a {NAME} that says what to check, and there is none in "
        f"{str(start)!r} or above it. Name a function, or write one with\n\n{EXAMPLE}"
    )


def requests(file: Path) -> list[Request]:
    """What ``[tool.attnref.check]`` of ``file`` asks for, in its order.

    Raises:
        CheckError: naming the file, the table, the key, what was expected and what came.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckError(f"{file}: expected a file of TOML that can be read: {error}.") from None
    section = content.get("tool", {}).get("attnref", {})
    _known(file, "tool.attnref", section, ("check",))
    tables = section.get("check")
    if not tables or not isinstance(tables, dict):
        raise CheckError(
            f"{file}: expected what to check, or the name of a function, and it says nothing. "
            f"Write for example\n\n{EXAMPLE}"
        )
    return [_request(file, function, table) for function, table in tables.items()]


def _request(file: Path, function: str, table: object) -> Request:
    place = f'tool.attnref.check."{function}"'
    if not isinstance(table, dict):
        raise CheckError(
            f"{file}: expected a table in [{place}], got {table!r}. Names with a colon or a dot "
            'are quoted: [tool.attnref.check."module:function"].'
        )
    _known(file, place, table, _KEYS)
    fields: dict[str, Any] = {}
    for key, value in table.items():
        name, kind, fits = _KEYS[key]
        if not fits(value):
            raise CheckError(f"{file}: {key} in [{place}]: expected {kind}, got {value!r}.")
        fields[name] = value
    expected = fields.get("expect", {})
    fields["expect"] = {name: _expectation(file, place, name, expected[name]) for name in expected}
    try:
        return Request(function, **fields)
    except CheckError as error:
        raise CheckError(f"{file}: [{place}] {error}") from None


def _expectation(file: Path, place: str, name: str, table: object) -> Expectation:
    place = f"{place}.expect.{name}"
    if not isinstance(table, dict):
        raise CheckError(
            f'{file}: expected a table in [{place}], such as {{ verdict = "unsafe", reason = '
            f'"…" }}, got {table!r}.'
        )
    _known(file, place, table, ("verdict", "reason"))
    level, reason = table.get("verdict"), table.get("reason")
    if level not in _LEVELS:
        raise CheckError(
            f"{file}: verdict in [{place}]: expected one of {', '.join(_LEVELS)}, got {level!r}. "
            "What passes needs no entry."
        )
    if not isinstance(reason, str) or not reason.strip():
        raise CheckError(
            f"{file}: reason in [{place}]: expected why that is accepted, got {reason!r}. Whoever "
            "reads it later wants to know."
        )
    return Expectation(Verdict(level), reason.strip())


def _known(file: Path, place: str, table: object, names: Iterable[str]) -> None:
    names = list(names)
    for key in table if isinstance(table, dict) else ():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f" Is it {near[0]}?" if near else f" There are: {', '.join(names)}."
            raise CheckError(f"{file}: expected a key that exists in [{place}], got {key!r}.{hint}")
