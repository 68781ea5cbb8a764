"""What a property is: a name, a statement, a formula, a page, and the function that tests it."""

from collections.abc import Callable
from dataclasses import dataclass

from attnref.conformance.case import Case, Sizes
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

_USUAL = Sizes()

# Returns None when the property holds.
Test = Callable[[Trial, Case], Finding | None]


@dataclass(frozen=True)
class Property:
    """One thing that is true of attention.

    ``page`` explains it, one of those of :mod:`attnref.book`; ``needs`` are options without which
    it is not claimed. What a property with ``may_refuse`` asks for, a function may decline with a
    clear error; one with ``may_crash``, with any, for nothing is silently wrong; what is not
    ``judged`` may take too long. Of another ``kind`` are those of layers that are judged whole.
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
    kind: str = "function"

    def __reduce__(self) -> tuple[Callable[[str, str], "Property"], tuple[str, str]]:
        """By its name, for the name of its function is the name of the property itself."""
        return _find, (self.name, self.kind)


def _find(name: str, kind: str) -> Property:
    from attnref.conformance import properties  # which are made of these

    rules = properties.WHOLE_PROPERTIES if kind == "whole" else properties.PROPERTIES
    return {**properties.STEP_PROPERTIES, **rules}[name]


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
) -> Callable[[Test], Property]:
    """Makes the property that a test function of the same name tests."""
    return lambda test: Property(
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
    )
