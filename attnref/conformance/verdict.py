"""What can be said of a function and a property, and what a property hands back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from attnref.conformance.text import Text


class Verdict(Enum):
    """The five answers.

    ``CAUTION`` is unsafe, yet what PyTorch's own kernel does too. ``CONVENTION`` is one of
    several legitimate ways. ``NOT_OFFERED`` is what the function does not claim to do.

    Examples:
        >>> [verdict.value for verdict in Verdict]
        ['pass', 'fail', 'caution', 'convention', 'not offered']
    """

    PASS = "pass"
    FAIL = "fail"
    CAUTION = "caution"
    CONVENTION = "convention"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True)
class Counterexample:
    """A call in plain numbers: its arguments, what it returned and what was expected.

    Tensors are nested lists, or a line that tells the shape of those too large to read.

    Examples:
        >>> Counterexample({"query": [[1.0]]}, got=[[float("nan")]], expected=[[0.0]]).got
        [[nan]]
    """

    arguments: dict[str, object]
    got: object
    expected: object


@dataclass(frozen=True)
class Finding:
    """What a property found, in words whose places ``values`` fill."""

    verdict: Verdict
    text: Text
    values: Mapping[str, object] = field(default_factory=dict)
    counterexample: Counterexample | None = None

    def reworded(self, text: Text, **values: object) -> "Finding":
        """The same in words that say more."""
        return Finding(self.verdict, text, values, self.counterexample)
