"""What a property is: a name, a statement, a formula, a page, and the function that tests it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from attnref.conformance.case import Case, Sizes
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

_USUAL = Sizes()

Holder = Literal["products", "softmax", "average", "formula", "any"]

# Returns None when the property holds.
Test = Callable[[Trial, Case], Finding | None]

# From whose failure that of another may follow, the first of them first: that of a property which
# takes the output for an average with the weights of the formula,
OF_NUMBERS = ("shape", "determinism", "borders", "past_kept", "sequences_apart", "row_sums")
# of one about masks, and of one about causality.
OF_MASKS = ("shape", "determinism", "borders", "past_kept", "row_sums", "mask_polarity")
OF_CAUSALITY = ("shape", "determinism", "borders", "row_sums", "causality", "own_token")


@dataclass(frozen=True)
class Property:
    """One thing that is true of attention.

    ``page`` explains it, one of those of :mod:`attnref.book`; ``needs`` are options without which
    it is not claimed. What a property with ``may_refuse`` asks for, a function may decline with a
    clear error; one with ``may_crash``, with any, for nothing is silently wrong; what is not
    ``judged`` may take too long. It is ``asked_of`` functions, of steps, or of both. It
    ``holds_of`` softmax attention, of that whose scores are products alone, of whatever averages,
    or has a formula to compare with, or of any function, which is then compared with itself. Its
    failure may be what ``follows`` from that of others. Of a ``convention`` the ``choices`` are
    named, by what is said of each, or None where it passes.
    """

    name: str
    statement: Text
    formula: str
    page: str
    test: Test
    sizes: Sizes
    needs: tuple[str, ...]
    may_refuse: bool
    may_crash: bool
    judged: bool
    asked_of: tuple[str, ...]
    holds_of: Holder
    follows: tuple[str, ...]
    convention: str | None
    choices: Mapping[Text | None, str]

    def __reduce__(self) -> tuple[Callable[[str], "Property"], tuple[str]]:
        """By its name, for the name of its function is the name of the property itself."""
        return _find, (self.name,)


REGISTRY: dict[str, Property] = {}
"""Each property by its name, which is entered where it is defined."""


def _find(name: str) -> Property:
    import attnref.conformance.properties  # noqa: F401 (where they are defined)

    return REGISTRY[name]


def rule(
    *,
    statement: Text,
    formula: str,
    page: str,
    sizes: Sizes = _USUAL,
    needs: tuple[str, ...] = (),
    may_refuse: bool = False,
    may_crash: bool = False,
    judged: bool = True,
    asked_of: tuple[str, ...] = ("function", "step"),
    holds_of: Holder = "softmax",
    follows: tuple[str, ...] = (),
    convention: str | None = None,
    choices: Mapping[Text | None, str] | None = None,
) -> Callable[[Test], Property]:
    """Makes the property that a test function of the same name tests, and registers it."""

    def register(test: Test) -> Property:
        made = Property(
            name=test.__name__,
            statement=statement,
            formula=formula,
            page=page,
            test=test,
            sizes=sizes,
            needs=needs,
            may_refuse=may_refuse or bool(needs),
            may_crash=may_crash,
            judged=judged,
            asked_of=asked_of,
            holds_of=holds_of,
            follows=follows,
            convention=convention,
            choices=choices or {},
        )
        return REGISTRY.setdefault(made.name, made)

    return register


def find_causes(failed: list[str]) -> dict[str, str]:
    """For each of ``failed`` that may follow from another of them, that other one.

    Examples:
        >>> from attnref.conformance import properties
        >>> find_causes(["scale", "oracle", "strided"])
        {'oracle': 'scale'}
    """
    causes = {name: [each for each in REGISTRY[name].follows if each in failed] for name in failed}
    return {name: found[0] for name, found in causes.items() if found}
