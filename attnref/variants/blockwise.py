r"""Exact attention in memory that grows with n, not with n²: one block of scores at a time.

Over the blocks :math:`B` of keys, each query carries the largest score so far :math:`\mu`, the
normaliser :math:`\ell` and the unnormalised output :math:`a`:

.. math:: \mu' = \max(\mu, \max_{j\in B} s_j), \qquad
          \ell' = 2^{\mu-\mu'}\ell + \sum_{j\in B} 2^{s_j-\mu'}, \qquad
          a' = 2^{\mu-\mu'}a + \sum_{j\in B} 2^{s_j-\mu'} v_j

with scores in units of :math:`\ln 2`; the output is :math:`a/\ell`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref import checks, masks
from attnref._door import Call, enter, fused, own_precision
from attnref.masks import EMPTY, FULL, MIXED, Mask
from attnref.onednn import product_with_transpose

__all__ = ["blockwise_attention"]

# 512 × 2048 scores are 4 MiB in float32: large enough for the matrix products to run at full
# speed, small enough to stay in a processor's cache and in memory that malloc hands out again.
_ROWS, _COLUMNS = 512, 2048
_CHUNK = 128  # keys that are skipped, or computed without a mask, together; it divides _ROWS
_FEW_PAIRS = 1024 * 1024  # below, the calls of one block cost more than its arithmetic
_SAFE = 60.0  # of scores this small in units of ln 2, no power and no sum of powers overflows
_LOG2_E = math.log2(math.e)


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Softmax attention under any mask, without ever holding all n × m weights.

    .. math:: o_i = \sum_j p_{ij} v_j, \qquad p_{ij} = \frac{e^{s_{ij}}}{\sum_l e^{s_{il}}}

    The same function as :func:`attnref.scaled_dot_product_attention`, forward and backward:
    ``attn_mask`` and ``is_causal`` together mean both, and a query that may attend to no key
    gives zeros and finite gradients. Blocks of keys that no query of a block may see are
    skipped, and a :class:`attnref.masks.Mask` never becomes a whole tensor.

    On a processor it computes in float32 at least, each product as one large matrix product by
    oneDNN. PyTorch's fused kernel works on blocks too small for these, and rounds the weights of
    half-precision inputs; hence the gain in bfloat16, and in float32 with gradients. What goes to
    the fused kernel because it is as fast or faster: without ``attn_mask`` all calls on a GPU,
    those with few pairs (n m up to 1024²), and those in float32 or wider without gradient and with
    d_k = d_v.

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

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does, and for dropout or a mask with gradient.

    Exact up to rounding, in float32 or wider. Neither the loop nor the fused kernel has
    forward-mode derivatives: take the reference for these. Unlike the reference, a NaN or inf
    reaches every query that shares a block with one that sees it. Time ``2 p (d_k + d_v)``
    operations forward and ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs in blocks that are not
    empty; a mask object adds a few operations a pair, once for all heads. Memory
    ``O((n + m) (d_k + d_v))``, and 512 rows of the mask. Prefer ``is_causal`` to ``masks.causal``:
    it need not be asked.

    Source: Rabe and Staats 2021, arXiv 2112.05682; backward from the log-sum-exp: Dao et al.
    2022, arXiv 2205.14135, algorithm 4.

    Examples:
        >>> query, key, value = torch.ones(1, 2), torch.eye(2), torch.tensor([[10.0], [20.0]])
        >>> blockwise_attention(query, key, value, masks.causal(1, 2, alignment="top-left"))
        tensor([[10.]])
    """
    call = enter(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    if dropout_p != 0.0:
        raise ValueError(
            f"dropout_p: expected 0.0, got {dropout_p!r}. Weights that are never held cannot be "
            "dropped; use attnref.scaled_dot_product_attention."
        )
    if isinstance(attn_mask, Tensor) and attn_mask.requires_grad:
        raise ValueError(
            "attn_mask: expected a tensor without gradient, got one that requires it. Detach it, "
            "or use attnref.scaled_dot_product_attention, which gives it one."
        )
    return blockwise(call)


def blockwise(call: Call) -> Tensor:
    """The output, ``(..., n, d_v)``, by the fused kernel or block by block."""
    *lead, n, m = call.shape
    wide = call.query.dtype not in (torch.float16, torch.bfloat16)
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in call[:3])
    few = n * m <= _FEW_PAIRS
    # Copies filled up to one width would cost what the kernel saves.
    kernel = wide and not trained and call.key.shape[-1] == call.value.shape[-1]
    if call.attn_mask is None and n * m > 0 and (call.query.is_cuda or few or kernel):
        return fused(call)
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(call.query.dtype))
    if value.shape[-1] == 0:
        return query @ (key.mT @ value)
    if math.prod(call.shape) == 0:
        return query @ key.mT @ value  # sums of nothing: zeros
    attn_mask = call.attn_mask
    # With all its rows and keys, so that blocks can be cut from it.
    if attn_mask is not None and attn_mask.shape[-2:] != (n, m):
        attn_mask = attn_mask.expand((*attn_mask.shape[:-2], n, m))
    with own_precision(query.device):
        output: Tensor = _Blockwise.apply(  # type: ignore[no-untyped-call]
            query, key, value, attn_mask, call.is_causal, call.scale
        )
    return output


class _Blockwise(torch.autograd.Function):
    """The loop over blocks, and a backward that computes each block of weights again."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | Mask | None,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        dtype = torch.promote_types(query.dtype, torch.float32)
        lead, shape = query.shape[:-2], (*query.shape[:-1], key.shape[-2])
        keys, values = (x.to(dtype).contiguous() for x in (key, value))
        output = query.new_empty(*query.shape[:-1], value.shape[-1])  # (..., n, d_v)
        maxima = query.new_empty(*query.shape[:-1], 1, dtype=dtype)  # (..., n, 1)
        totals = torch.empty_like(maxima)
        longest = keys.norm(dim=-1).amax(-1)  # (...)
        exact = not isinstance(attn_mask, Tensor) or attn_mask.dtype == torch.bool
        for strip in _strips(shape, attn_mask, is_causal, query.device, dtype):
            rows = strip.rows
            for place in _places(lead, query.device):
                q = query[place][..., rows, :].to(dtype) * (scale * _LOG2_E)  # (..., rows, d_k)
                bounded = exact and bool(q.norm(dim=-1).amax() * longest[place].amax() < _SAFE)
                least = 0.0 if bounded else torch.finfo(dtype).min
                maximum = torch.full_like(q[..., :1], least)  # (..., rows, 1)
                total = torch.zeros_like(maximum)
                sums = q.new_zeros(*q.shape[:-1], value.shape[-1])  # (..., rows, d_v)
                for columns, mixed in strip.runs(lead, place, _COLUMNS):
                    v = values[place][..., columns, :]
                    powers = product_with_transpose(
                        q, keys[place][..., columns, :]
                    )  # (..., rows, columns)
                    strip.mask_(powers, columns, mixed, lead, place)
                    if not bounded:
                        previous, maximum = maximum, torch.maximum(maximum, powers.amax(-1, True))
                        powers.sub_(maximum)
                        rescale = torch.exp2(previous - maximum)
                        total.mul_(rescale)
                        sums.mul_(rescale)
                    total.add_(powers.exp2_().sum(-1, keepdim=True))
                    # In float32 oneDNN's long sums err more than the fused kernel's.
                    sums.add_(
                        product_with_transpose(powers, v.mT) if query.dtype != dtype else powers @ v
                    )
                    del powers  # or the next block would be made while this one is there
                output[place][..., rows, :] = sums / total.masked_fill(total == 0, 1.0)
                maxima[place][..., rows, :], totals[place][..., rows, :] = maximum, total
        # In units of ln 2; inf where a query sees no key, so that its weights are 2^-inf = 0.
        log_sum = (maxima + totals.log2()).masked_fill(totals == 0, torch.inf)
        ctx.save_for_backward(query, key, value, output, log_sum)
        ctx.options = attn_mask, is_causal, scale
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, log_sum = ctx.saved_tensors
        attn_mask, is_causal, scale = ctx.options
        dtype = log_sum.dtype
        lead, shape = query.shape[:-2], (*query.shape[:-1], key.shape[-2])
        # What rounds the gradient anyway may round the operands of its products.
        narrow = torch.bfloat16 if query.dtype == torch.bfloat16 else dtype
        # Two blocks of full width are at work at once where both are wide.
        width = _COLUMNS if narrow != dtype else _COLUMNS // 2
        keys, values = (x.to(dtype).contiguous() for x in (key, value))
        d_query = torch.empty_like(query)  # (..., n, d_k)
        # Transposed, for then the product that makes each block reads its operands along rows.
        d_key = key.new_zeros(key.mT.shape, dtype=dtype)  # (..., d_k, m)
        d_value = value.new_zeros(value.mT.shape, dtype=dtype)  # (..., d_v, m)
        for strip in _strips(shape, attn_mask, is_causal, query.device, dtype):
            rows = strip.rows
            for place in _places(lead, query.device):
                q = query[place][..., rows, :].to(dtype) * (scale * _LOG2_E)
                g = grad[place][..., rows, :].to(dtype).contiguous()  # (..., rows, d_v)
                mean = (g * output[place][..., rows, :]).sum(-1, keepdim=True)  # (..., rows, 1)
                d_q = torch.zeros_like(q)
                for columns, mixed in strip.runs(lead, place, width):
                    k = keys[place][..., columns, :]
                    v = values[place][..., columns, :]
                    weights = product_with_transpose(q, k)  # (..., rows, columns)
                    strip.mask_(weights, columns, mixed, lead, place)
                    weights.sub_(log_sum[place][..., rows, :]).exp2_()  # (..., rows, columns)
                    d_value[place][..., columns] += product_with_transpose(
                        g.to(narrow).mT, weights.to(narrow).mT
                    )
                    d_scores = product_with_transpose(g, v).sub_(mean).mul_(weights).to(narrow)
                    d_key[place][..., columns] += product_with_transpose(
                        q.to(narrow).mT, d_scores.mT
                    )
                    d_q += product_with_transpose(d_scores, k.to(narrow).mT)
                    del weights, d_scores  # as above
                d_query[place][..., rows, :] = d_q * scale
        d_key *= math.log(2)  # q above holds the scale, and log2(e) beside it
        return d_query, d_key.mT.to(key.dtype), d_value.mT.to(value.dtype), None, None, None


class _Strip(NamedTuple):
    """What a mask says of one block of rows.

    Attributes:
        rows: the block.
        stop: no query of it sees this key or a later one.
        states: EMPTY, MIXED or FULL, ``(..., chunks)`` with the leading dimensions of the mask.
        bias: to be added to the scores, ``(..., rows, keys)``, where a chunk is MIXED.
        first: the key where the bias begins.
    """

    rows: slice
    stop: int
    states: Tensor
    bias: Tensor
    first: int

    def runs(
        self, lead: Sequence[int], place: tuple[int, ...], most_keys: int
    ) -> Iterator[tuple[slice, list[slice]]]:
        """Neighbouring keys in chunks that are not EMPTY, and their parts that are MIXED."""
        least, most = _extremes(_at(self.states, 1, lead, place))
        for run in _neighbours([state != EMPTY for state in most], max(1, most_keys // _CHUNK)):
            mixed = [state != FULL for state in least[run]]
            parts = [self._keys(part, run.start) for part in _neighbours(mixed, len(mixed))]
            yield self._keys(run, 0), parts

    def mask_(
        self,
        scores: Tensor,
        columns: slice,
        mixed: list[slice],
        lead: Sequence[int],
        place: tuple[int, ...],
    ) -> None:
        """Adds the bias to the MIXED parts of the scores ``(..., rows, columns)``."""
        bias = _at(self.bias, 2, lead, place)
        for part in mixed:
            scores[..., part.start - columns.start : part.stop - columns.start] += bias[
                ..., part.start - self.first : part.stop - self.first
            ]

    def _keys(self, chunks: slice, offset: int) -> slice:
        first, last = offset + chunks.start, offset + chunks.stop
        return slice(first * _CHUNK, min(last * _CHUNK, self.stop))


def _strips(
    shape: checks.Shape,
    attn_mask: Tensor | Mask | None,
    is_causal: bool,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[_Strip]:
    """The strips of a mask, one for each block of rows."""
    n, m = shape[-2:]
    causal = masks.causal(n, m, alignment="top-left")
    nothing = torch.empty(0, 0, dtype=dtype, device=device)
    for start in range(0, n, _ROWS):
        rows = slice(start, min(start + _ROWS, n))
        stop = min(m, rows.stop) if is_causal else m
        # Without another mask, every query of the block sees the keys before this one.
        known = 0 if attn_mask is not None else min(start if is_causal else m, m)
        columns = slice(known, stop)
        states = torch.full((math.ceil(known / _CHUNK),), FULL, dtype=torch.int8, device="cpu")
        if known == stop:
            yield _Strip(rows, stop, states, nothing, 0)
            continue
        allowed = torch.ones((), dtype=torch.bool, device=device)
        added = None
        if is_causal:
            allowed = causal.block(rows, columns, device)
        if isinstance(attn_mask, Mask):
            allowed = allowed & attn_mask.block(rows, columns, device)
        elif attn_mask is not None and attn_mask.dtype == torch.bool:
            allowed = allowed & attn_mask[..., rows, columns]
        elif attn_mask is not None:
            added = attn_mask[..., rows, columns].to(dtype) * _LOG2_E  # (..., rows, columns)
            allowed = allowed & (added != -torch.inf)
        seen = _states(allowed, everything_mixed=added is not None)
        states = torch.cat([states.expand(*seen.shape[:-1], -1), seen], -1)
        mixed = [
            index
            for index, (least, most) in enumerate(zip(*_extremes(seen), strict=True))
            if least != FULL and most != EMPTY
        ]
        if not mixed:
            yield _Strip(rows, stop, states, nothing, 0)
            continue
        span = slice(mixed[0] * _CHUNK, (mixed[-1] + 1) * _CHUNK)
        # Added once made: to fill the scores of each head where a mask says so costs far more.
        bias = torch.where(
            allowed[..., span], 0.0 if added is None else added[..., span], -torch.inf
        )
        yield _Strip(rows, stop, states, bias.to(dtype), known + span.start)


def _states(allowed: Tensor, *, everything_mixed: bool) -> Tensor:
    """EMPTY, MIXED or FULL for each chunk of keys of ``(..., rows, keys)``, on the processor."""
    width = math.ceil(allowed.shape[-1] / _CHUNK)
    fill = (0, width * _CHUNK - allowed.shape[-1])
    numbers = allowed.view(torch.uint8)  # whose extremes are found faster than any() and all()
    some = torch.nn.functional.pad(numbers.amax(-2), fill, value=0)  # (..., width * _CHUNK)
    every = torch.nn.functional.pad(numbers.amin(-2), fill, value=1)
    some = some.reshape(*some.shape[:-1], width, _CHUNK).amax(-1)  # (..., width)
    every = every.reshape(*every.shape[:-1], width, _CHUNK).amin(-1)
    states: Tensor = some * MIXED if everything_mixed else some + every
    return states.to("cpu", torch.int8)


def _extremes(states: Tensor) -> tuple[list[int], list[int]]:
    """Over the leading dimensions: the least that each chunk holds, and the most."""
    rows = states.reshape(-1, states.shape[-1])
    return rows.amin(0).tolist(), rows.amax(0).tolist()


def _neighbours(chosen: Sequence[bool], most: int) -> Iterator[slice]:
    """Slices of at most ``most`` neighbours that are chosen."""
    start = 0
    for is_chosen, group in itertools.groupby(chosen):
        stop = start + len(list(group))
        if is_chosen:
            for first in range(start, stop, most):
                yield slice(first, min(first + most, stop))
        start = stop


def _places(lead: Sequence[int], device: torch.device) -> Iterator[tuple[int, ...]]:
    """Indices of the heads to be computed one after the other; a GPU takes all at once."""
    if device.type != "cpu":
        return iter([()])
    return itertools.product(*map(range, lead))


def _at(tensor: Tensor, own: int, lead: Sequence[int], place: tuple[int, ...]) -> Tensor:
    """The part for the head at ``place`` of a tensor whose last ``own`` dimensions are its own."""
    if not place:
        return tensor
    return tensor.expand(*lead, *tensor.shape[tensor.dim() - own :])[place]
