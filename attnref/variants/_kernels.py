"""What computes a tile: PyTorch's fused kernels, private ones too, and plain matrix products.

Each trick is here for a gain, which its docstring gives: the ratio of times, medians of paired
runs in float32 on two cores of an Intel Xeon with AVX-512, with PyTorch 2.13.0.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from attnref._autocast import own_precision
from attnref._door import Call
from attnref.masks import Mask, causal
from attnref.masks.tensors import cast_mask, combine_masks
from attnref.softmax import Partial

_SWALLOWS = -(2.0**28)  # beside a number below, scores of some tens are rounded away
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def call_fused(call: Call) -> Tensor:
    """The output by PyTorch's fused kernel, in the form in which it holds no weights.

    On a processor that is (batch, heads, length, width) with one width for all three, and the
    components of a vector side by side; otherwise PyTorch computes all n m weights, without a word,
    and for 8 heads of 2048 tokens takes five to six times as long.
    """
    if call.is_causal and call.scale <= 0:
        call = _make_scale_positive(call)
    query, key, value, mask, is_causal, scale, enable_gqa, shape, _ = call
    lead, (n, m), d_v = shape[:-2], shape[-2:], value.shape[-1]
    if not query.stride(-1) == key.stride(-1) == value.stride(-1) == 1:
        query, key, value = map(side_by_side, (query, key, value))
    if isinstance(mask, Mask):
        mask = mask.dense(query.device)
    if mask is not None and is_causal:  # some kernels refuse the two together
        rows = causal(n, m, alignment="top-left").dense(query.device)
        mask, is_causal = combine_masks(mask, rows), False
    if mask is not None and mask.is_floating_point():
        mask = cast_mask(mask, query.dtype)
    width = max(query.shape[-1], d_v)
    if n > width:  # the weights would be larger than copies filled up with zeros
        query, key, value = (
            x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1]))
            for x in (query, key, value)
        )
    key_lead = (*lead[:-1], key.shape[-3]) if enable_gqa else lead
    if len(lead) != 2 or query.shape[:-2] != lead or key.shape[:-2] != key_lead:
        *batch, heads = (1, 1, *lead)
        size = math.prod(batch)
        query, key, value = (
            x.expand(*batch, *own).reshape(size, *own)
            for x in (query, key, value)
            for own in [(x.shape[-3] if enable_gqa else heads, *x.shape[-2:])]
        )
        if mask is not None and mask.dim() > 2:
            own = (heads, *mask.shape[-2:])
            mask = mask.expand(*batch, *own).reshape(size, *own)
    elif mask is not None and mask.dim() == 3:
        mask = mask[None]  # the kernel knows masks of two or four dimensions
    with own_precision(query.device):
        output = scaled_dot_product_attention(
            query, key, value, mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )
    output = output if output.shape[-1] == d_v else output[..., :d_v]
    return output if output.shape[:-2] == lead else output.reshape(*lead, n, d_v)


def _make_scale_positive(call: Call) -> Call:
    """The same call with the sign in the query, for kernels multiply their own -inf."""
    sign = -1.0 if call.scale else 0.0
    return call._replace(query=call.query * sign, scale=-call.scale or 1.0)


class Operands(NamedTuple):
    """What a tile computes with: ``(..., r, d_k)``, ``(..., c, d_k)``, ``(..., c, d_v)``, and a
    bias ``(..., r, c)``, which may broadcast.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    is_causal: bool
    scale: float


def flash(operands: Operands) -> Partial:
    """What each query of a tile finds: its output, the score subtracted, the sum of exponentials.

    By PyTorch's kernel for a processor, called by its own name because the public function keeps
    the log-sum-exp to itself. So called, it ends the process where there is no query or no key,
    reads beside vectors whose components lie apart, wants one width, gives rows without keys a
    log-sum-exp of 0, and adds to the least finite number without effect. For it, and against the
    matrix products below: 8 heads of 512 queries and 1024 keys take 0.7 of their time, and 64 keys
    with 1 to 32 queries 0.6.
    """
    query, key, value, bias, is_causal, scale = operands
    lead, d_v = query.shape[:-2], value.shape[-1]
    if is_causal and scale <= 0:  # the kernel multiplies its own -inf, too
        query, scale = query * (-1.0 if scale else 0.0), -scale or 1.0
    width = max(query.shape[-1], d_v)
    heads = _heads(bias, query, key, value)
    tensors = (_to_four_dims(x, heads, width) for x in (query, key, value))
    mask = None if bias is None else _mask_in_four(bias, lead, heads)
    output, lse = _flash(*tensors, 0.0, is_causal, attn_mask=mask, scale=scale)
    output = output.reshape(*lead, *output.shape[-2:])
    if d_v < width:  # copied, for PyTorch's forward mode takes no view for an output
        output = output[..., :d_v].contiguous()
    maximum = lse.reshape(*lead, lse.shape[-1], 1)  # in float32 at least
    total = torch.ones_like(maximum)
    if bias is None:
        return Partial(output, maximum, total)
    largest = bias.amax(-1, keepdim=True)  # (..., r, 1)
    blind, lost = largest == -torch.inf, largest < _SWALLOWS
    maximum, total = maximum.masked_fill(blind, -torch.inf), total.masked_fill(blind, 0.0)
    if not torch.compiler.is_compiling() and bool((lost & ~blind).any()):
        count = (bias == largest).sum(-1, keepdim=True).to(total.dtype)
        maximum = torch.where(lost & ~blind, largest, maximum)
        total = torch.where(lost & ~blind, count, total)
    return Partial(output, maximum, total)


def flash_backward(
    operands: Operands, grad: Tensor, output: Tensor, maximum: Tensor
) -> tuple[Tensor, Tensor, Tensor, None]:
    """The gradients of query, key and value.

    Output and maximum are over all keys; ``grad`` has been divided by the sum of exponentials
    relative to this maximum, in the place of the weights, which are such exponentials here. The
    tile of :func:`flash` takes 0.4 to 0.6 of the time of matrix products.
    """
    query, key, value, bias, is_causal, scale = operands
    lead, d_k, d_v = query.shape[:-2], query.shape[-1], value.shape[-1]
    sign = 1.0
    if is_causal and scale <= 0:
        sign = -1.0 if scale else 0.0
        query, scale = query * sign, -scale or 1.0
    width = max(d_k, d_v)
    heads = _heads(bias, grad, query, key, value, output)
    tensors = (_to_four_dims(x, heads, width) for x in (grad, query, key, value, output))
    mask = None if bias is None else _mask_in_four(bias, lead, heads)
    four = _to_four_dims(maximum, heads, 1)[..., 0]
    found = _flash_backward(*tensors, four, 0.0, is_causal, attn_mask=mask, scale=scale)
    d_q, d_k_, d_value = (x.reshape(*lead, *x.shape[-2:]) for x in found)
    d_q = d_q if sign == 1.0 else d_q * sign
    return d_q[..., :d_k], d_k_[..., :d_k], d_value[..., :d_v], None


def products(operands: Operands) -> Partial:
    """The same by matrix products, on any device; never causal by itself."""
    query, key, value, bias, _, scale = operands
    with own_precision(query.device):
        scores = _scores(query, key, bias, scale)  # (..., r, c)
        maximum = scores.amax(-1, keepdim=True)  # (..., r, 1)
        maximum = maximum.masked_fill_(maximum == -torch.inf, 0.0)
        powers = scores.sub_(maximum).exp_()
        total = powers.sum(-1, keepdim=True)  # (..., r, 1)
        output = powers @ value / total.masked_fill(total == 0, 1.0)
    return Partial(output, maximum.masked_fill_(total == 0, -torch.inf), total)


def products_backward(
    operands: Operands, grad: Tensor, output: Tensor, maximum: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same, and the gradient of each score, ``(..., r, c)``."""
    query, key, value, bias, _, scale = operands
    with own_precision(query.device):
        weights = _scores(query, key, bias, scale).sub_(maximum).exp_()  # (..., r, c)
        mean = (grad * output).sum(-1, keepdim=True)  # (..., r, 1)
        d_scores = (grad @ value.mT).sub_(mean).mul_(weights)  # (..., r, c)
        d_query, d_key = d_scores @ key * scale, d_scores.mT @ query * scale
        return d_query, d_key, weights.mT @ grad, d_scores


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    scores = (query * scale) @ key.mT  # (..., r, c)
    return scores if bias is None else scores.add_(bias)


def _heads(bias: Tensor | None, *tensors: Tensor) -> int:
    """How many heads the kernel is told of. Of one each, its results lie in order, which saves up
    to a seventh of a backward pass; more are needed where some have their own bias, or where
    the tensors overlap and cannot lie in a row.
    """
    shape = tensors[0].shape
    shared = bias is None or math.prod(bias.shape[:-2]) == 1
    return 1 if len(shape) < 3 or (shared and all(map(_is_evenly_strided, tensors))) else shape[-3]


def _is_evenly_strided(tensor: Tensor) -> bool:
    """Whether each head begins where the one before it ends, or as far from it as the others."""
    if tensor.is_contiguous():
        return True
    sizes = [*zip(tensor.shape, tensor.stride(), strict=True)][:-2]
    sizes = [pair for pair in sizes if pair[0] != 1]
    return all(one[1] == two[0] * two[1] for one, two in itertools.pairwise(sizes))


def _to_four_dims(tensor: Tensor, heads: int, width: int) -> Tensor:
    """As ``(batch, heads, length, width)``, filled up with zeros."""
    if tensor.shape[-1] != width:
        tensor = pad(tensor, (0, width - tensor.shape[-1]))
    return side_by_side(tensor.reshape(-1, heads, *tensor.shape[-2:]))


def _mask_in_four(bias: Tensor, lead: tuple[int, ...], heads: int) -> Tensor:
    """As ``(batch, heads, r, c)``, with ones where it broadcasts."""
    *own, r, c = bias.shape
    if math.prod(own[:-1]) != 1:
        bias = bias.expand(*lead[:-1], own[-1], r, c)
    return bias.reshape(-1, own[-1] if own and heads != 1 else 1, r, c)


def pad_widths(*tensors: Tensor) -> list[Tensor]:
    """All as wide as the widest of them, filled up with zeros."""
    width = max(x.shape[-1] for x in tensors)
    return [x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1])) for x in tensors]


def side_by_side(tensor: Tensor) -> Tensor:
    """The same, copied if the components of its vectors lie apart."""
    # Called by itself, the kernel on a processor takes them for neighbours and reads what is there;
    # scaled_dot_product_attention leaves the kernel, and computes all n m weights.
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


# Parts of tensors: what a tile reads and writes.


class Stretches(NamedTuple):
    """Places of a batch of tiles: ``many`` stretches of one width, a ``step`` apart.

    The kernel reads them where they are: copied, a window of 256 keys takes five times as long.
    """

    first: int
    step: int
    many: int
    width: int

    def unfold(self, tensor: Tensor) -> Tensor:
        """``(..., length, d)`` as ``(..., many, width, d)``; stretches that overlap are a view."""
        stop = self.first + (self.many - 1) * self.step + self.width
        return tensor[..., self.first : stop, :].unfold(-2, self.width, self.step).mT

    def add(self, total: Tensor, part: Tensor) -> None:
        """The transpose of :meth:`unfold`, added to ``total``: in 0.7 of the time of a loop over
        stretches, and in 0.4 of the time of ``index_add_``.
        """
        for begin in range(0, self.width, self.step):  # in pieces, as of which none overlap
            piece = part[..., begin : begin + self.step, :]
            one = self._replace(first=self.first + begin, width=piece.shape[-2])
            one.unfold(total).add_(piece)


# Queries or keys of a tile, or of a batch of tiles of one size: neighbours; others by their
# places, (c,) or (b, c); or stretches of neighbours.
Part = slice | Tensor | Stretches


def take_part(tensor: Tensor, part: Part, head: tuple[int, ...] = ()) -> Tensor:
    """``(..., length, d)`` as ``(..., c, d)`` or ``(..., b, c, d)``, of some of the heads."""
    tensor = tensor[head] if head else tensor
    if isinstance(part, slice):
        all_of_it = part.stop - part.start == tensor.shape[-2]
        return tensor if all_of_it else tensor[..., part, :]
    if isinstance(part, Stretches):
        return part.unfold(tensor)
    # Two to four times as fast as an index in brackets.
    return torch.unflatten(tensor.index_select(-2, part.flatten()), -2, part.shape)


def put_part(total: Tensor, part: Part, new: Tensor) -> None:
    if isinstance(part, slice):
        total[..., part, :] = new
    elif isinstance(part, Stretches):
        part.unfold(total).copy_(new)
    else:
        total.index_copy_(-2, part.flatten(), new.flatten(-1 - part.dim(), -2))


def add_part(
    total: Tensor | None, like: Tensor, head: tuple[int, ...], where: Part, new: Tensor
) -> Tensor:
    """A sum in the shape of ``like``, to places that may come more than once, too."""
    if total is None:
        if new.shape == like.shape:
            return new
        total = torch.zeros_like(like)
    if isinstance(where, slice):
        total[head][..., where, :] += new
    elif isinstance(where, Stretches):
        where.add(total[head], new)
    else:
        total[head].index_add_(-2, where.flatten(), new.flatten(-1 - where.dim(), -2))
    return total
