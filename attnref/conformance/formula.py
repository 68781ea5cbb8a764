"""What a function has of its own, beside softmax(QKᵀ/√d_k)V: a factor, a window, a rotation."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.positions import alibi_slopes, rotary, rotary_half_split
from attnref.text import Text

WINDOW = Text("its own window: query i sees the keys from i - {back} to i{ahead}")
CHUNKS = Text(
    "its own window: chunks of {back} positions, of which a query sees those up to its own"
)
KEPT = Text("and the first {first} keys, which all see")
FIXED = Text("one factor for all widths, {factor:.3g}")
MULTIPLE = Text("its own factor, {factor:.3g}/sqrt(d_k)")
GIVEN = Text("the factor that is stated")
SINK = Text("its own sink, which takes a part of the weight of each row")
SLOPES = Text("a bias by distance, with the slopes {slopes}")
BIAS = Text("its own bias by distance")
TURNED = Text("its own rotary embedding, of pairs {pairs}{part}")
PART = Text(" in the first {width} components")
ALL = Text("")


class Factor(NamedTuple):
    """What the scores are multiplied by: a ``fixed`` number, or that many times 1/sqrt(d_k).

    One that is ``stated`` by the user is a function of the width.
    """

    number: float
    fixed: bool
    stated: Callable[[int], float] | None = None

    def value(self, d_k: int) -> float:
        """The factor for that width."""
        if self.stated is not None:
            return float(self.stated(d_k))
        return self.number if self.fixed else self.number * float(d_k**-0.5)


class Window(NamedTuple):
    """The keys that a query sees: ``back`` of them up to its own, ``ahead`` from its own on."""

    back: int
    ahead: int | None  # None is all
    first: int = 0  # keys that all see
    chunked: bool = False  # those of its own chunk, which is as long as ``back``

    def seen(self, n: int, m: int, offset: int = 0) -> Tensor:
        """Where query 0 is beside key ``offset``, ``(n, m)``."""
        i, j = torch.arange(offset, offset + n)[:, None], torch.arange(m)
        if self.chunked:
            return (j <= i) & (i // self.back == j // self.back)
        near = (j > i - self.back) & ((j < i + self.ahead) if self.ahead else (j == j))
        return near | ((j < self.first) & (j <= i))


def _one_series(heads: int) -> Tensor:
    return torch.exp2(-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float64))


def _from_zero(heads: int) -> Tensor:
    return torch.exp2(-8.0 / heads * torch.arange(heads, dtype=torch.float64))


SERIES: Mapping[str, tuple[Text, Callable[[int], Tensor]]] = {
    "alibi": (
        Text("of ALiBi"),
        lambda heads: alibi_slopes(heads, dtype=torch.float64),
    ),
    "one": (
        Text("2^(-8i/h), one geometric series for every number of heads"),
        _one_series,
    ),
    "up": (
        Text("the slopes of ALiBi, upwards"),
        lambda heads: -alibi_slopes(heads, dtype=torch.float64),
    ),
    "zero": (
        Text("2^(-8i/h) from i = 0"),
        _from_zero,
    ),
}
"""The slopes of a bias by distance, the right ones first."""


class Rotary(NamedTuple):
    """A rotation by position, of neighbouring components or of two halves.

    ``part`` of the components are turned; the frequencies are theirs, or ``over`` the whole width.
    """

    half: bool
    part: float = 1.0
    over: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` turned by the positions of its rows."""
        width = int(x.shape[-1] * self.part) // 2 * 2
        turn = rotary_half_split if self.half else rotary
        if not width:
            return x
        if not self.over:
            return torch.cat([turn(x[..., :width]), x[..., width:]], -1)
        # The first pairs of the whole head turn, with its frequencies.
        turned, pairs = turn(x), x.shape[-1] // 2
        place = torch.arange(x.shape[-1])
        first = place % pairs if self.half else place // 2
        return torch.where(first < width // 2, turned, x)


class Formula(NamedTuple):
    """What is a function's own; each None where it has none. Sinks and biases are measured."""

    factor: Factor | None = None
    window: Window | None = None
    sink: bool = False
    slopes: str | None = None
    biased: bool = False
    turn: Rotary | None = None

    @property
    def plain(self) -> bool:
        """Whether its scores are products, and each row shares its weight among them."""
        return not (self.sink or self.biased) and self.slopes is None and self.turn is None

    @property
    def positional(self) -> bool:
        """Whether it matters where a query or a key is."""
        known = (self.window, self.slopes, self.turn)
        return self.biased or any(each is not None for each in known)

    def setting(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        """It, as the fields of a :class:`Setting`."""
        heads, n, d_k = query.shape[-3:]
        found: dict[str, Any] = {"turn": self.turn}
        if self.factor is not None:
            found["scale"] = self.factor.value(d_k)
        if self.window is not None:
            found["seen"] = self.window.seen(n, key.shape[-2])
        if self.slopes is not None:
            found["bias"] = -SERIES[self.slopes][1](heads)[:, None, None] * distance(
                n, key.shape[-2]
            )
        return found

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """It, in words and what fills their places."""
        lines: list[tuple[Text, dict[str, object]]] = []
        if self.window is not None:
            back, ahead = self.window.back - 1, (self.window.ahead or 0) - 1
            if self.window.chunked:
                lines.append((CHUNKS, {"back": back + 1}))
            else:
                lines.append((WINDOW, {"back": back, "ahead": f" + {ahead}" if ahead > 0 else ""}))
            if self.window.first:
                lines.append((KEPT, {"first": self.window.first}))
        if self.factor is not None:
            text = FIXED if self.factor.fixed else MULTIPLE
            text = GIVEN if self.factor.stated is not None else text
            lines.append((text, {"factor": self.factor.number}))
        if self.sink:
            lines.append((SINK, {}))
        if self.slopes is not None:
            lines.append((SLOPES, {"slopes": SERIES[self.slopes][0]}))
        if self.biased:
            lines.append((BIAS, {}))
        if self.turn is not None:
            pairs = "(i, i + d/2)" if self.turn.half else "(2i, 2i + 1)"
            share = f"d/{round(1 / self.turn.part)}"
            part = ALL if self.turn.part == 1 else PART.fill({"width": share})
            lines.append((TURNED, {"pairs": pairs, "part": part}))
        return lines


PLAIN = Formula()


def distance(n: int, m: int) -> Tensor:
    """How far key j is from query i, both sequences beginning together, ``(n, m)``."""
    return (torch.arange(n)[:, None] - torch.arange(m)).abs().double()
