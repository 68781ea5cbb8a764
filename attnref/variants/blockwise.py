r"""Exact attention in memory that grows with n, not with n²: one block of scores at a time.

Over a block ``B`` of keys, a query has an average ``o_B`` and the logarithm
``λ_B`` of its sum of exponentials; two blocks merge into

    λ = ln(e^(λ_A) + e^(λ_B))
    o = e^(λ_A-λ) o_A + e^(λ_B-λ) o_B
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref._door import Call, check_without_gradient, enter
from attnref.checks import Shape
from attnref.masks import Mask, causal
from attnref.masks.tensors import cast_mask, combine_masks
from attnref.record import Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants._kernels import call_fused
from attnref.variants._tiled import Plan, Tile, attention, holds, is_derived

__all__ = ["blockwise_attention"]

ROWS = 512  # queries that are planned together
CHUNK = 128  # keys that are skipped, or computed without a mask, together
_HELD = 2**19  # scores of a strip where they are held
_PAIRS_AT_ONCE = 2**24  # of a mask, when it is asked
_FEW_PAIRS = 1024 * 1024  # up to this, sums are short


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

        o_i = Σ_j p_ij v_j
        p_ij = e^(s_ij) / Σ_l e^(s_il)

    The same function as :func:`attnref.scaled_dot_product_attention`, forward and backward:
    ``attn_mask`` and ``is_causal`` together mean both, and a query that may attend to no key
    gives zeros and finite gradients. Blocks of keys that no query of a strip may see are skipped,
    and a :class:`attnref.Mask` is asked for up to 2**24 pairs at a time.

    Without ``attn_mask``, PyTorch's fused kernel has the whole call: on a GPU always, on a
    processor where no derivative is wanted, unless it would round the weights of many pairs in half
    precision. The others go tile by tile. The mask is asked for strips of 512 queries: the keys
    that all of them see are a tile, those that some see are another one, with what is added to
    their scores. On a processor, PyTorch's kernel computes a tile, in float32 at least, and gives
    the log-sum-exp by which tiles merge; elsewhere, matrix products do.

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
    query that shares a tile with one that sees it. Time ``2 p (d_k + d_v)`` operations forward and
    ``2 p (3 d_k + 2 d_v)`` backward, with p the pairs of strips and chunks of 128 keys that are not
    empty, and on a processor the larger of d_k and d_v for both; a mask object adds a few
    operations per pair, once for all heads. Memory ``O((n + m) (d_k + d_v))``, 512 rows of the
    mask, and 16 MiB of it as bools while it is asked; second and forward-mode derivatives hold all
    n × m weights.
    Prefer ``is_causal`` to ``masks.causal``: it need not be asked.

    Source: Rabe and Staats 2021, arXiv 2112.05682; backward from the log-sum-exp: Dao et al.
    2022, arXiv 2205.14135, algorithm 4.

    Examples:
        >>> from attnref import masks
        >>> query, key, value = torch.ones(1, 2), torch.eye(2), torch.tensor([[10.0], [20.0]])
        >>> blockwise_attention(query, key, value, masks.causal(1, 2, alignment="top-left"))
        tensor([[10.]])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, sink=sink)
    check_without_gradient(attn_mask)
    return blockwise(call)


def blockwise(call: Call) -> Tensor:
    """The output, ``(..., n, d_v)``, by the fused kernel or tile by tile."""
    lead = call.shape[:-2]
    alone = call.attn_mask is None and call.sink is None and math.prod(call.shape) > 0
    if alone and (call.query.device.type != "cpu" or _fits_kernel(call)):
        return call_fused(call)
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors(call.query.dtype))
    plan, masks = Masked.from_call(call)
    output = attention(plan, call.scale, query, key, value, *masks, sink=call.sink)
    return output.to(query.dtype)


@dataclass(frozen=True)
class Masked(Plan):
    """All pairs that a mask allows; with ``diagonals``, numbers are added by the distance."""

    mask: Mask | None  # a tensor comes as an argument, for autograd to watch
    is_causal: bool
    by_values: bool = True
    diagonals: bool = False

    @classmethod
    def from_call(cls, call: Call, *, diagonals: bool = False) -> tuple["Masked", list[Tensor]]:
        """The plan, and the mask if it is a tensor."""
        mask = call.attn_mask
        if mask is not None and mask.shape[-2:] != call.shape[-2:]:  # parts will be cut from it
            mask = mask.expand((*mask.shape[:-2], *call.shape[-2:]))
        own = mask if isinstance(mask, Mask) else None
        plan = cls(own, call.is_causal, mask is not None or diagonals, diagonals)
        return plan, [mask] if isinstance(mask, Tensor) else []

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterable[Tile]:
        mask = masks[0] if masks else self.mask
        held = holds(like) or (self.diagonals and backward)
        return tiles_of(shape, mask, self.is_causal, like, held=held, neighbours=self.diagonals)

    def dense(self, shape: Shape, like: Tensor, *masks: Tensor) -> Tensor | None:
        mask = masks[0] if masks else None
        if self.mask is not None:
            mask = self.mask.dense(like.device)
        if not self.is_causal:
            return mask
        rows = causal(*shape[-2:], alignment="top-left").dense(like.device)
        return rows if mask is None else combine_masks(mask, rows)


def tiles_of(
    shape: Shape,
    attn_mask: Tensor | Mask | None,
    is_causal: bool,
    like: Tensor,
    *,
    held: bool,
    neighbours: bool = False,
    rows: int = 0,
    columns: int = 0,
    again: bool = False,
) -> Iterator[Tile]:
    """Of scores ``(..., n, m)`` under a mask: for each strip of queries, the keys that all of them
    see, and those that some see, with what is added to their scores.

    ``held`` says that the scores of a tile are held, so that they must be few, and on a processor
    of one head; ``neighbours`` that the keys of a tile must be. ``rows`` and ``columns`` are where
    these scores begin among others; ``again`` says that the queries were there before.
    """
    *lead, n, m = shape
    if 0 in shape:
        return
    if attn_mask is None and not (held or (is_causal and neighbours)):
        everything = slice(rows, rows + n), slice(columns, columns + m)
        yield Tile(*everything, is_causal=is_causal, again=again)
        return
    own = () if attn_mask is None else attn_mask.shape[:-2]
    apart = len(lead) if held and like.device.type == "cpu" else _differing_dims(own, len(lead))
    height = min(ROWS, max(16, _HELD // m)) if held else ROWS
    step = height * max(1, _PAIRS_AT_ONCE // (m * max(1, math.prod(own)) * height))
    for first in range(0, n, step):
        asked = slice(first, min(first + step, n))
        allowed, added = _strip_mask(attn_mask, is_causal, asked, m, like)
        for head in itertools.product(*map(range, lead[:apart])):
            mask, bias = (_head_part(x, head, lead) for x in (allowed, added))
            for start in range(0, asked.stop - first, height):
                strip = slice(start, min(start + height, asked.stop - first))
                numbers = None if bias is None else bias[..., strip, :]
                seen = again
                for keys, one in _visible_keys(
                    mask[..., strip, :], numbers, like.dtype, neighbours
                ):
                    places = _shift(strip, rows + first), _shift(keys, columns)
                    yield Tile(*places, one, again=seen, head=head)
                    seen = True


def _differing_dims(own: Sequence[int], dimensions: int) -> int:
    """How many leading dimensions there are up to the last in which masks differ."""
    last = max((place for place, size in enumerate(own, 1) if size != 1), default=None)
    return 0 if last is None else dimensions - len(own) + last


def _strip_mask(
    attn_mask: Tensor | Mask | None, is_causal: bool, rows: slice, m: int, like: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Which pairs are allowed, ``(..., rows, keys)``, and what is added to their scores."""
    columns, device, added = slice(0, min(m, rows.stop) if is_causal else m), like.device, None
    allowed = torch.ones((), dtype=torch.bool, device=device)
    if isinstance(attn_mask, Mask):
        allowed = attn_mask.block(rows, columns, device)
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = attn_mask[..., rows, columns]
    elif attn_mask is not None:
        added = attn_mask[..., rows, columns]
        allowed = added != -torch.inf
        added = cast_mask(added, like.dtype)
    if is_causal:
        i = torch.arange(rows.start, rows.stop, device=device)[:, None]
        allowed = allowed & (torch.arange(columns.stop, device=device) <= i)
    return allowed.expand(*allowed.shape[:-2], rows.stop - rows.start, columns.stop), added


def _head_part(tensor: Tensor | None, head: tuple[int, ...], lead: Sequence[int]) -> Any:
    """The part for one head of what broadcasts to ``(*lead, rows, keys)``."""
    if tensor is None or not head:
        return tensor
    return tensor.expand(*lead, *tensor.shape[-2:])[head]


def _visible_keys(
    allowed: Tensor, added: Tensor | None, dtype: torch.dtype, neighbours: bool
) -> Iterator[tuple[slice | Tensor, Tensor | None]]:
    """The keys that a strip sees, with what is added to their scores."""
    some, every = _states(allowed)
    if added is not None or sum(every) * CHUNK < ROWS:  # so few that their own tile costs more
        every = [False] * len(every)
    for is_full in (True, False):
        chunks = [i for i, seen in enumerate(some) if seen and every[i] == is_full]
        for keys in _places(chunks, allowed, neighbours):
            if is_full:
                yield keys, None
            else:
                numbers = 0.0 if added is None else added[..., keys]
                yield keys, torch.where(allowed[..., keys], numbers, -torch.inf).to(dtype)


def _states(allowed: Tensor) -> tuple[list[bool], list[bool]]:
    """Of each chunk of keys whether any pair of a strip is allowed, and whether all are."""
    numbers = allowed.contiguous().view(torch.uint8)  # whose extremes are found faster
    found = []
    for extreme, fill in ((torch.amax, 0), (torch.amin, 1)):
        keys = extreme(numbers, tuple(range(allowed.dim() - 1)))  # (keys,)
        keys = pad(keys, (0, -len(keys) % CHUNK), value=fill)
        found.append(extreme(keys.view(-1, CHUNK), -1).bool().tolist())
    return found[0], found[1]


def _places(chunks: list[int], allowed: Tensor, neighbours: bool) -> Iterator[slice | Tensor]:
    """The keys of some chunks: a slice where they are neighbours."""
    m, runs = allowed.shape[-1], [chunks] if chunks else []
    if neighbours:
        pairs = itertools.groupby(enumerate(chunks), lambda pair: pair[1] - pair[0])
        runs = [[chunk for _, chunk in run] for _, run in pairs]
    for run in runs:
        if run[-1] - run[0] == len(run) - 1:
            yield slice(run[0] * CHUNK, min((run[-1] + 1) * CHUNK, m))
        else:
            first = torch.tensor(run, device=allowed.device)[:, None] * CHUNK
            keys = (first + torch.arange(CHUNK, device=allowed.device)).flatten()
            yield keys[keys < m]


def _shift(part: slice | Tensor, by: int) -> slice | Tensor:
    return slice(part.start + by, part.stop + by) if isinstance(part, slice) else part + by


def _fits_kernel(call: Call) -> bool:
    """Whether the kernel of a processor does all that is asked: it rounds half precision, and its
    gradients have none.
    """
    wide = call.query.dtype not in (torch.float16, torch.bfloat16)
    few = math.prod(call.shape[-2:]) <= _FEW_PAIRS
    return (wide or few) and not is_derived(*call[:3])


METHOD = Method(
    function=blockwise_attention,
    page="variants/blockwise",
    formula=scaled_dot_product_attention,
    peers=("memory-efficient-attention-pytorch",),
    isolates=(),
    tasks=("dense", "causal", "window", "blocks", "chosen", "packed", "decode", "drafts", "sink"),
)
