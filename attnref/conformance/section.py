"""The tables of a ``pyproject.toml`` that say what to check, read with care."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from attnref.conformance.request import Request
from attnref.conformance.subject import CheckError
from attnref.conformance.verdict import Expectation, Verdict
from attnref.text import Text

SECTION = ("tool", "attnref", "check")

NO_NAME = Text(
    en="{place}: {name} is not the name of a function in quotes, module:function or "
    'path/to/file.py:function. Write for example [tool.attnref.check."my:attention"].',
    pt="{place}: {name} não é o nome de uma função entre aspas, módulo:função ou "
    'caminho/do/arquivo.py:função. Escreva, por exemplo, [tool.attnref.check."meu:atencao"].',
)
UNKNOWN = Text(
    en="{place}: {name} is not {what}. {remedy}",
    pt="{place}: {name} não é {what}. {remedy}",
)
KEY = Text(en="the name of a key", pt="o nome de uma chave")
PROPERTY = Text(en="the name of a property", pt="o nome de uma propriedade")
VERDICT = Text(en="a verdict", pt="um veredito")
NEAR = Text(en="Did you mean {name}?", pt="Seria {name}?")
THERE = Text(en="There are: {names}.", pt="Existem: {names}.")
OF_KIND = Text(
    en="{place}: expected {kind}, got {value}. Write for example {key} = {example}",
    pt="{place}: o valor deve ser {kind}, mas é {value}. Escreva, por exemplo, {key} = {example}",
)
NO_REASON = Text(
    en='{place}: the reason why this is accepted is missing. Write for example reason = "each of '
    'our queries has a key"',
    pt='{place}: falta a razão de aceitar isso. Escreva, por exemplo, reason = "cada consulta '
    'nossa tem uma chave"',
)
IN_A_REQUEST = Text(en="{place}: {error}", pt="{place}: {error}")
LEFT_OUT = Text(
    en="{place}: only or skip leaves this property out, so it is not tested. Remove it here or "
    "there.",
    pt="{place}: only ou skip deixa esta propriedade de fora, e ela não é testada. Tire-a daqui "
    "ou de lá.",
)


class _Kind(NamedTuple):
    """What the value of a key must be, and an example of it."""

    said: Text
    is_one: Callable[[object], bool]
    example: str


def _are_strings(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_STRING = Text(en="a string", pt="um texto")
_STRINGS = Text(en="a list of strings", pt="uma lista de textos")
_BOOLEAN = _Kind(
    Text(en="true or false", pt="true ou false"), lambda value: isinstance(value, bool), "true"
)
_TABLE = Text(en="a table", pt="uma tabela")


def _string(example: str) -> _Kind:
    return _Kind(_STRING, lambda value: isinstance(value, str), f'"{example}"')


def _strings(example: str) -> _Kind:
    return _Kind(
        _STRINGS, lambda value: isinstance(value, list) and _are_strings(value), f'["{example}"]'
    )


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


_ENTRY = '{ verdict = "unsafe", reason = "…" }'
# The keys of a function, each with the field of its settings.
KEYS = {
    "supports": ("supports", _strings("attn_mask")),
    "map": (
        "names",
        _Kind(
            Text(en="a table of strings", pt="uma tabela de textos"),
            lambda value: isinstance(value, dict) and _are_strings(value.values()),
            '{ attn_mask = "mask" }',
        ),
    ),
    "layout": ("layout", _string("bnhd")),
    "mask-means": ("mask_means", _string("forbidden")),
    "always-causal": ("always_causal", _BOOLEAN),
    "approximate": ("approximate", _BOOLEAN),
    "step": ("step", _BOOLEAN),
    "cache": ("cache", _string("my_module:Cache")),
    "with": ("given", _Kind(_TABLE, _is_table, "{ block_size = 256 }")),
    "only": ("only", _strings("scale")),
    "skip": ("skip", _strings("memory_growth")),
    "strict": ("strict", _BOOLEAN),
    "dtype": ("dtype", _string("bfloat16")),
    "device": ("device", _string("cuda")),
    "seed": (
        "seed",
        _Kind(
            Text(en="a whole number", pt="um número inteiro"),
            lambda value: _is_number(value) and not isinstance(value, float),
            "0",
        ),
    ),
    "limit": ("limit", _Kind(Text(en="a number", pt="um número"), _is_number, "10")),
    "expect": ("expect", _Kind(_TABLE, _is_table, f"{{ fully_masked = {_ENTRY} }}")),
}
VERDICTS = {verdict.value: verdict for verdict in Verdict if verdict is not Verdict.PASS}


class Reader:
    """Reads the tables of a file, and says what is wrong in them."""

    def __init__(self, file: str) -> None:
        self.file = file

    def requests(self, found: Mapping[str, object]) -> list[Request]:
        """What is asked for; nothing where the section is missing."""
        table = dict(found)
        for depth, name in enumerate(SECTION, 1):
            table = self.table(table.get(name, {}), SECTION[:depth])
            if name == "attnref":
                self.check_keys(table, SECTION[:depth], SECTION[depth:])
        return [self.request(name, said) for name, said in table.items()]

    def request(self, name: str, table: object) -> Request:
        """What is said of a function."""
        place = (*SECTION, name)
        if not all(name.rpartition(":")):
            self.refuse(NO_NAME, SECTION, name=repr(name))
        said = self.table(table, place)
        self.check_keys(said, place, KEYS)
        for key, value in said.items():
            self.check_kind(value, (*place, key), KEYS[key][1])
        fields = {KEYS[key][0]: value for key, value in said.items()}
        expected = fields.get("expect", {})
        fields["expect"] = {
            key: self.expectation(expected[key], (*place, "expect", key)) for key in expected
        }
        try:
            request = Request(name, **fields)
        except CheckError as error:
            raise CheckError(IN_A_REQUEST, place=self.location(place), error=error) from None
        for key in expected:
            if key not in request.rules:
                self.refuse_unknown(key, (*place, "expect"), request.rules, PROPERTY)
            if key not in request.property_names:
                self.refuse(LEFT_OUT, (*place, "expect", key))
        return request

    def expectation(self, value: object, place: tuple[str, ...]) -> Expectation:
        """A verdict, and the reason for it."""
        self.check_kind(value, place, _Kind(_TABLE, _is_table, _ENTRY))
        said = self.table(value, place)
        self.check_keys(said, place, ("verdict", "reason"))
        for key, text in said.items():
            self.check_kind(text, (*place, key), _string("…" if key == "reason" else "unsafe"))
        verdict, reason = said.get("verdict", ""), said.get("reason", "").strip()
        if verdict not in VERDICTS:
            self.refuse_unknown(verdict, (*place, "verdict"), VERDICTS, VERDICT)
        if not reason:
            self.refuse(NO_REASON, place)
        return Expectation(VERDICTS[verdict], reason)

    def table(self, value: object, place: tuple[str, ...]) -> dict[str, Any]:
        """The value, if it is one."""
        self.check_kind(value, place, _Kind(_TABLE, _is_table, "{ … }"))
        assert isinstance(value, dict)
        return value

    def check_keys(
        self, table: Mapping[str, object], place: tuple[str, ...], known: Iterable[str]
    ) -> None:
        for key in table:
            if key not in known:
                self.refuse_unknown(key, place, known, KEY)

    def check_kind(self, value: object, place: tuple[str, ...], kind: _Kind) -> None:
        if not kind.is_one(value):
            about = {"value": repr(value), "key": place[-1], "example": kind.example}
            self.refuse(OF_KIND, place, kind=kind.said, **about)

    def refuse_unknown(
        self, name: str, place: tuple[str, ...], known: Iterable[str], what: Text
    ) -> NoReturn:
        close = difflib.get_close_matches(name, known, n=1)
        if close:
            remedy = NEAR.fill({"name": repr(close[0])})
        else:
            remedy = THERE.fill({"names": ", ".join(known)})
        self.refuse(UNKNOWN, place, what=what, name=repr(name), remedy=remedy)

    def refuse(self, text: Text, place: tuple[str, ...], **about: object) -> NoReturn:
        raise CheckError(text.fill({**about, "place": self.location(place)}))

    def location(self, place: tuple[str, ...]) -> str:
        """The file and the keys that lead to a value in it."""
        keys = [key if key.replace("-", "_").isidentifier() else f'"{key}"' for key in place]
        return f"{self.file}, {'.'.join(keys)}" if keys else self.file
