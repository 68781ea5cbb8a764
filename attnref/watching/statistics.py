"""What the weights of a call look like, and how right its output is, in sampled rows."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.watching.call import Call, Inputs
from attnref.watching.masks import allowed_of, part, sampled_rows

BINS = 48  # of a small map
SOME = 8  # keys that a row sees at least, where its weights say something
_HEADS, _ROWS = 4, 4  # in which the error is looked for
_MOST = 64  # heads that are compared with each other
_ALIKE = 1e-3  # of two weights that are one, up to what nobody sees


@dataclass(frozen=True)
class Statistics:
    """Of one call, by head, in float64; ``r`` rows were looked at, of the first sample.

    Attributes:
        rows: which, ``(r,)``.
        weights: ``(h, r, m)``, zero where nothing may be seen.
        entropy: in shares of the largest possible, ``(h,)``, the mean of rows that see two keys
            and more.
        largest: the largest weight of a row, ``(h,)``, mean.
        first: the weight of the first key that may be seen, ``(h,)``, mean of rows that see eight
            and more; what an even share would be is ``even``.
        spread: standard deviation of the scores in a row, ``(h,)``, mean.
        highest: the largest product before it is scaled, in absolute value.
        error: of the output, in units of what rounding explains; None where it cannot be known.
        bad: rows whose output is not finite.
    """

    rows: Tensor
    weights: Tensor
    entropy: Tensor
    largest: Tensor
    first: Tensor
    even: float
    spread: Tensor
    highest: float
    error: float | None
    place: tuple[int, ...] = ()

    def map(self) -> Tensor:
        """The weights as a small picture, ``(h, ≤ BINS, ≤ BINS)``: the largest of each field."""
        _, r, m = self.weights.shape
        sizes = (min(r, BINS), min(m, BINS))
        return torch.nn.functional.adaptive_max_pool2d(self.weights.float(), sizes)

    def within(self, size: int) -> "Statistics":
        """The same, with fewer rows if its weights have more bytes than that; as float32."""
        weights = self.weights.float()
        each = weights[:, :1].nbytes
        kept = sampled_rows(len(self.rows), max(1, size // max(1, each)))
        return replace(self, rows=self.rows[kept], weights=weights[:, kept])

    def uniform(self) -> Tensor:
        """Heads whose rows share their weight evenly, ``(h,)`` of bools."""
        return self.entropy > 1 - _ALIKE

    def copies(self) -> list[tuple[int, int]]:
        """Pairs of heads that do the same, and not merely share evenly."""
        even = self.uniform()
        many = ((self.weights > 0).sum(-1) >= SOME).all(0)  # (r,)
        weights = self.weights[:_MOST, many][:, -4:]
        found = []
        for one in range(1, len(weights) if bool(many.any()) else 0):
            apart = (weights[:one] - weights[one]).abs().amax((-2, -1))
            near = apart < _ALIKE * weights[one].max()
            if not bool(even[one]):
                found += [(other, one) for other in near.nonzero()[:, 0].tolist()]
        return found


def measure(call: Call, most: int) -> Statistics | None:
    """Of the first sample, in at most so many rows; None of a call without pairs."""
    b, h, n, m = call.sizes
    if not b * h * n * m:
        return None
    rows = sampled_rows(n, most)
    query, key, value = (x[:1] for x in call.inputs())
    query = query[..., rows.to(query.device), :]
    query, key, value = (x.detach().cpu() for x in (query, key, value))
    group = h // max(1, key.shape[1])
    allowed = allowed_of(call, rows)[:1].cpu()
    repeated = key.repeat_interleave(group, 1) if group > 1 else key
    products = query.double() @ repeated.double().mT  # (1, h, r, m)
    scores = products * call.factor()
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    mask = call.attn_mask
    numbers = None if mask is None or mask.dtype == torch.bool else part(mask, rows, n, m)[:1]
    if numbers is not None:
        scores = scores + numbers.double().cpu().clamp(min=-1e30)
    seen = allowed.expand(1, h, -1, -1)
    scores = scores.masked_fill(~seen, -math.inf)
    if call.weights is None or call.known:
        weights = _softmax(scores, call.sink)
    else:
        weights = call.weights[:1, :, rows.to(call.device)].double().cpu()
    if call.sink is not None and _one_for_each_head(call.sink, h) is None:
        call.known = False  # another one for each query
    error, place = _error(call, rows, (query, key, value), allowed, numbers)
    highest = float(products.abs().nan_to_num(0.0).amax())
    return _statistics(rows, weights[0], scores[0], seen[0], highest, error, place)


def _softmax(scores: Tensor, sink: Tensor | None) -> Tensor:
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = (scores - top).exp()
    total = powers.sum(-1, keepdim=True)
    each = _one_for_each_head(sink, scores.shape[1])
    if each is not None:
        total = total + (each[:, None, None] - top).exp()
    return powers / total.clamp(min=1e-300)


def _one_for_each_head(sink: Tensor | None, heads: int) -> Tensor | None:
    """The score of a sink in float64, as it was given or beside the scores of each row."""
    if sink is None:
        return None
    numbers = sink.detach().double().cpu()
    if numbers.dim() == 4:  # (b, h, n, 1)
        one = numbers[:1, :, :1]
        if not bool((numbers == one).all()):
            return None
        numbers = one
    return numbers.flatten() if numbers.numel() == heads else None


def _statistics(
    rows: Tensor,
    weights: Tensor,
    scores: Tensor,
    seen: Tensor,
    highest: float,
    error: float | None,
    place: tuple[int, ...],
) -> Statistics:
    count = seen.sum(-1)  # (h, r)
    some, many = (count > 1).double(), (count >= SOME).double()

    def mean(x: Tensor, where: Tensor) -> Tensor:
        return (x * where).nan_to_num().sum(-1) / where.sum(-1).clamp(min=1)

    share = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    entropy = -(share * share.clamp(min=1e-300).log()).sum(-1) / count.clamp(min=2).log()
    finite = scores.masked_fill(~seen, 0.0)
    middle = finite.sum(-1, keepdim=True) / count.clamp(min=1)[..., None]
    spread = (((finite - middle) * seen).square().sum(-1) / count.clamp(min=1)).sqrt()
    enough = many.sum(-1, keepdim=True) >= SOME
    begin = seen.double().argmax(-1, keepdim=True)
    first = weights.gather(-1, begin)[..., 0]
    return Statistics(
        rows,
        weights,
        torch.where(some.any(-1), mean(entropy, some), torch.zeros(())),
        mean(weights.amax(-1), some),
        mean(first, many * enough),
        float(mean(1.0 / count.clamp(min=1), many * enough).mean()),
        mean(spread, some),
        highest,
        error,
        place,
    )


def _error(
    call: Call,
    rows: Tensor,
    inputs: Inputs,
    allowed: Tensor,
    numbers: Tensor | None,
) -> tuple[float | None, tuple[int, ...]]:
    """How far the output is from the definition, where that knows all of the call.

    In few rows of few heads, for the budget weighs each component of each value.
    """
    if call.output is None or not call.known or call.dropout or not all(map(is_finite, inputs)):
        return None, ()
    query, key, value = inputs
    heads = sampled_rows(query.shape[1], _HEADS)
    some = sampled_rows(len(rows), _ROWS)
    rows = rows[some]
    shared = heads // (query.shape[1] // key.shape[1])
    query, key, value = query[:, heads][..., some, :], key[:, shared], value[:, shared]
    allowed = allowed[..., some, :].expand(1, allowed.shape[1], -1, -1)
    allowed = allowed[:, heads] if allowed.shape[1] > 1 else allowed
    added = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -math.inf)
    if numbers is not None:
        numbers = numbers[..., some, :]
        added = added + (numbers[:, heads] if numbers.shape[1] > 1 else numbers).double().cpu()
    sink = _one_for_each_head(call.sink, call.sizes[1])
    setting = budget.Setting(
        attn_mask=added,
        scale=call.factor(),
        softcap=call.softcap,
        sink=None if sink is None else sink[heads],
    )
    question = budget.Question(query, key, value, setting, torch.device("cpu"))
    right = budget.truth(question)
    got = call.output[:1, :, rows.to(call.output.device)].detach().double().cpu()[:, heads]
    seen = allowed.any(-1, keepdim=True).expand(1, got.shape[1], -1, got.shape[-1])
    apart = ((got - right.output).abs() / right.allowance.clamp(min=1e-300)).masked_fill(~seen, 0.0)
    apart = apart.nan_to_num(nan=math.inf)
    where = np.unravel_index(int(apart.argmax()), apart.shape)
    return float(apart.amax()), (int(heads[where[1]]), int(rows[where[2]]))


def is_finite(x: Tensor) -> bool:
    """Whether all of its numbers are; in one pass."""
    return not x.numel() or all(bool(each.isfinite()) for each in x.detach().aminmax())


def lost(x: Tensor) -> Tensor | None:
    """Whether it holds NaN or inf, said on its device; -inf hides, and is no loss."""
    if not x.numel() or x.is_nested or x.is_meta or x.layout != torch.strided:
        return None
    top = x.detach().amax()
    return top.isnan() | (top == math.inf)
