"""Loops over blocks as functions of autograd, whose derivatives have derivatives."""

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad

from attnref._door import own_precision
from attnref.softmax import Partial, merge


class Core(Protocol):
    """Attention by blocks, backward too, and as a plain formula; its masks carry no gradient.

    A core that learns more than query, key and value has the others before its masks, gives their
    gradients too, and says how many there are in all by an attribute ``inputs``.
    """

    @property
    def unit(self) -> float:
        """That of the maximum below: 1, or ln 2 where powers of 2 are summed."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output; each row's sum of powers, and the score subtracted first, (..., n, 1)."""

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
    ) -> tuple[Tensor, ...]:
        """The gradients of query, key and value, from those of output and normaliser."""

    def formula(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp by operations that autograd knows: for second derivatives."""


_FEW_PAIRS = 1024 * 1024  # of these the weights may be held


def attention(core: Core, *tensors: Tensor, by_values: bool = False) -> Tensor:
    """The output of a core, ``(..., n, d_v)``, with derivatives of every order; see below."""
    return partial_result(core, *tensors, by_values=by_values).output


def partial_result(core: Core, *tensors: Tensor, by_values: bool = False) -> Partial:
    """What a core finds, with derivatives of every order by output and normaliser.

    The maximum has none: only its product with the normaliser counts, so it may be any constant.
    A core that does not tell its sums gives a normaliser of width 0.

    ``by_values`` says that values decide which blocks are computed, and how. A graph that is
    traced holds no values: there the formula computes.
    """
    traced = by_values and torch.compiler.is_compiling()
    if traced and (pairs := tensors[0].shape[-2] * tensors[1].shape[-2]) > _FEW_PAIRS:
        raise ValueError(
            f"query: expected at most {_FEW_PAIRS} pairs of queries and keys under "
            f"torch.compile(fullgraph=True) or torch.export, got {pairs}. How blocks are computed "
            "depends on values, which a graph does not hold: leave the call out of it with "
            "torch.compiler.disable, or give mask.block_mask() to FlexAttention."
        )
    levels = None
    if not torch.compiler.is_compiling():
        levels = torch._C._functorch.get_interpreter_stack()
    # A function of autograd loses what a second transform makes of its derivative forwards.
    if traced or tensors[0].is_meta or (levels and _forwards_twice(levels)):
        output, lse = core.formula(*tensors)
        maximum = lse.detach()[..., None]  # (..., n, 1)
        return Partial(output, maximum, _normaliser(lse, maximum))
    if not torch.compiler.is_compiling():
        found = _WithForwardMode.apply(core, *tensors)  # type: ignore[no-untyped-call]
    # The compiler calls a function that needs no derivative as if it had no setup_context.
    elif is_derived(*tensors):
        found = _Attention.apply(core, *tensors)  # type: ignore[no-untyped-call]
    else:
        found = _Attention.forward(core, *tensors)
    output, normaliser, maximum = found
    return Partial(output, maximum * core.unit, normaliser)


def beside_sink(found: Partial, sink: Tensor) -> Tensor:
    """The output when a further key, whose value is zero, has the score ``sink``, (..., n, 1)."""
    score = sink.to(found.maximum.dtype)
    alone = Partial(torch.zeros_like(score), score, torch.ones_like(score))
    return merge(found, alone).output


def is_derived(*tensors: Tensor) -> bool:
    """Whether a derivative by one of these is wanted, backwards or forwards."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return True
    if torch.compiler.is_compiling():
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)  # type: ignore[no-untyped-call]


def _forwards_twice(levels: Sequence[Any]) -> bool:
    """Whether torch.func takes a derivative of a derivative, one of them in forward mode."""
    kinds = [level.key() for level in levels]
    forward, backward = (
        kinds.count(kind)
        for kind in (torch._C._functorch.TransformType.Jvp, torch._C._functorch.TransformType.Grad)
    )
    return forward > 0 and forward + backward > 1


def _inputs(core: Core) -> int:
    """How many of the tensors of a core have a gradient; they come first."""
    return getattr(core, "inputs", 3)


class _Attention(torch.autograd.Function):
    """The output, ``(..., n, d_v)``, the sums of each row, and what was subtracted first."""

    @staticmethod
    def forward(core: Core, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with own_precision(tensors[0].device):
            return core.forward(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.core, *tensors = inputs
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*output, *tensors)  # masks too: changed in place, they would lie
        ctx.save_for_forward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *known, query, key, value = ctx.saved_tensors[:6]
        others = ctx.saved_tensors[6:]
        arguments = ctx.core, *grads[:2], query, key, value, *known, *others
        # Only what is recorded needs a derivative, and torch.compile does not nest functions.
        gradients = (_Gradients.apply if torch.is_grad_enabled() else _Gradients.forward)(
            *arguments
        )
        return None, *gradients, *(None for _ in range(3 + len(others) - len(gradients)))

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], core: Core, *tensors: Tensor
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
        batched = _batch_in_front(info.batch_size, in_dims[1:], tensors, _inputs(core))
        return _function().apply(core, *batched), (0, 0, 0)  # type: ignore[no-untyped-call]


class _WithForwardMode(_Attention):
    """The same for derivatives in forward mode, with which the compiler traces no function."""

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, Tensor, None]:
        _, normaliser, maximum, *tensors = ctx.saved_tensors
        count = _inputs(ctx.core)
        inputs, masks = tensors[:count], tensors[count:]
        along = tuple(
            torch.zeros_like(x) if tangent is None else tangent
            for x, tangent in zip(inputs, tangents[:count], strict=True)
        )
        formula = functools.partial(_formula, ctx.core, normaliser, maximum, masks)
        found, pull = torch.func.vjp(formula, *inputs)[:2]
        # What pulls gradients back is linear, and its own transpose pushes tangents forward.
        push = torch.func.vjp(pull, tuple(torch.zeros_like(x) for x in found))[1]
        return *push(along)[0], None


def _function() -> type[_Attention]:
    return _Attention if torch.compiler.is_compiling() else _WithForwardMode


def _formula(
    core: Core, normaliser: Tensor, maximum: Tensor, masks: Sequence[Tensor], *inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Output and normaliser, the latter beside the maximum that was found."""
    output, lse = core.formula(*inputs, *masks)
    return output, _normaliser(lse, maximum * core.unit)[..., : normaliser.shape[-1]]


def _normaliser(lse: Tensor, maximum: Tensor) -> Tensor:
    """Each row's sum of exponentials, ``(..., n, 1)``; 0 where there are none."""
    return torch.exp(lse[..., None] - maximum.masked_fill(maximum == -torch.inf, 0.0)).to(
        maximum.dtype
    )


class _Gradients(torch.autograd.Function):
    """The gradients of the inputs, by blocks; their own come from the formula."""

    @staticmethod
    def forward(core: Core, *tensors: Tensor) -> tuple[Tensor, ...]:
        with own_precision(tensors[0].device):
            return core.backward(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.core, grad, grad_normaliser, query, key, value, _, *rest = inputs
        ctx.save_for_backward(grad, grad_normaliser, query, key, value, *rest)

    @staticmethod
    def backward(ctx: Any, *second: Tensor) -> tuple[Tensor | None, ...]:
        grad, grad_normaliser, query, key, value = ctx.saved_tensors[:5]
        normaliser, maximum, *others = ctx.saved_tensors[5:]
        learned = _inputs(ctx.core) - 3
        inputs, masks = (query, key, value, *others[:learned]), others[learned:]
        formula = functools.partial(_formula, ctx.core, normaliser, maximum, masks)

        def gradients(grad: Tensor, grad_normaliser: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(torch.func.vjp(formula, *inputs)[1]((grad, grad_normaliser)))

        # Output and normaliser are functions of the inputs, and the formula knows it.
        pulled = torch.func.vjp(gradients, grad, grad_normaliser, *inputs)[1](second)
        return None, *pulled[:5], None, None, None, *pulled[5:], *(None for _ in masks)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], core: Core, *tensors: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        batched = _batch_in_front(info.batch_size, in_dims[1:], tensors, 5 + _inputs(core))
        gradients = _Gradients.apply(core, *batched)  # type: ignore[no-untyped-call]
        return gradients, (0,) * len(gradients)


def _batch_in_front(
    size: int, dims: Sequence[int | None], tensors: Sequence[Tensor], own: int
) -> list[Tensor]:
    """All with the dimension of vmap first; tensors beyond ``own`` broadcast if they have none."""
    rank = max(
        x.dim() - (dim is not None) for x, dim in zip(tensors[:own], dims[:own], strict=True)
    )
    found = []
    for index, (x, dim) in enumerate(zip(tensors, dims, strict=True)):
        if dim is not None:
            front = x.movedim(dim, 0)
            x = front.reshape(size, *(1,) * (rank + 1 - front.dim()), *front.shape[1:])
        elif index < own:
            x = x.expand(size, *x.shape)
        found.append(x)
    return found
