r"""The truth, and how far from it an honest implementation may be.

The truth is :mod:`attnref.oracle` on the very numbers that the function gets. An output may be
wrong by 1.5 times the largest error of PyTorch's own function on the same input; where that
happens to be small, by the floor: what rounding does at most, to first order, to a program
that stores each intermediate result once in the dtype, with unit roundoff ``u``, and adds
up in float32 at least, with unit roundoff ``u_a``:

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
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnref import masks, oracle

_LARGE = 1.0  # a change of a score that a series in it does not describe
FACTOR = 1.5  # what the error of PyTorch's own function is multiplied by


class Setting(NamedTuple):
    """The arguments beside query, key and value that change the result."""

    attn_mask: Tensor | None = None
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    softcap: float | None = None


class Question(NamedTuple):
    """A call: query, key and value in the dtype of the function, on the CPU, and the rest.

    ``device`` is where the function, and so PyTorch's own, computes.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    setting: Setting
    device: torch.device

    def bias(self) -> Tensor:
        """The mask as numbers to add, causality included, ``(..., n, m)`` or ``(n, m)``."""
        n, m = self.query.shape[-2], self.key.shape[-2]
        bias = torch.zeros(n, m, dtype=torch.float64)
        if self.setting.is_causal:
            allowed = masks.causal(n, m, alignment="top-left").dense()
            bias = bias.masked_fill(~allowed, -math.inf)
        mask = self.setting.attn_mask
        if mask is None:
            return bias
        if mask.dtype == torch.bool:
            return bias.masked_fill(~mask, -math.inf)
        return bias + mask.double()

    def scale(self) -> float:
        """What the scores are multiplied by."""
        scale = self.setting.scale
        return self.query.shape[-1] ** -0.5 if scale is None else scale

    def repeat_heads(self, tensor: Tensor) -> Tensor:
        """One key head beside each query head that reads it."""
        heads, held = self.query.shape[-3], tensor.shape[-3]
        return tensor.repeat_interleave(heads // held, -3) if held else tensor


class Truth(NamedTuple):
    """What a call should return, and how much each number may differ from it."""

    output: Tensor  # (..., n, d_v)
    weights: Tensor  # (..., n, m)
    allowance: Tensor  # (..., n, d_v)


class Gradient(NamedTuple):
    """What the gradient of an input should be, and how much each number may differ from it."""

    expected: Tensor
    allowance: Tensor


def truth(question: Question, *, exact_scores: bool = False) -> Truth:
    """The output and the weights, and the allowance of each number of the output.

    Args:
        question: the call.
        exact_scores: the dtype holds the scores themselves, so that storing them costs nothing.
    """
    output, weights = _oracle(question)
    rounding = _Rounding(question.query.dtype)
    value = question.repeat_heads(question.value.double())
    change = rounding.score_error(question, exact_scores=exact_scores)  # (..., n, m)
    allowed = (question.bias() != -math.inf).expand(weights.shape)
    allowance = rounding.output_error(change, weights, allowed, value, output)
    if question.setting.softcap is None:  # PyTorch has none
        theirs = _pytorch(question, question.query, question.key, question.value)
        error = _largest_error(theirs.double().cpu(), output)
        allowance = allowance.clamp(min=FACTOR * error)
    # A row that sees nothing is zero, and there is nothing to round.
    return Truth(output, weights, allowance * allowed.any(-1, keepdim=True))


def gradients(question: Question, grad_output: Tensor) -> dict[str, Gradient]:
    """The gradients of query, key and value, and the allowance of each number in them.

    Args:
        question: the call, without soft-capping and shared heads.
        grad_output: ``(..., n, d_v)``, the gradient of the loss to the output, in the dtype.
    """
    q, k, v, g = (x.double() for x in (*question[:3], grad_output))
    rounding = _Rounding(question.query.dtype)
    change = rounding.score_error(question, exact_scores=False)
    terms = q.shape[-2] + k.shape[-2] + q.shape[-1] + v.shape[-1]
    rho = 2 * change.amax(-1, keepdim=True) + 8 * rounding.unit + terms * rounding.sums
    _, p = _oracle(question)
    to_weights = g.abs() @ v.abs().mT  # (..., n, m)
    to_scores = rho * p * (to_weights + (p * to_weights).sum(-1, keepdim=True))
    to_scores = abs(question.scale()) * to_scores
    floors = (to_scores @ k.abs(), to_scores.mT @ q.abs(), (rho * p).mT @ g.abs())
    right = oracle.gradients(
        g.numpy(),
        q.numpy(),
        k.numpy(),
        v.numpy(),
        question.bias().numpy(),
        scale=question.setting.scale,
    )
    leaves = [x.to(question.device, copy=True).requires_grad_() for x in question[:3]]
    with torch.enable_grad():
        output = _pytorch(question, leaves[0], leaves[1], leaves[2])
        theirs = torch.autograd.grad(loss(output, grad_output.to(question.device)), leaves)
    found = {}
    for index, name in enumerate(("query", "key", "value")):
        expected = torch.from_numpy(right[index])
        floor = floors[index] + rounding.unit * expected.abs() + rounding.tiny
        error = _largest_error(theirs[index].double().cpu(), expected)
        found[name] = Gradient(expected, floor.clamp(min=FACTOR * error))
    return found


def loss(output: Tensor, grad_output: Tensor) -> Tensor:
    """The number whose gradient to the output is that, ``grad_output``.

    Given the gradient itself, PyTorch first imports what it compiles with, for a second or two.
    """
    return (output * grad_output).sum()


def mask_gradient(question: Question, grad_output: Tensor) -> Gradient:
    """The gradient of a mask of numbers ``(n, m)``, that of the scores, and its allowance.

    Args:
        question: the call, without soft-capping and shared heads.
        grad_output: ``(..., n, d_v)``, the gradient of the loss to the output, in the dtype.
    """
    q, k, v, g = (x.double() for x in (*question[:3], grad_output))
    rounding = _Rounding(question.query.dtype)
    change = rounding.score_error(question, exact_scores=False)
    terms = math.prod(q.shape[:-1]) + k.shape[-2] + q.shape[-1] + v.shape[-1]
    rho = 2 * change.amax(-1, keepdim=True) + 8 * rounding.unit + terms * rounding.sums
    _, p = _oracle(question)
    to_weights, most = g @ v.mT, g.abs() @ v.abs().mT  # (..., n, m)
    each = p * (to_weights - (p * to_weights).sum(-1, keepdim=True))
    floor = rho * p * (most + (p * most).sum(-1, keepdim=True))
    expected = each.flatten(0, -3).sum(0)
    return Gradient(expected, floor.flatten(0, -3).sum(0) + rounding.unit * expected.abs())


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

    def score_error(self, question: Question, *, exact_scores: bool) -> Tensor:
        q, k = question.query.double(), question.repeat_heads(question.key.double())
        bias = question.bias()
        stored = self.sums if exact_scores else self.unit
        size = abs(question.scale()) * q.abs() @ k.abs().mT  # (..., n, m)
        size = size + bias.masked_fill(bias == -math.inf, 0.0).abs()
        change: Tensor = (3 * stored + q.shape[-1] * self.sums) * size
        return change + 3 * self.unit * (question.setting.softcap or 0.0)

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


def _oracle(question: Question) -> tuple[Tensor, Tensor]:
    """Output and weights in float64."""
    q, k, v = (tensor.double().numpy() for tensor in question[:3])
    output, weights, _ = oracle.attend(
        q,
        k,
        v,
        question.bias().numpy(),
        scale=question.setting.scale,
        enable_gqa=question.setting.enable_gqa,
        softcap=question.setting.softcap,
    )
    return torch.from_numpy(output), torch.from_numpy(weights)


def _pytorch(question: Question, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """What PyTorch's own function makes of these tensors, on the device."""
    bias, mask = question.bias(), None
    if (bias != 0).any():
        added = ((bias != 0) & (bias != -math.inf)).any()
        mask = (bias.to(query.dtype) if added else bias == 0).to(question.device)
    return scaled_dot_product_attention(
        query.to(question.device),
        key.to(question.device),
        value.to(question.device),
        mask,
        scale=question.setting.scale,
        enable_gqa=question.setting.enable_gqa,
    )


def _largest_error(found: Tensor, expected: Tensor) -> float:
    """Over the numbers that are finite; NaN and inf excuse nothing."""
    error = (found - expected).abs()
    error = error[error.isfinite()]
    return float(error.amax()) if error.numel() else 0.0
