"""The engine of tiles: exact attention to some of the pairs, part by part, with all derivatives.

A method says which tiles there are: queries, keys, and what is added to their scores. Forward, each
tile gives its queries an average over its keys and the logarithm of its sum of exponentials, by
which averages merge; backward, the weights are computed again from the merged logarithm. On a
processor, PyTorch's fused kernel computes a tile; elsewhere, and where the gradient of each score
is needed, matrix products do.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from attnref.checks import Shape
from attnref.masks.tensors import cast_mask, combine_masks
from attnref.reference import attend
from attnref.softmax import Partial, merge
from attnref.variants._kernels import (
    Operands,
    Part,
    add_part,
    flash,
    flash_backward,
    pad_widths,
    products,
    products_backward,
    put_part,
    side_by_side,
    take_part,
)

_FEW_PAIRS = 1024 * 1024  # of these the weights may be held


class Tile(NamedTuple):
    """Queries against keys, which see each other but for what is added.

    Attributes:
        rows: the queries, r of them.
        columns: the keys, c of them; of a batch, while rows are not, if all see pieces of them.
        bias: is added to the scores, ``(..., r, c)``; -inf = may not attend.
        is_causal: row a sees the columns b <= a; without bias, on a processor.
        again: whether an earlier tile has some of these rows.
        head: the first of the leading dimensions, where the others have a tile in common.
    """

    rows: Part
    columns: Part
    bias: Tensor | None = None
    is_causal: bool = False
    again: bool = False
    head: tuple[int, ...] = ()


class Plan:
    """Which tiles there are, and what the definition says of the same pairs.

    Attributes:
        flat: whether places count all heads in one row, one head after the other; a query that is
            not there has the place after the last.
        by_values: whether values decide which tiles there are.
        complete: whether each query is in a tile.
        once: whether the kernel may compute forward in half precision: it errs no more than over
            all pairs where each query is in one tile; of several, each rounds.
    """

    flat = False
    by_values = True
    complete = False
    once = False

    def refine(self, *masks: Tensor) -> "Plan":
        """The plan itself, or another one that is better for what the masks hold."""
        return self

    def tiles(
        self, shape: Shape, like: Tensor, *masks: Tensor, backward: bool = False
    ) -> Iterable[Tile]:
        """Of scores ``(..., n, m)``, in dtype and device of ``like``; for one pass or the other."""
        raise NotImplementedError

    def dense(self, shape: Shape, like: Tensor, *masks: Tensor) -> Tensor | None:
        """The mask of all pairs."""
        raise NotImplementedError

    def formula(self, scale: float, inputs: "Inputs", *masks: Tensor) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp by operations that autograd knows."""
        query, key, value, diagonals = inputs
        mask = self.dense(inputs.shape, query, *masks)
        if diagonals is not None:
            table = diagonals[..., 0].unfold(-1, key.shape[-2], 1).flip(-2)  # (..., n, m)
            mask = table if mask is None else combine_masks(table, mask)
        found = attend(query, key, value, mask, scale=scale)
        return found.output, found.lse


def attention(
    plan: Plan,
    scale: float,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *masks: Tensor,
    sink: Tensor | None = None,
    diagonals: Tensor | None = None,
) -> Tensor:
    """The output, ``(..., n, d_v)`` in the dtype of computation, with derivatives of every order.

    Query, key and value have their leading dimensions in common; masks carry no gradient. ``sink``
    is the score of one more key, whose value is zero, and broadcasts to ``(..., n, 1)``;
    ``diagonals`` are added to the scores, ``(..., n + m - 1, 1)``, first the distance of the last
    query and the first key.
    """
    given = (query, key, value, sink, diagonals, *masks)
    traced = plan.by_values and torch.compiler.is_compiling()
    if traced and (pairs := query.shape[-2] * key.shape[-2]) > _FEW_PAIRS:
        raise ValueError(
            f"query: expected at most {_FEW_PAIRS} pairs of queries and keys under "
            f"torch.compile(fullgraph=True) or torch.export, got {pairs}. How blocks are computed "
            "depends on values, which a graph does not hold: leave the call out of it with "
            "torch.compiler.disable, or give mask.block_mask() to FlexAttention."
        )
    if traced or query.is_meta or _forwards_twice():
        return _formula(plan, scale, *given)
    if not torch.compiler.is_compiling():
        return _WithForwardMode.apply(plan, scale, *given)[0]  # type: ignore[no-untyped-call, no-any-return]
    # The compiler calls a function that needs no derivative as if it had no setup_context.
    if is_derived(*given):
        return _Attention.apply(plan, scale, *given)[0]  # type: ignore[no-untyped-call, no-any-return]
    return _Attention.forward(plan, scale, *given)[0]


def is_derived(*tensors: Tensor | None) -> bool:
    """Whether a derivative by one of these is wanted, backwards or forwards."""
    there = [x for x in tensors if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in there):
        return True
    if torch.compiler.is_compiling():
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in there)  # type: ignore[no-untyped-call]


# The core: what is computed of each tile.


class Inputs(NamedTuple):
    """What a core computes with, in the dtype of computation.

    ``diagonals`` are added to the scores, ``(..., n + m - 1, 1)``, first the distance of the last
    query and the first key.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    diagonals: Tensor | None = None

    @property
    def shape(self) -> Shape:
        """The shape of the scores."""
        return (*self.query.shape[:-1], self.key.shape[-2])


def empty_partial(
    query: Tensor, d_v: int, *, dtype: torch.dtype | None = None, complete: bool = False
) -> Partial:
    """What queries have found before they see a key, or room for what all of them will find."""
    lead, wide = query.shape[:-1], torch.promote_types(query.dtype, torch.float32)
    made: Any = torch.Tensor.new_empty if complete else torch.Tensor.new_zeros
    output, total = made(query, (*lead, d_v), dtype=dtype), made(query, (*lead, 1), dtype=wide)
    return Partial(output, torch.full_like(total, -torch.inf), total)


def forward(
    tiles: Iterable[Tile],
    scale: float,
    inputs: Inputs,
    found: Partial | None = None,
    *,
    complete: bool = False,
) -> Partial:
    """What the queries find in these tiles, in addition to what they found before.

    ``complete`` says that each query is in a tile.
    """
    query, key, value, diagonals = inputs
    compute = products if holds(query) else flash
    for tile in tiles:
        rows, head = tile.rows, tile.head
        q, bias = _queries_and_bias(tile, diagonals, query.shape[-2], take_part(query, rows, head))
        k, v = (take_part(x, tile.columns, head) for x in (key, value))
        in_pieces = k.dim() > q.dim()
        if in_pieces:
            q = q.unsqueeze(-3).expand(*k.shape[:-2], *q.shape[-2:])
        part = compute(Operands(q, k, v, bias, tile.is_causal, scale))
        if in_pieces:
            part = _merge_pieces(part)
        if diagonals is not None:
            part = Partial(*(x.flip(-2) for x in part))
        if found is None:
            if part.output.shape[:-1] == query.shape[:-1]:  # the tile has all queries
                found = part
                continue
            found = empty_partial(query, value.shape[-1], complete=complete)
        known = Partial(*(x[head] for x in found))
        if tile.again:
            part = merge(Partial(*(take_part(x, rows) for x in known)), part)
        for whole, new in zip(known, part, strict=True):
            put_part(whole, rows, new)
    return empty_partial(query, value.shape[-1]) if found is None else found


def backward(
    tiles: Iterable[Tile],
    scale: float,
    grad: Tensor,
    inputs: Inputs,
    found: Partial,
    d_query: Tensor | None = None,
) -> list[Tensor]:
    """The gradients of the inputs that are there, through these tiles.

    ``found`` is of all keys, in these tiles and elsewhere, so that weights and averages are known.
    """
    query, key, value, diagonals = inputs
    output, maximum, total = found
    maximum = maximum.masked_fill(maximum == -torch.inf, 0.0)  # where all weights are 0 anyway
    grad = grad / total.masked_fill(total == 0, 1.0)
    by_scores = diagonals is not None or holds(query)
    compute = products_backward if by_scores else flash_backward
    given = [x for x in inputs if x is not None]
    into: list[Tensor | None] = [d_query, *(None for _ in given[1:])]
    for tile in tiles:
        rows, columns, head = tile.rows, tile.columns, tile.head
        g, q, o, mu = (take_part(x, rows, head) for x in (grad, query, output, maximum))
        k, v = (take_part(x, columns, head) for x in (key, value))
        q, bias = _queries_and_bias(tile, diagonals, query.shape[-2], q)
        if diagonals is not None:
            g, o, mu = (x.flip(-2) for x in (g, o, mu))
        in_pieces = k.dim() > q.dim()
        if in_pieces:
            g, q, o, mu = (
                x.unsqueeze(-3).expand(*k.shape[:-2], *x.shape[-2:]) for x in (g, q, o, mu)
            )
        operands = Operands(q, k, v, bias, tile.is_causal, scale)
        d_q, d_k, d_v, d_scores = compute(operands, g, o, mu)
        if in_pieces:
            d_q = d_q.sum(-3)
        parts: list[tuple[Part, Tensor]] = [(rows, d_q), (columns, d_k), (columns, d_v)]
        if d_scores is not None and diagonals is not None:
            parts[0] = rows, d_q.flip(-2)
            along = _diagonals(tile, query.shape[-2])
            parts.append((along, _sums_of_diagonals(d_scores)[..., None]))
        for place, (where, part) in enumerate(parts):
            into[place] = add_part(into[place], given[place], head, where, part)
    return [
        torch.zeros_like(like) if total is None else total
        for total, like in zip(into, given, strict=True)
    ]


def _merge_pieces(pieces: Partial) -> Partial:
    """What the same queries found in several pieces, ``(..., b, r, d)``, as one."""
    maximum = pieces.maximum.amax(-3)  # (..., r, 1)
    shares = pieces.normaliser * (pieces.maximum - maximum.unsqueeze(-3)).exp()  # (..., b, r, 1)
    total = shares.sum(-3)
    return Partial((shares * pieces.output).sum(-3) / total, maximum, total)


def _queries_and_bias(
    tile: Tile, diagonals: Tensor | None, n: int, query: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Queries and bias; where diagonals are added, from the last query to the first.

    Each row of their table begins one place before the row above it. From below each begins one
    after the other, so that the table is a view: no memory, and 0.75 of the time with a copy of it.
    """
    if diagonals is None:
        return query, tile.bias
    along = diagonals[tile.head][..., _diagonals(tile, n), 0]  # (..., r + c - 1)
    table = along.unfold(-1, along.shape[-1] - query.shape[-2] + 1, 1)  # (..., r, c)
    return query.flip(-2), table if tile.bias is None else table + tile.bias.flip(-2)


def _diagonals(tile: Tile, n: int) -> slice:
    """Where a vector over all distances, the least first, holds the distances of a tile."""
    rows, columns = tile.rows, tile.columns
    assert isinstance(rows, slice)
    assert isinstance(columns, slice)
    first = n - rows.stop + columns.start  # of the last row and the first column
    return slice(first, first + (rows.stop - rows.start) + (columns.stop - columns.start) - 1)


def _sums_of_diagonals(table: Tensor) -> Tensor:
    """What each diagonal of a table ``(..., r, c)`` from below adds up to, ``(..., r + c - 1)``."""
    rows, columns = table.shape[-2:]
    # Filled up by as many zeros as there are rows, and read again in rows one place shorter, each
    # row is one place further right than the one above it.
    filled = pad(table, (0, rows)).flatten(-2)  # (..., rows * (columns + rows))
    width = rows + columns - 1
    lines = filled[..., : rows * width].reshape(*table.shape[:-2], rows, width)
    return lines.sum(-2)  # (..., width)


def holds(like: Tensor) -> bool:
    """Whether the scores of a tile are held, for no kernel computes it."""
    return like.device.type not in ("cpu", "meta")


# What autograd sees.


def _forwards_twice() -> bool:
    """Whether torch.func takes a derivative of a derivative, one of them in forward mode.

    A function of autograd loses what a second transform makes of its derivative forwards.
    """
    if torch.compiler.is_compiling():
        return False
    levels = torch._C._functorch.get_interpreter_stack()
    kinds = [level.key() for level in levels or ()]
    forwards, backwards = (
        kinds.count(kind)
        for kind in (torch._C._functorch.TransformType.Jvp, torch._C._functorch.TransformType.Grad)
    )
    return forwards > 0 and forwards + backwards > 1


_LEARNED = 5  # query, key, value, sink and diagonals have gradients; the masks after them have not


def _formula(plan: Plan, scale: float, *given: Any) -> Tensor:
    """The output by operations that autograd knows, in the dtype of computation."""
    query, key, value, sink, diagonals, *masks = given
    wide = torch.promote_types(query.dtype, torch.float32)
    query, key, value = (x.to(wide) for x in (query, key, value))
    output, lse = plan.formula(scale, Inputs(query, key, value, diagonals), *masks)
    if sink is None:
        return output
    lse = lse[..., None]
    largest = lse.detach()
    total = (lse - largest.masked_fill(largest == -torch.inf, 0.0)).exp()
    return _add_sink(Partial(output, largest, total), sink).output


def _add_sink(found: Partial, sink: Tensor) -> Partial:
    """Together with one more key, whose value is zero and whose score is ``sink``."""
    score = sink.to(found.maximum.dtype)
    return merge(found, Partial(torch.zeros_like(score), score, torch.ones_like(score)))


def compute_partial(plan: Plan, scale: float, inputs: Inputs, *masks: Tensor) -> Partial:
    """What each query finds, in the dtype of computation; without derivatives."""
    plan = plan.refine(*masks)
    prepared = _prepare(plan, inputs, narrow=plan.once and not holds(inputs.query))
    tiles = plan.tiles(inputs.shape, prepared.query, *masks)
    whole = forward(tiles, scale, prepared, complete=plan.complete)
    lead, d_v = inputs.shape[:-1], inputs.value.shape[-1]
    if plan.flat:
        whole = Partial(*(x[:-1].reshape(*lead, x.shape[-1]) for x in whole))
    # Copied, for PyTorch's forward mode takes no view for an output.
    if plan.flat or whole.output.shape[-1] > d_v:
        whole = Partial(whole.output[..., :d_v].clone(), *(x.clone() for x in whole[1:]))
    return whole


class _Attention(torch.autograd.Function):
    """The output, ``(..., n, d_v)``, and what is known of each row, which has no derivative."""

    @staticmethod
    def forward(plan: Plan, scale: float, *given: Any) -> tuple[Tensor, ...]:
        query, key, value, sink, diagonals, *masks = given
        own = compute_partial(plan, scale, Inputs(query, key, value, diagonals), *masks)
        return tuple(own if sink is None else _add_sink(own, sink))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.plan, ctx.scale, *tensors = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*output, *tensors)  # masks too: changed in place, they would lie
        ctx.save_for_forward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        grad = grad.to(ctx.saved_tensors[1].dtype)  # the dtype of computation
        arguments = ctx.plan, ctx.scale, grad, *ctx.saved_tensors
        # Only what is recorded needs a derivative, and torch.compile does not nest functions.
        pulled = (_Gradients.apply if torch.is_grad_enabled() else _Gradients.forward)(*arguments)
        given = ctx.saved_tensors[3:]
        return None, None, *_fill_places(pulled, given), *(None for _ in given[_LEARNED:])

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], plan: Plan, scale: float, *given: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        batched = _batch_in_front(info.batch_size, in_dims[2:], given, _LEARNED)
        return _function().apply(plan, scale, *batched), (0, 0, 0)  # type: ignore[no-untyped-call]


class _WithForwardMode(_Attention):
    """The same for derivatives in forward mode, with which the compiler traces no function."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        output, _, _, *given = ctx.saved_tensors
        formula, inputs = _bind_learned(ctx.plan, ctx.scale, given)
        along = tuple(
            torch.zeros_like(x) if tangent is None else tangent
            for x, tangent in zip(given[:_LEARNED], tangents[2:], strict=False)
            if x is not None
        )
        found, pull = torch.func.vjp(formula, *inputs)[:2]
        # What pulls gradients back is linear, and its own transpose pushes tangents forward.
        pushed = torch.func.vjp(pull, torch.zeros_like(found))[1](along)[0]
        return pushed.to(output.dtype), None, None


def _function() -> type[_Attention]:
    return _Attention if torch.compiler.is_compiling() else _WithForwardMode


class _Gradients(torch.autograd.Function):
    """The gradients of what is learned, tile by tile; their own come from the formula."""

    @staticmethod
    def forward(plan: Plan, scale: float, grad: Tensor, *tensors: Any) -> tuple[Tensor, ...]:
        known, (query, key, value, sink, diagonals, *masks) = Partial(*tensors[:3]), tensors[3:]
        plan, inputs = plan.refine(*masks), Inputs(query, key, value, diagonals)
        prepared = _prepare(plan, inputs)
        tiles = plan.tiles(inputs.shape, prepared.query, *masks, backward=True)
        wide = pad_widths(prepared.value, *(x.to(grad.dtype) for x in (grad, known.output)))
        upstream, *rows = (_row_by_row(plan, x) for x in (*wide[1:], *known[1:]))
        into = backward(tiles, scale, upstream, prepared, Partial(*rows))
        if plan.flat:
            into[0] = into[0][:-1]
        if sink is not None:
            through = -_weight(sink, known) * (grad * known.output).sum(-1, keepdim=True)
            into.insert(3, through.sum_to_size(sink.shape))
        like = (x for x in tensors[3 : 3 + _LEARNED] if x is not None)
        return tuple(
            (x if x.shape == y.shape else x[..., : y.shape[-1]].reshape(y.shape)).to(y.dtype)
            for x, y in zip(into, like, strict=True)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.plan, ctx.scale, grad, _, _, _, *given = inputs
        ctx.save_for_backward(grad, *given)

    @staticmethod
    def backward(ctx: Any, *second: Tensor) -> tuple[Tensor | None, ...]:
        grad, *given = ctx.saved_tensors
        formula, inputs = _bind_learned(ctx.plan, ctx.scale, given)

        def gradients(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(torch.func.vjp(formula, *inputs)[1](grad))

        # The output is a function of the inputs, and the formula knows it.
        d_grad, *pulled = torch.func.vjp(gradients, grad, *inputs)[1](second)
        rest = (None for _ in given[_LEARNED:])
        return None, None, d_grad, None, None, None, *_fill_places(pulled, given), *rest

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], plan: Plan, scale: float, *tensors: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        batched = _batch_in_front(info.batch_size, in_dims[2:], tensors, 4 + _LEARNED)
        gradients = _Gradients.apply(plan, scale, *batched)  # type: ignore[no-untyped-call]
        return gradients, (0,) * len(gradients)


def _weight(sink: Tensor, known: Partial) -> Tensor:
    """The weight of the sink, ``(..., n, 1)``."""
    maximum = known.maximum.masked_fill(known.maximum == -torch.inf, 0.0)
    total = known.normaliser.masked_fill(known.normaliser == 0, 1.0)
    return (sink.to(maximum.dtype) - maximum).exp() / total


def _prepare(plan: Plan, inputs: Inputs, *, narrow: bool = False) -> Inputs:
    """The same in the dtype of computation, with vectors side by side, and for a kernel of one
    width: if each tile had to be filled up, stretches that overlap would be copied.
    """
    dtype = inputs.query.dtype
    dtype = dtype if narrow else torch.promote_types(dtype, torch.float32)
    tensors = [side_by_side(x.to(dtype)) for x in inputs[:3] if x is not None]
    if not holds(inputs.query):
        tensors = pad_widths(*tensors)
    query, key, value = tensors
    if plan.flat:
        key, value = key.flatten(0, -2), value.flatten(0, -2)
    diagonals = None if inputs.diagonals is None else cast_mask(inputs.diagonals, dtype)
    return Inputs(_row_by_row(plan, query), key, value, diagonals)


def _row_by_row(plan: Plan, rows: Tensor) -> Tensor:
    """Of a flat plan all heads in one row, with a query at its end that is not there."""
    return pad(rows.flatten(0, -2), (0, 0, 0, 1)) if plan.flat else rows


def _bind_learned(
    plan: Plan, scale: float, given: Sequence[Any]
) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """The formula as a function of those inputs that are there and have gradients."""

    def formula(*inputs: Tensor) -> Tensor:
        return _formula(plan, scale, *_fill_places(inputs, given), *given[_LEARNED:])

    return formula, [x for x in given[:_LEARNED] if x is not None]


def _fill_places(those: Iterable[Tensor], given: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Something for each input that is there, and None for the others."""
    left = iter(those)
    return [None if x is None else next(left) for x in given[:_LEARNED]]


def _batch_in_front(
    size: int, dims: Sequence[int | None], tensors: Sequence[Tensor | None], own: int
) -> list[Tensor | None]:
    """All with the dimension of vmap first; tensors beyond ``own`` broadcast if they have none."""
    rank = max(
        x.dim() - (dim is not None)
        for x, dim in zip(tensors[:own], dims[:own], strict=True)
        if x is not None
    )
    found: list[Tensor | None] = []
    for index, (x, dim) in enumerate(zip(tensors, dims, strict=True)):
        if x is not None and dim is not None:
            front = x.movedim(dim, 0)
            x = front.reshape(size, *(1,) * (rank + 1 - front.dim()), *front.shape[1:])
        elif x is not None and index < own:
            x = x.expand(size, *x.shape)
        found.append(x)
    return found
