r"""The truth, and how far from it an honest implementation may be.

The truth is the formula in float64, on the very numbers that the function gets; the tests compare
it with :mod:`attnref.oracle`. An output may be wrong by 1.5 times the largest error of PyTorch's
own function on the same input; where that happens to be small, by the floor: what rounding does at
most, to first order, to a program that stores each intermediate result once in the dtype, with unit
roundoff ``u``, and adds up in float32 at least, with unit roundoff ``u_a``:

- a score is a product of ``d_k`` terms, scaled and biased. Three roundings of size
  ``u`` and ``d_k`` of size ``u_a``, relative to
  ``A_ij = c Σ_l |q_il k_jl| + |b_ij|``, change it by
  ``δ_ij = (3u + d_k u_a) A_ij``; soft-capping to ``τ`` adds ``3uτ``;
- a change of the scores changes the output by ``Σ_j p_ij δ_ij (v_j - o_i)``,
  times at most ``e^(2 max_j δ_ij)`` for the terms of higher order, and never by more
  than the range of the values that the row sees;
- the weights are rounded when they are formed and when they are normalised, ``m`` products
  are added, and the output is rounded once more: ``(2u + m u_a) Σ_j p_ij |v_j| + u |o_i|``.

Gradients likewise: a weight is known to ``ρ_i = 2 max_j δ_ij + 8u + (m + n + d_k + d_v) u_a``, and
each gradient sums products with such weights, so that the sums of the absolute values, times
``ρ_i``, bound the error.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_LARGE = 1.0  # a change of a score that a series in it does not describe
FACTOR = 1.5  # what the error of PyTorch's own function is multiplied by


class Setting(NamedTuple):
    """The arguments beside query, key and value that change the result.

    ``seen`` ``(n, m)`` are the keys of a window, ``bias`` ``(h, n, m)`` are numbers by distance,
    ``sink`` ``(h,)`` joins the sum of each row's exponentials, and ``turn`` is done to query and
    key first, as a rotary embedding is.
    """

    attn_mask: Tensor | None = None
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    softcap: float | None = None
    seen: Tensor | None = None
    bias: Tensor | None = None
    sink: Tensor | None = None
    turn: Callable[[Tensor], Tensor] | None = None


class Question(NamedTuple):
    """A call: query, key and value in the dtype of the function, on the CPU, and the rest.

    ``device`` is where the function, and so PyTorch's own, computes.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    setting: Setting
    device: torch.device

    def added(self) -> Tensor:
        """All that is added to the scores, -inf where it forbids, ``(..., n, m)`` or ``(n, m)``."""
        n, m = self.query.shape[-2], self.key.shape[-2]
        added = torch.zeros(n, m, dtype=torch.float64)
        causal = torch.ones(n, m, dtype=torch.bool).tril() if self.setting.is_causal else None
        for allowed in (causal, self.setting.seen):
            added = added if allowed is None else added.masked_fill(~allowed, -math.inf)
        for mask in (self.setting.attn_mask, self.setting.bias):
            if mask is not None and mask.dtype == torch.bool:
                added = added.masked_fill(~mask, -math.inf)
            elif mask is not None:
                added = added + mask.double()
        return added

    def scale(self) -> float:
        """What the scores are multiplied by."""
        scale = self.setting.scale
        return self.query.shape[-1] ** -0.5 if scale is None else scale

    def tensors(self) -> list[Tensor]:
        """Query, key and value in float64, turned, one key head beside each query head."""
        turn = self.setting.turn or (lambda x: x)
        query, key, value = (x.double() for x in self[:3])
        return [turn(query), self._repeat_heads(turn(key)), self._repeat_heads(value)]

    def _repeat_heads(self, tensor: Tensor) -> Tensor:
        heads, held = self.query.shape[-3], tensor.shape[-3]
        return tensor.repeat_interleave(heads // held, -3) if held not in (0, heads) else tensor


class Truth(NamedTuple):
    """What a call should return, and how much each number may differ from it."""

    output: Tensor  # (..., n, d_v)
    weights: Tensor  # (..., n, m)
    allowance: Tensor  # (..., n, d_v)


class Gradient(NamedTuple):
    """What the gradient of an input should be, and how much each number may differ from it."""

    expected: Tensor
    allowance: Tensor


def truth(question: Question, *, exact_scores: bool = False, rows: Tensor | None = None) -> Truth:
    """The output and the weights, and the allowance of each number of the output.

    Args:
        question: the call.
        exact_scores: the dtype holds the scores themselves, so that storing them costs nothing.
        rows: those of the queries that are told; None is all.
    """
    query, key, value = question.tensors()
    added = question.added()
    weights = _weights(question, query, key, added)
    rounding = _Rounding(question.query.dtype)
    change = rounding.score_error(question, query, key, added, exact_scores=exact_scores)
    allowed = (added != -math.inf).expand(weights.shape)
    told = slice(None) if rows is None else rows
    weights, change, allowed = (x[..., told, :] for x in (weights, change, allowed))
    output = weights @ value
    allowance = rounding.output_error(change, weights, allowed, value, output)
    if question.setting.softcap is None and question.setting.sink is None:  # PyTorch has none
        theirs = _pytorch(question, *_turned(question), added)
        error = _largest_error(theirs[..., told, :].double().cpu(), output)
        allowance = allowance.clamp(min=FACTOR * error)
    # A row that sees nothing is zero, and there is nothing to round.
    return Truth(output, weights, allowance * allowed.any(-1, keepdim=True))


def gradients(question: Question, grad_output: Tensor) -> dict[str, Gradient]:
    """The gradients of query, key, value, and of a mask of numbers, and the allowance of each.

    Args:
        question: the call, without soft-capping, sinks and shared heads.
        grad_output: ``(..., n, d_v)``, the gradient of the loss to the output, in the dtype.
    """
    upstream, mask = grad_output.double(), question.setting.attn_mask
    leaves = {
        name: x.detach().double().requires_grad_()
        for name, x in (*zip(question._fields, question[:3], strict=False), ("attn_mask", mask))
        if x is not None and x.is_floating_point()
    }
    setting = question.setting._replace(attn_mask=leaves.get("attn_mask", mask))
    query, key, value = (leaves[name] for name in _INPUTS)
    exact = Question(query, key, value, setting, question.device)
    with torch.enable_grad():
        q, k, v = exact.tensors()
        added = exact.added()
        p = _weights(exact, q, k, added)
        right = torch.autograd.grad(loss(p @ v, upstream), list(leaves.values()))
    q, k, v, p, added, g = (x.detach() for x in (q, k, v, p, added, upstream.abs()))
    rounding = _Rounding(question.query.dtype)
    change = rounding.score_error(question, q, k, added, exact_scores=False)
    terms = q.shape[-2] + k.shape[-2] + q.shape[-1] + v.shape[-1]
    rho = 2 * change.amax(-1, keepdim=True) + 8 * rounding.unit + terms * rounding.sums
    to_weights = g @ v.abs().mT  # (..., n, m)
    to_bias = rho * p * (to_weights + (p * to_weights).sum(-1, keepdim=True))
    to_scores = abs(question.scale()) * to_bias
    samples = math.prod(q.shape[:-2])
    floors = {
        "query": to_scores @ k.abs(),
        "key": to_scores.mT @ q.abs(),
        "value": (rho * p).mT @ g,
        "attn_mask": to_bias.flatten(0, -3).sum(0) + samples * rounding.sums * to_bias.amax(),
    }
    theirs = _pytorch_gradients(question, grad_output)
    found = {}
    for (name, _), expected in zip(leaves.items(), right, strict=True):
        floor = floors[name] + rounding.unit * expected.abs() + rounding.tiny
        error = _largest_error(theirs[name], expected) if name in theirs else 0.0
        found[name] = Gradient(expected, floor.clamp(min=FACTOR * error))
    return found


def loss(output: Tensor, grad_output: Tensor) -> Tensor:
    """The number whose gradient to the output is that, ``grad_output``.

    Given the gradient itself, PyTorch first imports what it compiles with, for a second or two.
    """
    return (output * grad_output).sum()


def mean_error(value: Tensor, dtype: torch.dtype, score: float = 0.0) -> float:
    r"""What rounding does to a mean of values: to the weights, to the sum and to its result.

    Their weights may be computed as ``e^(s - L)`` with ``L = log Σ e^s``, which is of
    the size of the one ``score`` that they have. Rounded in float32 at least, it is wrong by
    ``u_a |s|``, to first order, and that is the relative error of all weights, and so of the
    mean.
    """
    rounding = _Rounding(dtype)
    largest = float(value.abs().amax()) if value.numel() else 0.0
    of_log = rounding.sums * abs(score)
    return ((value.shape[-2] + 3) * rounding.unit + of_log) * largest


class _Rounding:
    """What one rounding does in a dtype, and in the sums of its products."""

    def __init__(self, dtype: torch.dtype) -> None:
        limits = torch.finfo(dtype)
        self.unit = limits.eps / 2
        self.sums = min(self.unit, torch.finfo(torch.float32).eps / 2)
        self.tiny = limits.smallest_normal * limits.eps  # what underflow loses

    def score_error(
        self, question: Question, query: Tensor, key: Tensor, added: Tensor, *, exact_scores: bool
    ) -> Tensor:
        setting = question.setting
        stored = (self.sums if exact_scores else self.unit) * (3 if setting.turn is None else 7)
        size = abs(question.scale()) * query.abs() @ key.abs().mT  # (..., n, m)
        size = size + added.masked_fill(added == -math.inf, 0.0).abs()
        change: Tensor = (stored + query.shape[-1] * self.sums) * size
        return change + 3 * self.unit * (setting.softcap or 0.0)

    def output_error(
        self, change: Tensor, weights: Tensor, allowed: Tensor, value: Tensor, output: Tensor
    ) -> Tensor:
        m = value.shape[-2]
        seen = allowed[..., None]  # (..., n, m, 1)
        values = value[..., None, :, :].expand(*weights.shape, value.shape[-1])  # (..., n, m, d_v)
        most = values.masked_fill(~seen, -math.inf).amax(-2)
        least = values.masked_fill(~seen, math.inf).amin(-2)
        spread = (most - least).clamp(min=0.0)
        apart = (values - output[..., None, :]).abs()  # (..., n, m, d_v)
        first = ((weights * change)[..., None] * apart).sum(-2)
        worst = (change * allowed).amax(-1, keepdim=True)
        shifted = torch.minimum(first * torch.exp(2 * worst.clamp(max=_LARGE)), spread)
        size = (weights[..., None] * values.abs()).sum(-2)
        return (
            torch.where(worst < _LARGE, shifted, spread)
            + (2 * self.unit + m * self.sums) * size
            + self.unit * output.abs()
            + m * self.tiny * value.abs().amax()
        )


_INPUTS = ("query", "key", "value")


def _weights(question: Question, query: Tensor, key: Tensor, added: Tensor) -> Tensor:
    """The softmax of the scores in float64; a row that may see nothing has zeros."""
    scores = question.scale() * (query @ key.mT)
    if question.setting.softcap is not None:
        scores = question.setting.softcap * torch.tanh(scores / question.setting.softcap)
    scores = scores + added
    if question.setting.sink is not None:
        sink = question.setting.sink.double()[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink], -1)
    if not scores.shape[-1]:
        return scores
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    return weights[..., : key.shape[-2]]


def _turned(question: Question) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value in the dtype, as they are compared."""
    turn = question.setting.turn
    if turn is None:
        return question[:3]
    query, key = (turn(x.double()).to(x.dtype) for x in question[:2])
    return query, key, question.value


def _pytorch(
    question: Question, query: Tensor, key: Tensor, value: Tensor, added: Tensor
) -> Tensor:
    """What PyTorch's own function makes of these tensors, on the device."""
    mask = None
    if (added != 0).any():
        numbers = ((added != 0) & (added != -math.inf)).any()
        mask = (added.to(query.dtype) if numbers else added == 0).to(question.device)
    return scaled_dot_product_attention(
        query.to(question.device),
        key.to(question.device),
        value.to(question.device),
        mask,
        scale=question.setting.scale,
        enable_gqa=question.setting.enable_gqa,
    )


def _pytorch_gradients(question: Question, grad_output: Tensor) -> dict[str, Tensor]:
    if question.setting.turn is not None or question.setting.sink is not None:
        return {}
    leaves = [x.to(question.device, copy=True).requires_grad_() for x in question[:3]]
    with torch.enable_grad():
        output = _pytorch(question, leaves[0], leaves[1], leaves[2], question.added().detach())
        theirs = torch.autograd.grad(loss(output, grad_output.to(question.device)), leaves)
    return {name: x.double().cpu() for name, x in zip(_INPUTS, theirs, strict=True)}


def _largest_error(found: Tensor, expected: Tensor) -> float:
    """Over the numbers that are finite; NaN and inf excuse nothing."""
    error = (found - expected).abs()
    error = error[error.isfinite()]
    return float(error.amax()) if error.numel() else 0.0
