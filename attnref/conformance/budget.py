r"""The truth, and how far from it an honest implementation may be.

The truth is :mod:`attnref.oracle` on the very numbers that the function gets. An output may be
wrong by 1.5 times the largest error of PyTorch's own function on the same input; where that
happens to be small, by the floor: what rounding does at most, to first order, to a program
that stores each intermediate result once in the dtype, with unit roundoff :math:`u`, and adds
up in float32 at least, with unit roundoff :math:`u_a`:

- a score is a product of :math:`d_k` terms, scaled and biased. Three roundings of size
  :math:`u` and :math:`d_k` of size :math:`u_a`, relative to
  :math:`A_{ij} = c \sum_l |q_{il} k_{jl}| + |b_{ij}|`, change it by
  :math:`\delta_{ij} = (3u + d_k u_a) A_{ij}`; soft-capping to :math:`\tau` adds :math:`3u\tau`;
- a change of the scores changes the output by :math:`\sum_j p_{ij}\,\delta_{ij}\,(v_j - o_i)`,
  times at most :math:`e^{2\max_j \delta_{ij}}` for the terms of higher order, and never by more
  than the range of the values that the row sees;
- the weights are rounded when they are formed and when they are normalised, and :math:`m`
  products are added: :math:`(2u + m u_a) \sum_j p_{ij} |v_j|`; the output is rounded once more,
  :math:`u\,|o_i|`.

Gradients likewise: a weight is known to :math:`\rho_i = 2\max_j\delta_{ij} + 8u +
(m + n + d_k + d_v) u_a`, and each gradient sums products with such weights, so that the sums of
the absolute values, times :math:`\rho_i`, bound the error.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnref import masks, oracle

FACTOR = 1.5  # what the error of PyTorch's own function is multiplied by


class Truth(NamedTuple):
    """What a call should return, and how much each number may differ from it."""

    output: Tensor  # (..., n, d_v)
    weights: Tensor  # (..., n, m)
    allowance: Tensor  # (..., n, d_v)


class Gradients(NamedTuple):
    """What each input's gradient should be, and how much each number may differ from it."""

    expected: tuple[Tensor, Tensor, Tensor]
    allowance: tuple[Tensor, Tensor, Tensor]


class Setting(NamedTuple):
    """The arguments beside query, key and value that change the result."""

    attn_mask: Tensor | None = None
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    softcap: float | None = None

    def bias(self, n: int, m: int) -> Tensor:
        """The mask as numbers to add, causality included, ``(..., n, m)`` or ``(n, m)``."""
        bias = torch.zeros(n, m, dtype=torch.float64)
        if self.is_causal:
            allowed = masks.causal(n, m, alignment="top-left").dense()
            bias = bias.masked_fill(~allowed, -math.inf)
        if self.attn_mask is None:
            return bias
        if self.attn_mask.dtype == torch.bool:
            return bias.masked_fill(~self.attn_mask, -math.inf)
        return bias + self.attn_mask.double()


def truth(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    setting: Setting,
    device: torch.device,
    *,
    exact_scores: bool = False,
) -> Truth:
    """The output and the weights, and the allowance of each number of the output.

    Args:
        query, key, value: what the function gets, in its dtype, on the CPU.
        setting: the other arguments.
        device: where PyTorch's own error is measured.
        exact_scores: the dtype holds the scores themselves, so that storing them costs nothing.
    """
    q, k, v = query.double(), key.double(), value.double()
    bias = setting.bias(query.shape[-2], key.shape[-2])
    output, weights = (
        torch.from_numpy(array)
        for array in oracle.scaled_dot_product_attention(
            q.numpy(),
            k.numpy(),
            v.numpy(),
            bias.numpy(),
            scale=setting.scale,
            enable_gqa=setting.enable_gqa,
            softcap=setting.softcap,
        )
    )
    rounding = _Rounding(query.dtype)
    heads = query.shape[-3]
    k, v = _shared(k, heads), _shared(v, heads)
    change = rounding.of_scores(q, k, bias, setting, exact_scores)  # (..., n, m)
    allowance = rounding.of_output(change, weights, v, output)
    if setting.softcap is None:  # PyTorch has none
        theirs = _pytorch(query, key, value, bias, setting, device)
        allowance = allowance.clamp(min=FACTOR * _largest_error(theirs, output))
    return Truth(output, weights, allowance)


def gradients(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    setting: Setting,
    device: torch.device,
) -> Gradients:
    """The gradients of query, key and value, and the allowance of each number in them.

    Arguments as in :func:`truth`; ``grad_output`` ``(..., n, d_v)`` is the gradient of the loss
    to the output. Without soft-capping and shared heads.
    """
    g, q, k, v = (tensor.double() for tensor in (grad_output, query, key, value))
    bias = setting.bias(query.shape[-2], key.shape[-2])
    arrays = (tensor.numpy() for tensor in (g, q, k, v, bias))
    found = oracle.gradients(*arrays, scale=setting.scale)
    expected = [torch.from_numpy(found[index]) for index in range(3)]
    _, weights = oracle.scaled_dot_product_attention(
        q.numpy(), k.numpy(), v.numpy(), bias.numpy(), scale=setting.scale
    )
    p = torch.from_numpy(weights)
    rounding = _Rounding(query.dtype)
    scale = _scale(setting, query)
    change = rounding.of_scores(q, k, bias, setting, exact_scores=False)
    terms = query.shape[-2] + key.shape[-2] + query.shape[-1] + value.shape[-1]
    rho = 2 * change.amax(-1, keepdim=True) + 8 * rounding.unit + terms * rounding.sums
    to_weights = g.abs() @ v.abs().mT  # (..., n, m)
    to_scores = rho * p * (to_weights + (p * to_weights).sum(-1, keepdim=True))
    floors = (
        scale * to_scores @ k.abs(),
        scale * to_scores.mT @ q.abs(),
        (rho * p).mT @ g.abs(),
    )
    leaves = [x.to(device, copy=True).requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        theirs = _pytorch(*leaves, bias, setting, device, keep=True)
        back = torch.autograd.grad(theirs, leaves, grad_output.to(device))
    allowance = [
        (floor + rounding.unit * right.abs() + rounding.tiny).clamp(
            min=FACTOR * _largest_error(gradient.double().cpu(), right)
        )
        for floor, right, gradient in zip(floors, expected, back, strict=True)
    ]
    return Gradients(tuple(expected), tuple(allowance))


def of_mean(value: Tensor, dtype: torch.dtype) -> float:
    """What rounding does to a mean of values: to the weights, to the sum and to its result."""
    largest = float(value.abs().amax()) if value.numel() else 0.0
    return (value.shape[-2] + 3) * torch.finfo(dtype).eps / 2 * largest


class _Rounding:
    """What one rounding does in a dtype, and in the sums of its products."""

    def __init__(self, dtype: torch.dtype) -> None:
        limits = torch.finfo(dtype)
        self.unit = limits.eps / 2
        self.sums = min(self.unit, torch.finfo(torch.float32).eps / 2)
        self.tiny = limits.smallest_normal * limits.eps  # what underflow loses

    def of_scores(
        self, q: Tensor, k: Tensor, bias: Tensor, setting: Setting, exact_scores: bool
    ) -> Tensor:
        stored = self.sums if exact_scores else self.unit
        size = _scale(setting, q) * q.abs() @ k.abs().mT  # (..., n, m)
        size = size + bias.masked_fill(bias == -math.inf, 0.0).abs()
        capped = 0.0 if setting.softcap is None else setting.softcap
        return (3 * stored + q.shape[-1] * self.sums) * size + 3 * self.unit * capped

    def of_output(self, change: Tensor, weights: Tensor, v: Tensor, output: Tensor) -> Tensor:
        m = v.shape[-2]
        if not m:
            return torch.zeros_like(output)
        seen = (weights > 0)[..., None]  # (..., n, m, 1)
        values = v[..., None, :, :].expand(*weights.shape, v.shape[-1])  # (..., n, m, d_v)
        most = values.masked_fill(~seen, -math.inf).amax(-2)
        least = values.masked_fill(~seen, math.inf).amin(-2)
        spread = (most - least).clamp(min=0.0)  # of a row that sees nothing: 0
        apart = (values - output[..., None, :]).abs()  # (..., n, m, d_v)
        first = ((weights * change)[..., None] * apart).sum(-2)
        worst = (change * seen[..., 0]).amax(-1, keepdim=True)
        size = (weights[..., None] * values.abs()).sum(-2)
        largest = v.abs().amax() if v.numel() else 0.0
        return (
            torch.minimum(first * torch.exp(2 * worst), spread)
            + (2 * self.unit + m * self.sums) * size
            + self.unit * output.abs()
            + m * self.tiny * largest * seen.any(-2)
        )


def _pytorch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    setting: Setting,
    device: torch.device,
    *,
    keep: bool = False,
) -> Tensor:
    """PyTorch's own function; in float64 on the CPU unless the result is to be kept as it is."""
    mask = None
    if (bias != 0).any():
        added = ((bias != 0) & (bias != -math.inf)).any()
        mask = (bias.to(query.dtype) if added else bias == 0).to(device)
    output = scaled_dot_product_attention(
        query.to(device),
        key.to(device),
        value.to(device),
        mask,
        scale=setting.scale,
        enable_gqa=setting.enable_gqa,
    )
    return output if keep else output.double().cpu()


def _largest_error(found: Tensor, expected: Tensor) -> float:
    """Over the numbers that are finite; NaN and inf excuse nothing."""
    error = (found - expected).abs()
    error = error[error.isfinite()]
    return float(error.amax()) if error.numel() else 0.0


def _scale(setting: Setting, query: Tensor) -> float:
    return query.shape[-1] ** -0.5 if setting.scale is None else abs(setting.scale)


def _shared(tensor: Tensor, heads: int) -> Tensor:
    """One key head beside each query head that reads it."""
    return tensor.repeat_interleave(heads // tensor.shape[-3], -3) if tensor.shape[-3] else tensor
