"""The places that call attention, and the ways in which each does."""

from dataclasses import dataclass, field

from attnref.watching.call import Call
from attnref.watching.masks import Mask
from attnref.watching.statistics import Statistics


@dataclass
class Way:
    """Calls of one place that are alike but for their lengths.

    Attributes:
        call: the last of them that was looked at, without its tensors.
        mask: of it.
        count, seconds: how many there were, and how long they took.
        n, m: the least and the most queries and keys.
    """

    call: Call
    mask: Mask
    count: int = 0
    seconds: float = 0.0
    n: tuple[int, int] = (0, 0)
    m: tuple[int, int] = (0, 0)

    def add(self, call: Call) -> None:
        """Counts one more."""
        *_, n, m = call.sizes
        self.n = (min(self.n[0], n), max(self.n[1], n)) if self.count else (n, n)
        self.m = (min(self.m[0], m), max(self.m[1], m)) if self.count else (m, m)
        self.count += 1
        self.seconds += call.seconds


@dataclass
class Site:
    """A place from which attention is called: a module, and the function that it calls."""

    name: str
    function: str
    ways: dict[tuple[object, ...], Way] = field(default_factory=dict)
    statistics: Statistics | None = None

    @property
    def count(self) -> int:
        """How often."""
        return sum(way.count for way in self.ways.values())
