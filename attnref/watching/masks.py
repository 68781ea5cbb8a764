"""What a mask of a running model says: how much it allows, in which pattern, to whom nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from attnref.text import Text
from attnref.watching import patterns
from attnref.watching.call import Call
from attnref.watching.patterns import ALL, CAUSAL, FUTURE, NONE, OTHER, STRICT, TOP_LEFT, Rule

_SIDE = 24  # of a picture
_ROWS = 256  # that are looked at of a large mask
_TOGETHER = 2**24  # pairs that are looked at together
_LARGE = 2**20  # bytes
_LOWEST = -1e4  # added to a score it leaves no weight; what is above it may be a bias
_HIDING = -50.0  # the same, of a mask that holds nothing else but zeros

PADDED = Text("{pattern}; {sides}")
LEFT = Text("left padding, up to {count}")
RIGHT = Text("right padding, up to {count}")
HOLES = Text("keys hidden in between")
BIASED = Text("{pattern}; with a bias")


NOT_READ = Text("not examined")
BROKEN = Text("contains NaN or inf")
ONE_ROW = Text("one row of it, attn_mask[..., :1, :]")


@dataclass(frozen=True)
class Mask:
    """What the mask of a call allows.

    Attributes:
        pattern: what it is, in words.
        share: of all pairs, how many are allowed.
        empty: queries that may attend to nothing, of the sampled ones.
        blind: those of them that are no padding themselves.
        lost: samples of which no query may attend to anything.
        instead: what has the same effect, and costs less.
        hidden: ``(b, m)``, keys that no query may see.
        alone: ``(b, m)``, keys that nobody sees but the query beside it, which sees nothing else.
        future: whether queries see only what comes after them.
        top_left: whether it is aligned with the first key, although there are more keys.
        numbers: whether it adds ones and zeros, which may have been meant as a mask.
        padding: whether the keys that nobody sees may be compared with those of other layers.
        finite: whether what it hides gets a large negative number.
        picture: the share that is allowed of each field of the first sample and head, in
            fifteenths, in at most 24 rows and columns; None where all is allowed.
        shape: the given one, and its bytes; None without one.
    """

    pattern: Text
    share: float
    empty: int = 0
    blind: int = 0
    lost: tuple[int, ...] = ()
    instead: Text | None = None
    hidden: Tensor | None = None
    alone: Tensor | None = None
    future: bool = False
    top_left: bool = False
    numbers: bool = False
    padding: bool = False
    finite: bool = False
    picture: Tensor | None = None
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


def allowed_of(call: Call, rows: Tensor, few: bool = False) -> Tensor:
    """Which keys those queries may see, ``(b or 1, h or 1, rows, m)``; a ``few`` samples, heads."""
    *_, n, m = call.sizes
    seen = torch.ones(1, 1, len(rows), m, dtype=torch.bool, device=call.device)
    if call.is_causal:
        seen &= torch.arange(m, device=call.device) <= rows.to(call.device)[:, None]
    if call.attn_mask is not None:
        mask = part(call.attn_mask, rows, n, m)
        if few and mask.numel() > _TOGETHER:
            mask = mask[:, sampled_rows(mask.shape[1], 2)]
            mask = mask[sampled_rows(len(mask), max(8, _TOGETHER // mask[0].numel()))]
        seen = seen & _seen(mask, _lowest(call.attn_mask))
    return seen


def _seen(mask: Tensor, lowest: float) -> Tensor:
    return mask if mask.dtype == torch.bool else ~(mask <= lowest)  # NaN hides nothing


def _some(mask: Tensor) -> Tensor:
    """Some of its numbers, evenly, without a copy of it."""
    rows, keys = (max(1, size // 256) for size in (1, *mask.shape)[-2:])
    return mask[..., ::keys] if mask.dim() < 2 else mask[..., ::rows, ::keys]


def _lowest(mask: Tensor) -> float:
    """What hides in this mask, and what is less."""
    if mask.dtype == torch.bool or not mask.numel():
        return _LOWEST
    some = _some(mask)
    least = float(some.amin())
    alone = _LOWEST < least <= _HIDING and bool(((some == 0) | (some == least)).all())
    return least / 2 if alone else _LOWEST


def recognise(call: Call) -> Mask:
    """The mask of a call."""
    *_, n, m = call.sizes
    if not n * m:
        return Mask(NONE, 0.0)
    mask = call.attn_mask
    if mask is None:
        pattern = NONE if not call.is_causal else CAUSAL if n == m else TOP_LEFT
        top_left = call.is_causal and n < m
        drawn = _picture(allowed_of(call, sampled_rows(n, _ROWS))) if call.is_causal else None
        # Query i sees i + 1 keys, as long as there are so many.
        k = min(n, m)
        share = (k * (k + 1) / 2 + (n - k) * m) / (n * m) if call.is_causal else 1.0
        return Mask(pattern, share, top_left=top_left, padding=True, picture=drawn)
    some = _some(mask)
    if mask.dtype != torch.bool and bool((some.isnan() | (some == torch.inf)).any()):
        return Mask(BROKEN, 1.0, shape=tuple(mask.shape), dtype=mask.dtype)
    rows = sampled_rows(n, _ROWS)
    allowed = allowed_of(call, rows, few=True).cpu()
    ever = allowed.any(-2)  # (b, h, m)
    hidden = ~ever[:, 0]
    if len(rows) < n or (mask.dim() == 4 and len(allowed) < len(mask)):
        hidden = ~_ever(call)
        ever = ~hidden[sampled_rows(len(hidden), len(allowed)), None]
    found = patterns.find(allowed, ever, rows, n)
    sides = list(_sides(ever, n if found.name == TOP_LEFT else m))
    name, instead = found.name, found.instead
    if sides and name not in (FUTURE, STRICT):
        name = PADDED.fill({"pattern": name, "sides": Text.join(", ", sides)})
        # Small ones are not worth a word.
        repeated = found.name == ALL and mask.dim() > 1 and mask.stride(-2)
        instead = ONE_ROW if repeated and mask.nbytes > _LARGE else None
    bias = mask.dtype != torch.bool and _is_bias(mask)
    if bias:
        name, instead = BIASED.fill({"pattern": name}), None
    if instead is not None and not _holds(call, found.rule if instead is not ONE_ROW else None):
        instead = None
    empty = ~allowed.any(-1)  # (b, h, rows)
    # A padded query may see nothing: where a key is hidden, so is the query beside it, be they
    # aligned with the first key or with the last.
    own = ever[..., rows] & ever[..., rows + m - n] if n <= m else torch.zeros_like(empty)
    lost = hidden.all(-1).nonzero()[:, 0].tolist()
    least = 0.0 if mask.dtype == torch.bool else float(some.amin())
    return Mask(
        name,
        float(allowed.double().mean()),
        int(empty.sum()),
        int((empty & own).sum()),
        tuple(lost),
        instead,
        hidden,
        _alone(allowed) if len(rows) == n == m else None,
        found.name == FUTURE,
        found.name == TOP_LEFT and n < m,
        bias and bool(((some == 0) | (some == 1)).all()),
        found.name != OTHER,
        -torch.inf < (call.fill if mask.dtype == torch.bool else least) < 0,
        _picture(allowed),
        tuple(mask.shape),
        mask.dtype,
        min(mask.nbytes, mask.untyped_storage().nbytes()),
    )


def _picture(allowed: Tensor) -> Tensor:
    one = allowed[:1, 0].cpu().float()
    rows, keys = (min(_SIDE, size) for size in one.shape[-2:])
    share = adaptive_avg_pool2d(one, (rows, keys))
    return (15 * share[0]).round().to(torch.uint8)


def _alone(allowed: Tensor) -> Tensor:
    one = allowed[:, 0]
    return one.diagonal(0, -2, -1) & (one.sum(-1) == 1) & (one.sum(-2) == 1)


def _sides(ever: Tensor, m: int) -> Iterator[Text]:
    """Where keys are that nobody sees, among the first m, of samples that see something."""
    ever = ever[..., :m][ever[..., :m].any(-1)]  # (…, m)
    if not len(ever):
        return
    keys = torch.arange(m)
    first = ever.double().argmax(-1)
    last = m - 1 - ever.flip(-1).double().argmax(-1)
    if bool(first.any()):
        yield LEFT.fill({"count": int(first.max())})
    if int(last.min()) < m - 1:
        yield RIGHT.fill({"count": m - 1 - int(last.min())})
    if bool((~ever & (keys > first[:, None]) & (keys < last[:, None])).any()):
        yield HOLES


def _blocks(call: Call) -> Iterator[tuple[Tensor, Tensor]]:
    """Some rows after the other, and which keys they may see, of all samples and heads."""
    *_, n, m = call.sizes
    mask = call.attn_mask
    lead = 1 if mask is None or mask.dim() < 3 else mask.shape[:-2].numel()
    for rows in torch.arange(n).tensor_split(-(-n * m * lead // _TOGETHER)):
        yield rows, allowed_of(call, rows)


def _ever(call: Call) -> Tensor:
    """Which keys any query of the first head may see, ``(b, m)``."""
    found = [allowed[:, 0].any(-2) for _, allowed in _blocks(call)]
    return torch.stack(found).any(0).cpu()


def _holds(call: Call, rule: Rule | None) -> bool:
    """Whether a rule is what the whole mask says; without one, whether all its rows are alike."""
    *_, m = call.sizes
    first = allowed_of(call, torch.tensor([0]))
    for rows, allowed in _blocks(call):
        expected = first if rule is None else rule(rows[:, None], torch.arange(m))
        if not bool((allowed == expected.to(allowed.device)).all()):
            return False
    return True


def _is_bias(mask: Tensor) -> bool:
    some = _some(mask)
    return bool(((some > _lowest(mask)) & (some != 0)).any())
