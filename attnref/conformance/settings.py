"""What can be said of a check, each setting once.

A field of :class:`Settings` is an option of the command line and of pytest, a key of
``pyproject.toml`` and an argument in Python, and says what is wrong with a value of it.
"""

import ast
import difflib
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import torch

from attnref.conformance.formula import Factor, Formula
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.meanings import MEANINGS
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.conformance.property import Property
from attnref.conformance.reading import Reading
from attnref.conformance.signatures import OPTIONS
from attnref.conformance.step import SIZES
from attnref.conformance.subject import CheckError
from attnref.conformance.verdict import Expectation
from attnref.text import Text, one_of

UNKNOWN = Text("{place}: {name} is not {what}. {remedy}")
NEAR = Text("Did you mean {name}?")
THERE = Text("There are: {names}.")
PROPERTY = Text("the name of a property")
CONVENTION = Text("the name of a convention")
CHOICE = Text("a choice of {name}")
NONE_NAMED = Text("only: no property is named. Name at least one, or leave it out to test all.")
NO_PAIR = Text("{setting}: {pair!r} is not {what}. Write for example {example}.")
PAIR = Text("name=value")
LITERAL = Text("name=value, with a value as Python writes it")
POSITIVE = Text("{name}: expected a positive, finite number{unit}, got {got}.")
SECONDS = Text(" of seconds")
NO_BOUND = Text(
    "bound: there is no error to limit. Say approximate or against too, or leave it out."
)
NO_FACTOR = Text(
    "scale: {said!r} is neither a number nor a function of d_k in Python: {error}. Write for "
    "example 0.0722 or 'lambda d: 0.1147 / d ** 0.5'."
)
NO_DEVICE = Text("device: {name!r} is not the name of a device. Write cpu, cuda or cuda:1.")

DTYPES = ("float32", "float64", "bfloat16", "float16")
LIMIT = 10.0
DEMANDS: Mapping[str, tuple[str, ...]] = {
    each.convention: tuple(each.choices.values())
    for each in (STEP_PROPERTIES | PROPERTIES).values()
    if each.convention is not None
}
"""The conventions that can be demanded, each with its choices."""

_SEEDS = 2**63
_NOWHERE = torch.device("meta")
_OF_STEPS = [name for name in STEP_PROPERTIES if name not in PROPERTIES]


class Kind(NamedTuple):
    """What a value may be in a file; ``items`` is what those of a list or a table must be."""

    said: Text
    types: tuple[type, ...]
    items: type = object

    def fits(self, value: Any) -> bool:
        """Whether it is one."""
        items = value.values() if isinstance(value, dict) else value
        return type(value) in self.types and (
            self.items is object or all(isinstance(each, self.items) for each in items)
        )


STRING = Kind(Text("a string"), (str,))
STRINGS = Kind(Text("a list of strings"), (list,), str)
PAIRS = Kind(Text("a table of strings"), (dict,), str)
TABLE = Kind(Text("a table"), (dict,))
RECIPES = TABLE._replace()  # whose values the command line does not read
BOOLEAN = Kind(Text("true or false"), (bool,))
WHOLE = Kind(Text("a whole number"), (int,))
NUMBER = Kind(Text("a number"), (float, int))
FACTOR = Kind(Text("a number or a string"), (str, float, int))
_KINDS = (STRING, STRINGS, PAIRS, TABLE, BOOLEAN, WHOLE, NUMBER)


class Option(NamedTuple):
    """A setting as it is said: an example, and its kind, or the first that fits that.

    One that is ``of_run`` holds for all functions of a project.
    """

    example: Any
    default: Any = None
    known: Collection[str] = ()
    of_run: bool = False
    alias: str = ""
    said_kind: Kind | None = None
    name: str = ""
    help: Text = Text("")

    @property
    def kind(self) -> Kind:
        """What its value is."""
        return self.said_kind or next(kind for kind in _KINDS if kind.fits(self.example))

    @property
    def typed(self) -> Any:
        """What the command line takes; of a list or a table, each item by itself."""
        kind = self.kind.types[0]
        return list[str] if kind in (list, dict) else kind

    @property
    def spelled(self) -> str:
        """Its name as a key, and behind dashes."""
        return self.alias or self.name.replace("_", "-")

    def flags(self, prefix: str = "--") -> list[str]:
        """The option, and where it is true or false, the one that denies it."""
        ways = ("", "not-") if self.kind is BOOLEAN else ("",)
        return [f"{prefix}{each}{self.spelled}" for each in ways]

    def parse(self, raw: Any) -> Any:
        """The value, of what the command line or pytest hands over."""
        if self.typed != list[str]:
            return raw
        commas = self.kind in (STRINGS, PAIRS)
        parts = [part for each in raw for part in (each.split(",") if commas else [each])]
        parts = [part.strip() for part in parts if part.strip() or not commas]
        return parts if self.kind is STRINGS else dict(map(self._pair, parts))

    def _pair(self, pair: str) -> tuple[str, Any]:
        name, _, said = (each.strip() for each in pair.partition("="))
        value: object = said
        try:
            value = ast.literal_eval(said) if self.kind is TABLE else said
        except (ValueError, SyntaxError):
            name = ""
        if not (said and name.isidentifier()):
            (example,) = (f"{key}={value}" for key, value in self.example.items())
            about = {"setting": self.spelled, "pair": pair, "example": example}
            what = LITERAL if self.kind is TABLE else PAIR
            raise CheckError(NO_PAIR.fill({**about, "what": what}))
        return name, value


def _setting(option: Option, said: Text) -> Any:
    given = {"known": option.known, "sizes": SIZES, "of_steps": _OF_STEPS}
    said = said.fill({name: ", ".join(each) for name, each in given.items()} | {"limit": LIMIT})
    about = {"option": option._replace(help=said)}
    return field(default_factory=lambda: option.default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """How a function is read, what it is asked, and what is expected of it.

    What can be checked without the function is checked at once; None says nothing.

    Raises:
        CheckError: naming the setting, what was expected and what came.
    """

    supports: Sequence[str] | None = _setting(
        Option(["attn_mask"], known=OPTIONS),
        Text("Options that it accepts (default: those of its signature): {known}."),
    )
    names: Mapping[str, str] = _setting(
        Option({"attn_mask": "mask"}, default={}, alias="map"),
        Text("attn_mask=mask: the function's own name for an option."),
    )
    layout: str | None = _setting(
        Option("bnhd", known=LAYOUTS),
        Text("Axes of its tensors: {known} (default: recognised)."),
    )
    mask_means: str | None = _setting(
        Option("forbidden", known=MEANINGS),
        Text("Meaning of its mask: {known} (default: recognised)."),
    )
    always_causal: bool | None = _setting(
        Option(True),
        Text("The function is always causal, or not (default: recognised)."),
    )
    scale: float | str | Callable[[int], float] | None = _setting(  # noqa: RUF009
        Option(0.0722, said_kind=FACTOR),
        Text("Its factor, if not 1/sqrt(d_k): 0.0722, or 'lambda d: 0.1147 / d ** 0.5'."),
    )
    draw: Mapping[str, str] = _setting(
        Option({"window": 128}, default={}, said_kind=RECIPES),
        Text("sinks='normal(h)' or window=128: how another of its arguments is made."),
    )
    approximate: bool = _setting(
        Option(True, default=False),
        Text("The function is approximate: report its error instead of failing."),
    )
    against: str | Callable[..., Any] | None = _setting(  # noqa: RUF009
        Option("my_module:reference"),
        Text("module:function, a reference that the function is compared with."),
    )
    bound: float | None = _setting(
        Option(0.05),
        Text("Largest relative error allowed, with --approximate or --against."),
    )
    demand: Mapping[str, str] = _setting(
        Option({"alignment": "bottom-right"}, default={}, known=DEMANDS),
        Text("alignment=bottom-right: a convention that it must follow, of {known}."),
    )
    step: bool = _setting(
        Option(True, default=False),
        Text("The function is a decoding step, step(query, key, value, cache): output, cache."),
    )
    cache: Any = _setting(  # noqa: RUF009 (the name of a function, or the function)
        Option("my_module:Cache"),
        Text(
            "module:function that makes a step's first cache, if not None; it receives what it "
            "asks for among {sizes}. Implies --step."
        ),
    )
    arguments: Mapping[str, Any] = _setting(
        Option({"block_size": 256}, default={}, alias="with"),
        Text("block_size=256: an argument that a layer needs besides width and heads."),
    )
    only: Collection[str] | None = _setting(
        Option(["scale"], known=PROPERTIES),
        Text("Properties to test: {known}; for a step also {of_steps}."),
    )
    skip: Collection[str] = _setting(
        Option(["memory_growth"], default=()),
        Text("Properties not to test."),
    )
    strict: bool = _setting(
        Option(True, default=False, of_run=True),
        Text("Treat unsafe as a failure."),
    )
    dtype: str | None = _setting(
        Option("bfloat16", known=DTYPES),
        Text("One of {known} (default: float32, or the half precision that it accepts)."),
    )
    device: str = _setting(
        Option("cuda", default="cpu", of_run=True),
        Text("cpu, cuda or cuda:<number> (default: cpu)."),
    )
    seed: int = _setting(
        Option(0, default=0, of_run=True),
        Text("Random seed (default: 0)."),
    )
    limit: float | None = _setting(
        Option(LIMIT, default=LIMIT, of_run=True),
        Text("Seconds per property (default: {limit:g})."),
    )
    expect: Mapping[str, Expectation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in SETTINGS:
            got = getattr(self, each.name)
            if each.kind is STRING and each.known and got is not None and got not in each.known:
                raise CheckError(one_of(each.name, each.known, got))
        for name, number, unit in (("limit", self.limit, SECONDS), ("bound", self.bound, "")):
            if number is not None and not 0 < number < math.inf:
                raise CheckError(POSITIVE.fill({"name": name, "unit": unit, "got": number}))
        if self.bound is not None and not self.approximate and self.against is None:
            raise CheckError(NO_BOUND)
        if not 0 <= self.seed < _SEEDS:
            raise CheckError(
                "seed: expected a number from 0 to {most}, got {seed}.",
                most=_SEEDS - 1,
                seed=self.seed,
            )
        for name, choice in self.demand.items():
            check_known("demand", name, DEMANDS, CONVENTION)
            check_known("demand", choice, DEMANDS[name], CHOICE.fill({"name": name}))
        # A file may say a recipe as a number; what Python gives may be gone through once only.
        object.__setattr__(self, "draw", {name: str(said) for name, said in self.draw.items()})
        object.__setattr__(self, "only", self.only if self.only is None else list(self.only))
        _ = self.property_names, self.place, self.factor and self.factor(64)

    @classmethod
    def of_call(cls, function: object, **said: Any) -> Self:
        """What a call says beside the function; None, but for ``limit``, says nothing."""
        given = {name: value for name, value in said.items() if value is not None}
        return cls(**given | {"limit": said["limit"]})

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
        """What it is asked, in order: what is left of ``only``, or of all, without ``skip``."""
        for setting in ("only", "skip"):
            for name in getattr(self, setting) or ():
                check_known(setting, name, self.rules, PROPERTY)
        only = self.rules if self.only is None else self.only
        left = [name for name in self.rules if name in only and name not in self.skip]
        if not left:
            raise CheckError(NONE_NAMED)
        return left

    @property
    def reading(self) -> Reading:
        """What is said of how it is read."""
        own = ("cache", "position") if self.is_step else ()
        names = {option: name for option, name in self.names.items() if option not in own}
        factor = None if self.factor is None else Factor(0.0, False, self.factor)
        said = Reading(names, self.layout, self.mask_means, formula=Formula(factor))
        roughly = self.approximate or self.bound is not None
        return replace(said, causal=self.always_causal, approximate=roughly)

    @property
    def place(self) -> torch.device:
        """The device."""
        try:
            device = torch.device(self.device)
        except RuntimeError:
            device = _NOWHERE
        if device == _NOWHERE:  # it holds no numbers
            raise CheckError(NO_DEVICE.fill({"name": self.device}))
        return device

    @property
    def factor(self) -> Callable[[int], float] | None:
        """What the scores are multiplied by for a d_k; None: 1/sqrt(d_k)."""
        return None if self.scale is None else functools.partial(_factor, self.scale)


def _factor(scale: Any, d_k: int) -> float:
    try:
        value = eval(scale, {"__builtins__": {}, "math": math}) if isinstance(scale, str) else scale
        number = float(value(d_k) if callable(value) else value)
        if not math.isfinite(number):
            raise ValueError(f"{number} for d_k = {d_k}")
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise CheckError(NO_FACTOR.fill({"said": scale, "error": told})) from None
    return number


# All but what is expected, which a file alone can say.
SETTINGS = [
    each.metadata["option"]._replace(name=each.name) for each in fields(Settings) if each.metadata
]


def parse(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that options say, as the command line or pytest hands them over, by name."""
    given = [each for each in SETTINGS if raw.get(each.name) is not None]
    return {each.name: each.parse(raw[each.name]) for each in given}


def check_known(place: str, name: str, known: Collection[str], what: Text) -> None:
    """Refuses what is not known, with what may be meant."""
    if name in known:
        return
    near = difflib.get_close_matches(str(name), known, n=1)
    remedy = NEAR.fill({"name": repr(near[0])}) if near else THERE.fill({"names": ", ".join(known)})
    about = {"place": place, "name": repr(name), "what": what, "remedy": remedy}
    raise CheckError(UNKNOWN.fill(about))
