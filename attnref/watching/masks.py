"""What a mask of a running model says: how much it allows, and in which pattern."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnref.cost import allowed_pairs
from attnref.text import Text
from attnref.watching.call import Call

_SAMPLES, _HEADS, _ROWS = 8, 2, 256  # that are looked at of a large mask
_TOGETHER = 1024  # rows of a mask that are looked at together
_LOWEST = -1e4  # added to a score it leaves no weight; what is above it may be a bias

NONE = Text("none")
ALL = Text("all allowed")
CAUSAL = Text("causal")
TOP_LEFT = Text("causal, top-left")
BOTTOM_RIGHT = Text("causal, bottom-right")
WINDOW = Text("causal, window of {width}")
BAND = Text("window, {back} back and {ahead} ahead")
CHUNKS = Text("causal, chunks of {width}")
PACKED = Text("packed sequences, {count}")
STRICT = Text("past only, without itself")
FUTURE = Text("future only")
PREFIX = Text("causal after a prefix of {width}")
OTHER = Text("another pattern")
PADDED = Text("{pattern}; {sides}")
LEFT = Text("left padding, up to {count}")
RIGHT = Text("right padding, up to {count}")
HOLES = Text("keys hidden in between")
BIASED = Text("{pattern}; with a bias")


@dataclass(frozen=True)
class Mask:
    """What the mask of a call allows.

    Attributes:
        pattern: what it is, in words.
        share: of all pairs, how many are allowed.
        empty: queries that may attend to nothing, of the sampled ones.
        blind: those of them that are no padding themselves.
        needless: whether no mask, or ``is_causal``, says the same.
        hidden: ``(b, m)``, keys that no query may see, though others that lie later are seen, or
            before.
        shape: the given one, and its bytes; None without one.
    """

    pattern: Text
    share: float
    empty: int
    blind: int
    needless: Text | None = None
    hidden: Tensor | None = None
    future: bool = False
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    bytes: int = 0


def sampled_rows(n: int, most: int) -> Tensor:
    """So many of n rows, evenly, with the first and the last."""
    if n <= most:
        return torch.arange(n)
    return torch.linspace(0, n - 1, most).round().long()


def part(mask: Tensor, rows: Tensor, n: int, m: int) -> Tensor:
    """Those rows of a mask that broadcasts, ``(…, rows, m)``, on its own device."""
    while mask.dim() < 4:
        mask = mask.unsqueeze(0)
    if mask.shape[-2] == n and n > 1:
        mask = mask[..., rows.to(mask.device), :]
    return mask.expand(*mask.shape[:-2], len(rows), m)


def allowed_of(call: Call, rows: Tensor) -> Tensor:
    """Which keys those queries may see, ``(b or 1, h or 1, rows, m)``."""
    *_, n, m = call.sizes
    seen = torch.ones(1, 1, len(rows), m, dtype=torch.bool, device=call.device)
    if call.is_causal:
        seen &= torch.arange(m, device=call.device) <= rows.to(call.device)[:, None]
    if call.attn_mask is not None:
        mask = part(call.attn_mask, rows, n, m)
        seen = seen & (mask if mask.dtype == torch.bool else mask > _LOWEST)
    return seen


def recognise(call: Call) -> Mask:
    """The mask of a call."""
    *_, n, m = call.sizes
    if not n * m:
        return Mask(NONE, 0.0, 0, 0)
    if call.attn_mask is None:
        pairs = allowed_pairs(n, m, window=(None, 0 if call.is_causal else None))
        pattern = NONE if not call.is_causal else CAUSAL if n == m else TOP_LEFT
        return Mask(pattern, pairs / (n * m), 0, 0)
    rows = sampled_rows(n, _ROWS)
    allowed = allowed_of(call, rows)[:_SAMPLES, :_HEADS].cpu()
    keys = torch.arange(m)
    ever = _ever(call, allowed)  # (b, h, m)
    pattern, needless, future = _pattern(call, allowed, rows, ever)
    first = ever.double().argmax(-1)
    last = m - 1 - ever.flip(-1).double().argmax(-1)
    sides = []
    if bool(ever.any()):
        left, right = int(first.amax()), int((m - 1 - last).amax())
        between = ~ever & (keys > first[..., None]) & (keys < last[..., None])
        sides += [LEFT.fill({"count": left})] * bool(left)
        sides += [RIGHT.fill({"count": right})] * bool(right)
        sides += [HOLES] * bool(between.any())
    if sides and not future and pattern != STRICT:
        pattern = PADDED.fill({"pattern": pattern, "sides": Text.join(", ", sides)})
        needless = None
    mask = call.attn_mask
    if mask.dtype != torch.bool and _is_bias(mask):
        pattern, needless = BIASED.fill({"pattern": pattern}), None
    empty = ~allowed.any(-1)  # (b, h, rows)
    # A padded query may see nothing: where keys are hidden, so are their queries.
    # The last of them lies at the last key.
    own = torch.ones_like(empty)
    if n <= m:
        own = ever[..., rows + m - n]
    return Mask(
        pattern,
        float(allowed.double().mean()),
        int(empty.sum()),
        int((empty & own).sum()),
        needless,
        ~ever[:, 0],
        future,
        tuple(mask.shape),
        mask.dtype,
        mask.untyped_storage().nbytes(),
    )


def _ever(call: Call, allowed: Tensor) -> Tensor:
    """Which keys any query sees, ``(b, h, m)``."""
    mask = call.attn_mask
    if mask is None or allowed.shape[-2] == call.sizes[2]:
        return allowed.any(-2)
    while mask.dim() < 4:
        mask = mask.unsqueeze(0)
    mask = mask[:_SAMPLES, :_HEADS]
    seen = mask.new_zeros((*mask.shape[:2], mask.shape[3]), dtype=torch.bool)
    for start in range(0, mask.shape[-2], _TOGETHER):
        rows = mask[..., start : start + _TOGETHER, :]
        seen |= (rows if mask.dtype == torch.bool else rows > _LOWEST).any(-2)
    return seen.expand(*seen.shape[:2], call.sizes[3]).cpu()


def _is_bias(mask: Tensor) -> bool:
    rows, keys = (max(1, size // 256) for size in (1, *mask.shape)[-2:])
    some = mask[..., ::keys] if mask.dim() < 2 else mask[..., ::rows, ::keys]
    return bool(((some > _LOWEST) & (some != 0)).any())


CHEAPER = Text("attn_mask=None")
BY_FLAG = Text("is_causal=True")


def _pattern(
    call: Call, allowed: Tensor, rows: Tensor, ever: Tensor
) -> tuple[Text, Text | None, bool]:
    *_, n, m = call.sizes
    i, j = rows[:, None], torch.arange(m)
    kept = ever[..., None, :]  # keys that somebody sees
    some = allowed.any(-1, keepdim=True)  # queries that see something

    def same(pattern: Tensor) -> bool:
        return bool(((allowed == (pattern & kept)) | ~some).all())

    if not bool(some.any()):
        return OTHER, None, False
    if same(torch.ones_like(allowed)):
        return ALL, CHEAPER, False
    if n > 1 and same(j <= i) and n == m:
        return CAUSAL, BY_FLAG, False
    if n > 1 and bool((allowed == (j < i)).all()) and n == m:
        return STRICT, None, False
    # What is hidden is the past, of all keys or, with padding, of those that are real.
    hidden = ~allowed
    if n > 1 and n == m and bool((hidden == ((j <= i) & hidden[..., -1:, :])).all()):
        return FUTURE, None, True
    for offset, name in ((m - n, BOTTOM_RIGHT), (0, TOP_LEFT)):
        if n != m and n > 1 and same(j <= i + offset):
            return name, BY_FLAG if not offset else None, False
        place = j - i - offset
        seen = allowed & kept
        back, ahead = (
            -int(place.expand_as(seen)[seen].min()),
            int(place.expand_as(seen)[seen].max()),
        )
        if same((place >= -back) & (place <= ahead)) and n > 1:
            about = {"width": back + 1, "back": back, "ahead": ahead}
            return (WINDOW if ahead == 0 else BAND).fill(about), None, False
    if n == 1:
        width = int(allowed.sum(-1).amax())
        first = int(allowed.double().argmax(-1).amin())
        if same(j >= first):
            return WINDOW.fill({"width": width}), None, False
        return OTHER, None, False
    for width in _widths(allowed, rows, m):
        if same((j <= i + m - n) & (j // width == (i + m - n) // width)):
            return CHUNKS.fill({"width": width}), None, False
    first_row = int(allowed[0, 0, 0].sum())
    if same((j <= i) | (j < first_row)):
        return PREFIX.fill({"width": first_row}), None, False
    if n == m and len(rows) == n:
        count = _packed(allowed, causal=not bool((allowed & (j > i)).any()))
        if count:
            return PACKED.fill({"count": count}), None, False
    return OTHER, None, False


def _widths(allowed: Tensor, rows: Tensor, m: int) -> list[int]:
    """How wide chunks may be: as the first of them is, for the last row of a chunk sees it all."""
    counts = allowed[0, 0].sum(-1)
    most = int(counts.max())
    return [most] if 1 < most < m else []


def _packed(allowed: Tensor, *, causal: bool) -> int:
    """How many sequences lie side by side, none of which sees another; 0 where it is not so."""
    one = allowed[0, 0]
    n = len(one)
    first = one.double().argmax(-1)  # the first key that each sees is where its sequence begins
    starts = torch.arange(n) == first
    number = starts.cumsum(0)
    same = number[:, None] == number
    expected = same.tril() if causal else same
    some = one.any(-1, keepdim=True)
    right = bool(((one == expected) | ~some | ~one.any(0)).all())
    return int(number[-1]) if right and int(number[-1]) > 1 else 0
