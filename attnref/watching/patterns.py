"""Which pattern a mask follows, and whether something cheaper says the same."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnref.text import Text

NONE = Text("none")
ALL = Text("all allowed")
CAUSAL = Text("causal")
TOP_LEFT = Text("causal, top-left")
BOTTOM_RIGHT = Text("causal, bottom-right")
WINDOW = Text("causal, window of {width}")
BAND = Text("window, {back} back and {ahead} ahead")
CHUNKS = Text("causal, chunks of {width}")
PACKED = Text("packed sequences, {count}")
STRICT = Text("past only, excluding itself")
FUTURE = Text("future only")
PREFIX = Text("causal after a prefix of {width}")
OTHER = Text("other pattern")

NO_MASK = Text("attn_mask=None")
BY_FLAG = Text("is_causal=True")
Rule = Callable[[Tensor, Tensor], Tensor]  # of queries and keys by number: which may meet


class Pattern(NamedTuple):
    """What it is called; what says the same as it, and for which pairs."""

    name: Text
    instead: Text | None = None
    rule: Rule | None = None


def everything(i: Tensor, j: Tensor) -> Tensor:
    """Each query sees each key."""
    return (i >= 0) | (j >= 0)


def past(i: Tensor, j: Tensor) -> Tensor:
    """Queries and keys begin together, and each sees what came before it, and itself."""
    return j <= i


def find(allowed: Tensor, ever: Tensor, rows: Tensor, n: int) -> Pattern:
    """The pattern of some rows of a mask.

    Args:
        allowed: which keys they may see, ``(b, h, r, m)``.
        ever: which keys any query may see, ``(b, h, m)``; the others may be padding.
        rows: which rows they are, ``(r,)``, the first and the last among them.
        n: how many there are.
    """
    m = allowed.shape[-1]
    i, j = rows[:, None], torch.arange(m)
    kept = ever[..., None, :]
    some = allowed.any(-1, keepdim=True)  # queries that see something

    def same(pattern: Tensor) -> bool:
        return bool(((allowed == (pattern & kept)) | ~some).all())

    if not bool(some.any()):
        return Pattern(OTHER)
    width = int(allowed.sum(-1).amax())
    if n == 1 < m and width == 1 and bool(allowed[..., 0].all()):
        return Pattern(TOP_LEFT)
    if same(everything(i, j)):
        return Pattern(ALL, NO_MASK, everything)
    if n == 1:
        first = int(allowed.double().argmax(-1).amin())
        return Pattern(WINDOW.fill({"width": width}) if same(j >= first) else OTHER)
    if n == m:
        if same(past(i, j)):
            return Pattern(CAUSAL, BY_FLAG, past)
        if bool((allowed == (j < i)).all()):
            return Pattern(STRICT)
        # What is hidden is the past, of all keys or, with padding, of those that are real.
        hidden = ~allowed
        if bool((hidden == (past(i, j) & hidden[..., -1:, :])).all()):
            return Pattern(FUTURE)
    else:
        if same(j <= i + m - n):
            return Pattern(BOTTOM_RIGHT)
        if same(past(i, j)):
            return Pattern(TOP_LEFT)
    for name, pattern in _others(allowed, kept, i, j, n):
        if same(pattern):
            return Pattern(name)
    if n == m and len(rows) == n:
        causal = not bool((allowed & (j > i)).any())
        counts = [_packed(one, causal=causal) for one in allowed.flatten(0, 1)]
        count = max(counts) if min(counts) else 0
        if count > 1:
            return Pattern(PACKED.fill({"count": count}))
    return Pattern(OTHER)


def _others(
    allowed: Tensor, kept: Tensor, i: Tensor, j: Tensor, n: int
) -> Iterator[tuple[Text, Tensor]]:
    """Patterns that have a width, as wide as these rows would have it."""
    m = allowed.shape[-1]
    seen = allowed & kept
    for offset in dict.fromkeys((m - n, 0)):
        place = (j - i - offset).expand_as(seen)
        back, ahead = -int(place[seen].min()), int(place[seen].max())
        about = {"width": back + 1, "back": back, "ahead": ahead}
        name = (WINDOW if ahead == 0 else BAND).fill(about)
        yield name, (place >= -back) & (place <= ahead)
    # The last row of a chunk sees all of it.
    width = int(allowed[0, 0].sum(-1).max())
    last = i + m - n
    if 1 < width < m:
        yield CHUNKS.fill({"width": width}), (j <= last) & (j // width == last // width)
    width = int(allowed[0, 0, 0].sum())
    yield PREFIX.fill({"width": width}), (j <= i) | (j < width)


def _packed(one: Tensor, *, causal: bool) -> int:
    """How many sequences lie side by side, none of which sees another; 0 where it is not so."""
    n = len(one)
    first = one.double().argmax(-1)  # the first key that each sees is where its sequence begins
    starts = torch.arange(n) == first
    number = starts.cumsum(0)
    same = number[:, None] == number
    expected = same.tril() if causal else same
    some = one.any(-1, keepdim=True)
    right = bool(((one == expected) | ~some | ~one.any(0)).all())
    return int(number[-1]) if right else 0
