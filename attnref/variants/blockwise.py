r"""Exact attention in memory that grows with n, not with n²: one block of scores at a time.

Over the blocks :math:`B` of keys, each query carries the largest score so far :math:`\mu`, the
normaliser :math:`\ell` and the unnormalised output :math:`a`:

.. math:: \mu' = \max(\mu, \max_{j\in B} s_j), \qquad
          \ell' = 2^{\mu-\mu'}\ell + \sum_{j\in B} 2^{s_j-\mu'}, \qquad
          a' = 2^{\mu-\mu'}a + \sum_{j\in B} 2^{s_j-\mu'} v_j

with scores in units of :math:`\ln 2`; the output is :math:`a/\ell`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref._door import (
    Call,
    check_without_gradient,
    enter,
    fused,
    side_by_side,
    with_positive_scale,
)
from attnref.masks import Mask
from attnref.onednn import product_with_transpose
from attnref.record import Method
from attnref.reference import attend, scaled_dot_product_attention
from attnref.softmax import Partial
from attnref.variants._autograd import beside_sink, is_derived, partial_result
from attnref.variants._strips import LOG2_E, Head, Strip, strips

__all__ = ["blockwise_attention"]

# 512 × 1024 scores are 2 MiB in float32: large enough for the matrix products to run at full
# speed, small enough to stay in cache; and sums over more keys by oneDNN err more.
_COLUMNS = 1024
_COLUMNS_BACK = 512
_FEW_PAIRS = 1024 * 1024  # up to this, the calls of one block cost more than its arithmetic
_SAFE = 60.0  # of scores this small in units of ln 2, no power and no sum of powers overflows


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""Softmax attention under any mask, without ever holding all n × m weights.

    .. math:: o_i = \sum_j p_{ij} v_j, \qquad p_{ij} = \frac{e^{s_{ij}}}{\sum_l e^{s_{il}}}

    The same function as :func:`attnref.scaled_dot_product_attention`, forward and backward:
    ``attn_mask`` and ``is_causal`` together mean both, and a query that may attend to no key
    gives zeros and finite gradients. Blocks of keys that no query of a block may see are
    skipped, and a :class:`attnref.masks.Mask` never becomes a whole tensor.

    PyTorch's fused kernel computes what it does at least as fast, with derivatives of every order:
    without ``attn_mask`` all calls on a GPU, those with few pairs (n m up to 1024²), and on a
    processor those in float32 or float64 with d_k = d_v. The others go through a loop over blocks
    whose products, by oneDNN in float32 at least, are large: the kernel would hold a mask with all
    its pairs, and it rounds the weights of half-precision inputs.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        sink: a score for each head, as in :func:`attnref.scaled_dot_product_attention`.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does, and for dropout or a mask with gradient.

    Exact up to rounding, in float32 or wider. Unlike the reference, a NaN or inf reaches every
    query that shares a block with one that sees it. Time ``2 p (d_k + d_v)``
    operations forward and ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in blocks that are not
    empty; a mask object adds a few operations per pair, once for all heads. Memory
    ``O((n + m) (d_k + d_v))``, and 512 rows of the mask; second and forward-mode
    derivatives hold all n × m weights.
    Prefer ``is_causal`` to ``masks.causal``: it need not be asked.

    Source: Rabe and Staats 2021, arXiv 2112.05682; backward from the log-sum-exp: Dao et al.
    2022, arXiv 2205.14135, algorithm 4.

    Examples:
        >>> from attnref import masks
        >>> query, key, value = torch.ones(1, 2), torch.eye(2), torch.tensor([[10.0], [20.0]])
        >>> blockwise_attention(query, key, value, masks.causal(1, 2, alignment="top-left"))
        tensor([[10.]])
    """
    call = enter(query, key, value, attn_mask, is_causal, scale, enable_gqa, sink=sink)
    if dropout_p != 0.0:
        raise ValueError(
            f"dropout_p: expected 0.0, got {dropout_p!r}. Weights that are never stored cannot be "
            "dropped; use attnref.scaled_dot_product_attention."
        )
    check_without_gradient(attn_mask)
    return blockwise(call)


def blockwise(call: Call) -> Tensor:
    """The output, ``(..., n, d_v)``, by the fused kernel or block by block."""
    if call.sink is not None:
        return beside_sink(partial(call), call.sink).to(call.query.dtype)
    kernel = _kernel_is_as_fast(call)
    if kernel and math.prod(call.shape) > 0 and not (_on_cpu(call) and is_derived(*call[:3])):
        return fused(call)
    return _partial(call, kernel).output


def partial(call: Call) -> Partial:
    """The output with what it takes to merge it, in the dtype of computation, without the sink."""
    # The kernel tells the sums of its rows, but takes no gradient of them.
    kernel = _on_cpu(call) and _kernel_is_as_fast(call) and not is_derived(*call[:3])
    found = _partial(call, kernel)
    if kernel:
        found = found._replace(normaliser=torch.ones_like(found.maximum))
    return found._replace(output=found.output.to(call.dtype))


def _on_cpu(call: Call) -> bool:
    return call.query.device.type == "cpu"


def _kernel_is_as_fast(call: Call) -> bool:
    """Whether PyTorch's fused kernel computes what this loop does, at least as fast."""
    n, m = call.shape[-2:]
    wide = call.query.dtype not in (torch.float16, torch.bfloat16)
    # Copies filled up to one width would cost what the kernel saves.
    one_width = call.key.shape[-1] == call.value.shape[-1]
    few = n * m <= _FEW_PAIRS
    return call.attn_mask is None and (not _on_cpu(call) or few or (wide and one_width))


def _partial(call: Call, kernel: bool) -> Partial:
    *lead, n, m = call.shape
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(call.query.dtype))
    d_k, d_v = query.shape[-1], value.shape[-1]
    if d_v == 0 or math.prod(call.shape) == 0:
        output = query @ (key.mT @ value) if d_v == 0 else query @ key.mT @ value
        maximum = output.new_full((*lead, n, 1), -torch.inf, dtype=call.dtype)
        return Partial(output, maximum, torch.zeros_like(maximum))  # sums of nothing
    if kernel:
        if call.is_causal and call.scale <= 0:
            call = with_positive_scale(call)
            query = call.query.expand(query.shape)
        width = max(d_k, d_v)
        filled = (
            x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1]))
            for x in (query, key, value)
        )
        found = partial_result(_Kernel(call.is_causal, call.scale), *filled)
        return found if d_v == width else found._replace(output=found.output[..., :d_v])
    mask = call.attn_mask
    # With all its rows and keys, so that blocks can be cut from it.
    if mask is not None and mask.shape[-2:] != (n, m):
        mask = mask.expand((*mask.shape[:-2], n, m))
    own = mask if isinstance(mask, Mask) else None
    by_blocks = _Blockwise(own, call.is_causal, call.scale)
    tensors = [mask] if isinstance(mask, Tensor) else []
    # The loop asks for values without a mask too: how large the scores are.
    return partial_result(by_blocks, query, key, value, *tensors, by_values=True)


class _Kernel(NamedTuple):
    """PyTorch's fused kernel for a processor, whose own backward has no derivative."""

    is_causal: bool
    scale: float

    @property
    def unit(self) -> float:
        return 1.0

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the logarithm of each row's sum of exponentials, ``(..., n, 1)``."""
        *lead, n, _ = query.shape
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            *map(_in_one_batch, (query, key, value)), 0.0, self.is_causal, scale=self.scale
        )
        lse = lse.reshape(*lead, n, 1)
        return output.reshape(*lead, n, value.shape[-1]), lse[..., :0], lse

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
        *masks: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tensors = grad, query, key, value, output
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *map(_in_one_batch, tensors),
            _in_one_batch(maxima)[..., 0],
            0.0,
            self.is_causal,
            scale=self.scale,
        )
        d_query, d_key, d_value = (
            x.reshape(like.shape) for x, like in zip(gradients, tensors[1:4], strict=True)
        )
        return d_query, d_key, d_value

    def formula(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor]:
        found = attend(query, key, value, is_causal=self.is_causal, scale=self.scale)
        return found.output, found.lse


def _in_one_batch(tensor: Tensor) -> Tensor:
    """In the four dimensions of the kernel, ``(batch, 1, length, width)``."""
    return side_by_side(tensor.reshape(-1, 1, *tensor.shape[-2:]))


class _Blockwise(NamedTuple):
    """The loop over blocks, and a backward that computes each block of weights again."""

    mask: Mask | None  # a tensor comes as an argument, for autograd to watch
    is_causal: bool
    scale: float

    @property
    def unit(self) -> float:
        return math.log(2)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of powers of 2, and the score subtracted, ``(..., n, 1)``."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        keys, values = (x.to(dtype).contiguous() for x in (key, value))
        output = query.new_empty(*query.shape[:-1], value.shape[-1])  # (..., n, d_v)
        totals = query.new_empty(*query.shape[:-1], 1, dtype=dtype)
        maxima = torch.empty_like(totals)
        longest = keys.norm(dim=-1).amax(-1)  # (...)
        # Scores below this, in units of ln 2, have powers that values may multiply.
        least, most = values.flatten(-2).aminmax(dim=-1)  # (...) each
        safe = _SAFE - torch.maximum(-least, most).clamp(min=1.0).log2()  # (...)
        if any(mask.is_floating_point() for mask in masks):
            safe = torch.full_like(safe, -torch.inf)  # what is added may be of any size
        for head, strip in self._strips(query, key, masks, dtype):
            rows, all_keys, all_values = strip.rows, keys[head], values[head]
            q = query[head][..., rows, :].to(dtype) * (self.scale * LOG2_E)  # (..., rows, d_k)
            bounded = bool((q.norm(dim=-1).amax(-1) * longest[head] < safe[head]).all())
            maximum = torch.full_like(q[..., :1], 0.0 if bounded else torch.finfo(dtype).min)
            total = torch.zeros_like(maximum)  # (..., rows, 1)
            sums = q.new_zeros(*q.shape[:-1], value.shape[-1])  # (..., rows, d_v)
            for columns in strip.columns(_COLUMNS):
                k, v = all_keys[..., columns, :], all_values[..., columns, :]
                powers = strip.mask_(product_with_transpose(q, k), columns)  # (..., rows, columns)
                if not bounded:
                    previous, maximum = maximum, torch.maximum(maximum, powers.amax(-1, True))
                    powers.sub_(maximum)
                    rescale = torch.exp2(previous - maximum)
                    total.mul_(rescale)
                    sums.mul_(rescale)
                total.add_(powers.exp2_().sum(-1, keepdim=True))
                sums.add_(product_with_transpose(powers, v.mT))
                del powers  # or the next block would be made while this one is there
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
        *masks: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = totals.dtype
        # What rounds the gradient anyway may round the operands of its products.
        narrow = torch.bfloat16 if query.dtype == torch.bfloat16 else dtype
        keys, values = (x.to(dtype).contiguous() for x in (key, value))
        d_query = torch.empty_like(query)  # (..., n, d_k)
        # Transposed, for then the product that makes each block reads its operands along rows.
        d_key = key.new_zeros(key.mT.shape, dtype=dtype)  # (..., d_k, m)
        d_value = value.new_zeros(value.mT.shape, dtype=dtype)  # (..., d_v, m)
        for head, strip in self._strips(query, key, masks, dtype):
            rows, all_keys, all_values = strip.rows, keys[head], values[head]
            maximum, total = (x[head][..., rows, :] for x in (maxima, totals))  # (..., rows, 1)
            shifted = bool(maximum.any())
            q = query[head][..., rows, :].to(dtype) * (self.scale * LOG2_E)  # (..., rows, d_k)
            # Divided here, once: the weights below are powers that the total does not divide.
            g = grad[head][..., rows, :].to(dtype) / total.masked_fill(total == 0, 1.0)
            mean = (g * output[head][..., rows, :]).sum(-1, keepdim=True)  # (..., rows, 1)
            mean -= grad_normaliser[head][..., rows, :]  # which grows with each power alike
            q_columns, g_columns = (x.mT.to(narrow).contiguous() for x in (q, g))
            d_q = torch.zeros_like(q)
            for columns in strip.columns(_COLUMNS_BACK):
                k, v = all_keys[..., columns, :], all_values[..., columns, :]
                weights = strip.mask_(product_with_transpose(q, k), columns)  # (..., rows, columns)
                weights = (weights.sub_(maximum) if shifted else weights).exp2_()
                d_value[head][..., columns] += product_with_transpose(
                    g_columns, weights.to(narrow).mT
                )
                d_scores = product_with_transpose(g, v).sub_(mean).mul_(weights).to(narrow)
                d_key[head][..., columns] += product_with_transpose(q_columns, d_scores.mT)
                d_q += product_with_transpose(d_scores, k.to(narrow).mT)
                del weights, d_scores  # as above
            d_query[head][..., rows, :] = d_q * self.scale
        d_key *= math.log(2)  # q above holds the scale, and log2(e) beside it
        return d_query, d_key.mT.to(key.dtype), d_value.mT.to(value.dtype)

    def formula(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor]:
        n, m = query.shape[-2], key.shape[-2]
        mask = masks[0] if masks else None
        if self.mask is not None:
            mask = self.mask.block(slice(0, n), slice(0, m), query.device)
        found = attend(query, key, value, mask, is_causal=self.is_causal, scale=self.scale)
        return found.output, found.lse

    def _strips(
        self, query: Tensor, key: Tensor, masks: Sequence[Tensor], dtype: torch.dtype
    ) -> Iterator[tuple[Head, Strip]]:
        shape = (*query.shape[:-1], key.shape[-2])
        mask = masks[0] if masks else self.mask
        return strips(shape, mask, self.is_causal, query.device, dtype)


METHOD = Method(
    function=blockwise_attention,
    page="variants/blockwise",
    formula=scaled_dot_product_attention,
    peers=("memory-efficient-attention-pytorch",),
    isolates=(),
    tasks=("dense", "causal", "window", "blocks", "chosen", "packed", "decode", "drafts", "sink"),
)
