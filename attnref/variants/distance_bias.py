r"""Attention whose scores get a number for the distance of query and key, learned or fixed.

.. math:: s_{ij} = c\,q_i\cdot k_j + b_{j-i}

The distances of n queries and m keys are the :math:`n+m-1` diagonals of the table of scores, so
that this many numbers per head say all. A block of the table is spread out of the stretch of them
that it needs, added, and thrown away; in the backward pass, the gradient of :math:`b_t` is the sum
of the scores' gradients along diagonal t, taken block by block.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import checks
from attnref._door import Call, both, check_without_gradient, enter, fused, narrowed
from attnref.masks import Mask
from attnref.onednn import product_with_transpose
from attnref.record import Example, Method
from attnref.reference import attend, scaled_dot_product_attention
from attnref.variants._autograd import attention, is_derived
from attnref.variants._strips import LOG2_E, Head, Strip, strips

__all__ = ["distance_bias_attention"]

_COLUMNS = 512  # keys a block; with 512 rows, its scores and its bias stay in cache


def distance_bias_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    bias: Tensor,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Softmax attention with a bias for each head and each distance, and the bias's gradient.

    .. math:: o_i = \sum_j p_{ij} v_j, \qquad
              p_{ij} \propto \exp\big(c\,q_i\cdot k_j + b_{j-i}\big), \qquad
              \frac{\partial L}{\partial b_t} = \sum_{j-i=t}\frac{\partial L}{\partial s_{ij}}

    The same function as :func:`attnref.scaled_dot_product_attention` with the table
    :math:`B_{ij}=b_{j-i}` as its ``attn_mask``, forward and backward; the table is never held.
    Where ``bias`` comes from is open, and gradients flow on to it: a table of buckets
    (:func:`attnref.positions.relative_buckets`), slopes times distances
    (:func:`attnref.positions.distances`), or another function of them.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        bias: ``(h, n + m - 1)``, or another shape whose leading dimensions broadcast with those
            of the scores: b from the distance -(n - 1), of the last query and the first key, to
            m - 1, of the first query and the last key. Any floating dtype; -inf = may not attend.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``. T5 has 1.0.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, in float32 or wider. A single query without gradients goes to PyTorch's
    kernel. A query that may attend to no key gives zeros and finite gradients. A NaN or inf
    reaches queries that may not attend to it, as in
    :func:`attnref.variants.blockwise.blockwise_attention`. Time ``2 p (d_k + d_v)`` operations
    forward and ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in blocks that are not empty.
    Memory ``O((n + m) (d_k + d_v))``, and 512 rows of the mask; second and forward-mode
    derivatives hold all n × m weights.

    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1; ALiBi: Press, Smith, Lewis 2021,
    arXiv 2108.12409; other functions of the distance: Chi et al. 2022, arXiv 2205.09921.

    Examples:
        >>> query = torch.zeros(1, 3, 2)
        >>> bias = torch.tensor([[0.0, 0.0, 0.0, 50.0, 0.0]])  # for the distances -2, -1, 0, 1, 2
        >>> value = torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> distance_bias_attention(query, query, value, bias=bias).flatten()
        tensor([2., 6., 3.])
    """
    call = enter(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    check_without_gradient(attn_mask)
    *lead, n, m = call.shape
    _check_bias(bias, query, call.shape)
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(query.dtype))
    if math.prod(call.shape) == 0 or v.shape[-1] == 0:
        return q @ (k.mT @ v) + bias[..., :0].sum().to(query.dtype)  # sums of nothing: zeros
    bias = bias.expand(*lead, n + m - 1).unsqueeze(-2)  # (..., 1, n + m - 1)
    if n == 1 and not is_derived(q, k, v, bias):
        return _step(call, bias)
    mask = call.attn_mask
    if mask is not None and mask.shape[-2:] != (n, m):
        mask = mask.expand((*mask.shape[:-2], n, m))
    core = _DistanceBias(mask if isinstance(mask, Mask) else None, is_causal, call.scale)
    tensors = [mask] if isinstance(mask, Tensor) else []
    return attention(core, q, k, v, bias, *tensors, by_values=True)


def _step(call: Call, bias: Tensor) -> Tensor:
    """The row of a single query, whose bias is a mask as it is, by the fused kernel."""
    mask = call.mask_tensor()
    added = narrowed(bias, call.dtype)  # (..., 1, m)
    query, key, value = (x.to(call.dtype) for x in call[:3])
    one = call._replace(
        query=query, key=key, value=value, attn_mask=added if mask is None else both(added, mask)
    )
    return fused(one).to(call.query.dtype)


class _DistanceBias(NamedTuple):
    """The loop over blocks, with the bias of each, and a backward that sums along diagonals."""

    mask: Mask | None  # a tensor comes as an argument, for autograd to watch
    is_causal: bool
    scale: float
    inputs: int = 4  # have a gradient: query, key, value and bias

    @property
    def unit(self) -> float:
        return math.log(2)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *others: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of powers of 2, and the score subtracted, ``(..., n, 1)``."""
        bias, *masks = others
        dtype = torch.promote_types(query.dtype, torch.float32)
        n = query.shape[-2]
        keys, values, biases = self._prepared(key, value, bias, dtype)
        output = query.new_empty(*query.shape[:-1], value.shape[-1])  # (..., n, d_v)
        totals = query.new_empty(*query.shape[:-1], 1, dtype=dtype)
        maxima = torch.empty_like(totals)
        for head, strip in self._strips(query, key, masks, dtype):
            rows, k, v, b = strip.rows, keys[head], values[head], biases[head]
            q = query[head][..., rows, :].to(dtype) * (self.scale * LOG2_E)  # (..., rows, d_k)
            maximum = torch.full_like(q[..., :1], torch.finfo(dtype).min)  # (..., rows, 1)
            total = torch.zeros_like(maximum)
            sums = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., rows, d_v)
            for columns in strip.columns(_COLUMNS):
                scores = _scores(q, k, b, strip, columns, n)  # (..., rows, columns)
                previous, maximum = maximum, torch.maximum(maximum, scores.amax(-1, True))
                rescale = torch.exp2(previous - maximum)
                powers = scores.sub_(maximum).exp2_()
                total = total * rescale + powers.sum(-1, keepdim=True)
                sums = sums * rescale + product_with_transpose(powers, v[..., columns, :].mT)
            output[head][..., rows, :] = sums / total.masked_fill(total == 0, 1.0)
            totals[head][..., rows, :], maxima[head][..., rows, :] = total, maximum
        return output, totals, maxima

    def backward(
        self,
        grad: Tensor,
        grad_normaliser: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        output: Tensor,
        totals: Tensor,
        maxima: Tensor,
        *others: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        bias, *masks = others
        dtype = maxima.dtype
        n = query.shape[-2]
        keys, values, biases = self._prepared(key, value, bias, dtype)
        d_query = torch.empty_like(query)  # (..., n, d_k)
        # Transposed, for then the product that makes each block reads its operands along rows.
        d_key = key.new_zeros(key.mT.shape, dtype=dtype)  # (..., d_k, m)
        d_value = value.new_zeros(value.mT.shape, dtype=dtype)  # (..., d_v, m)
        d_bias = torch.zeros_like(bias, dtype=dtype)  # (..., 1, n + m - 1)
        for head, strip in self._strips(query, key, masks, dtype):
            rows, k, v, b = strip.rows, keys[head], values[head], biases[head]
            q = query[head][..., rows, :].to(dtype) * (self.scale * LOG2_E)  # (..., rows, d_k)
            maximum, total = (x[head][..., rows, :] for x in (maxima, totals))  # (..., rows, 1)
            # Divided here, once: the weights below are powers that the total does not divide.
            g = grad[head][..., rows, :].to(dtype) / total.masked_fill(total == 0, 1.0)
            mean = (g * output[head][..., rows, :]).sum(-1, keepdim=True)  # (..., rows, 1)
            mean -= grad_normaliser[head][..., rows, :]  # which grows with each power alike
            d_q = torch.zeros_like(q)
            for columns in strip.columns(_COLUMNS):
                scores = _scores(q, k, b, strip, columns, n)  # (..., rows, columns)
                weights = scores.sub_(maximum).exp2_()
                d_value[head][..., columns] += product_with_transpose(g.mT, weights.mT)
                d_scores = product_with_transpose(g, v[..., columns, :]).sub_(mean).mul_(weights)
                d_key[head][..., columns] += product_with_transpose(q.mT, d_scores.mT)
                d_q += product_with_transpose(d_scores, k[..., columns, :].mT)
                along = _diagonals(rows, columns, n)
                d_bias[head][..., 0, along] += _sums_of_diagonals(d_scores)
            d_query[head][..., rows, :] = d_q * self.scale
        d_key *= math.log(2)  # q above holds the scale, and log2(e) beside it
        return d_query, d_key.mT.to(key.dtype), d_value.mT.to(value.dtype), d_bias.to(bias.dtype)

    def formula(
        self, query: Tensor, key: Tensor, value: Tensor, *others: Tensor
    ) -> tuple[Tensor, Tensor]:
        bias, *masks = others
        n, m = query.shape[-2], key.shape[-2]
        table = _spread(bias[..., 0, :], slice(0, m))  # (..., n, m)
        mask = masks[0] if masks else None
        if self.mask is not None:
            mask = self.mask.block(slice(0, n), slice(0, m), query.device)
        table = table if mask is None else both(table, mask)
        found = attend(query, key, value, table, is_causal=self.is_causal, scale=self.scale)
        return found.output, found.lse

    @staticmethod
    def _prepared(key: Tensor, value: Tensor, bias: Tensor, dtype: torch.dtype) -> list[Tensor]:
        """In the dtype of computation; the bias in units of ln 2, as the scores are."""
        bias = bias[..., 0, :]
        # finfo.min, with which some mean a very small weight, is not -inf in the other unit either.
        units = (bias.to(dtype) * LOG2_E).clamp(min=torch.finfo(dtype).min)
        units = units.masked_fill(bias == -torch.inf, -torch.inf)
        return [key.to(dtype).contiguous(), value.to(dtype).contiguous(), units]

    def _strips(
        self, query: Tensor, key: Tensor, masks: list[Tensor], dtype: torch.dtype
    ) -> Iterator[tuple[Head, Strip]]:
        shape = (*query.shape[:-1], key.shape[-2])
        mask = masks[0] if masks else self.mask
        return strips(shape, mask, self.is_causal, query.device, dtype)


def _scores(q: Tensor, k: Tensor, b: Tensor, strip: Strip, columns: slice, n: int) -> Tensor:
    """The scores of a block, with the bias of its diagonals and the mask, in units of ln 2."""
    products = product_with_transpose(q, k[..., columns, :])  # (..., rows, columns)
    products += _spread(b[..., _diagonals(strip.rows, columns, n)], columns)
    return strip.mask_(products, columns)


def _diagonals(rows: slice, columns: slice, n: int) -> slice:
    """Where a vector over all distances, the least first, holds those of a block."""
    first = n - rows.stop + columns.start  # of the last row and the first column
    return slice(first, first + (rows.stop - rows.start) + (columns.stop - columns.start) - 1)


def _spread(bias: Tensor, columns: slice) -> Tensor:
    """The block whose diagonals hold ``bias``: ``(..., rows + columns - 1)`` as (rows, columns)."""
    # Each row begins one place before the row above it; overlapping stretches are a view.
    return bias.unfold(-1, columns.stop - columns.start, 1).flip(-2)  # (..., rows, columns)


def _sums_of_diagonals(block: Tensor) -> Tensor:
    """The transpose of :func:`_spread`: what each diagonal adds up to."""
    rows, columns = block.shape[-2:]
    # Filled up by as many zeros as there are rows, and read again in rows one place shorter, each
    # row is one place further right than the one above it.
    filled = pad(block.flip(-2), (0, rows)).flatten(-2)  # (..., rows * (columns + rows))
    width = rows + columns - 1
    lines = filled[..., : rows * width].reshape(*block.shape[:-2], rows, width)
    return lines.sum(-2)  # (..., width)


def _check_bias(bias: Tensor, query: Tensor, shape: checks.Shape) -> None:
    *lead, n, m = shape
    if not isinstance(bias, Tensor):
        raise TypeError(
            f"bias: expected a torch.Tensor, got {type(bias).__name__}. Convert it with "
            "torch.as_tensor(bias)."
        )
    if not bias.is_floating_point():
        raise TypeError(
            f"bias: expected a floating dtype, got {bias.dtype}. The numbers of buckets are an "
            "index: take table[:, buckets]."
        )
    if bias.device != query.device:
        raise ValueError(
            f"bias: expected device {query.device}, where query is, got {bias.device}. Move it "
            "with bias.to(query.device)."
        )
    distances = max(n + m - 1, 0)
    own = bias.shape[:-1] if bias.dim() else ()
    if (
        bias.dim() == 0
        or bias.shape[-1] != distances
        or checks.broadcast_shape(own, lead) != (*lead,)
    ):
        raise ValueError(
            f"bias: expected shape (..., {distances}), a number for each distance of {n} queries "
            f"and {m} keys, with leading dimensions that broadcast to {(*lead,)}, got "
            f"{tuple(bias.shape)}. A table of all pairs goes into attn_mask; "
            f"attnref.positions.distances({n}, {m}) names the distances in their order."
        )


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    bias: Tensor,
    **options: Any,
) -> Tensor:
    """The definition with the table of all pairs as its mask."""
    n, m = query.shape[-2], key.shape[-2]
    place = torch.arange(m, device=bias.device) - torch.arange(n, device=bias.device)[:, None]
    table = bias[..., place + n - 1]  # (..., n, m)
    if isinstance(attn_mask, Mask):
        attn_mask = attn_mask.dense(query.device)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        table = table.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        table = table + attn_mask
    return scaled_dot_product_attention(query, key, value, table.to(query.dtype), **options)


def _distances(given: Example) -> dict[str, Any]:
    return {"bias": given.randn(max(0, given.n + given.m - 1))}


METHOD = Method(
    function=distance_bias_attention,
    page="variants/distance-bias",
    formula=_formula,
    example=_distances,
    plain=lambda given: {"bias": given.query.new_zeros(max(0, given.n + given.m - 1))},
    isolates=(),
    tasks=("distance",),
)
