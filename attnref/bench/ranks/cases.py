"""What each rank calls: attention to a shared sequence, and the messages of it alone.

Query, key and value are as long and as wide as each other, and each query sees the keys up to its
own position. What a case does before it returns is not timed.
"""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from attnref.bench.problems import BenchError
from attnref.checks import Shape
from attnref.distributed._agreement import check_first_derivative
from attnref.distributed._messages import collect, pass_on, swap
from attnref.distributed._ranks import Ranks, ranks_of
from attnref.distributed.gathered_keys import gather_attention
from attnref.distributed.ring import ring_attention
from attnref.distributed.ulysses import ulysses_attention
from attnref.layouts import length, rank_positions

Run = Callable[[], Tensor]

_HERE = "attnref bench"  # what an error of a lost rank names


@dataclass(frozen=True)
class Part:
    """What a rank has of n positions: ``(1, heads, n_r, d)`` each, in a layout."""

    query: Tensor
    key: Tensor
    value: Tensor
    n: int
    layout: str

    def shapes(self, ranks: Ranks, heads: int) -> list[Shape]:
        """Of the parts of all ranks, in so many heads."""
        counts = [
            length(rank_positions(self.n, ranks=ranks.size, rank=rank, layout=self.layout))
            for rank in range(ranks.size)
        ]
        return [(1, heads, count, self.query.shape[-1]) for count in counts]


def sdpa(part: Part) -> Run:
    query, key, value = part.query, part.key, part.value
    return lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)


def ring(part: Part) -> Run:
    query, key, value, layout = part.query, part.key, part.value, part.layout
    return lambda: ring_attention(query, key, value, is_causal=True, layout=layout)


def gather(part: Part) -> Run:
    query, key, value, layout = part.query, part.key, part.value, part.layout
    return lambda: gather_attention(query, key, value, is_causal=True, layout=layout)


def ulysses(part: Part) -> Run:
    query, key, value, layout = part.query, part.key, part.value, part.layout
    return lambda: ulysses_attention(query, key, value, is_causal=True, layout=layout)


def pytorch_ring(part: Part) -> Run:
    """PyTorch's ring, given the kernel of a processor, for which it knows none of its own."""
    chunks = 2 * dist.get_world_size()
    if part.n % chunks:
        raise BenchError(
            "n: expected a multiple of {chunks}, two chunks for each rank, got {n}",
            chunks=chunks,
            n=part.n,
        )
    from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

    group, kernels = ranks_of(_HERE, None).group, torch.ops.aten
    forward_kernel = kernels._scaled_dot_product_flash_attention_for_cpu
    backward_kernel = kernels._scaled_dot_product_flash_attention_for_cpu_backward

    class Ring(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            output, lse, *_ = theirs._templated_ring_attention(
                group, 2, forward_kernel, query, key, value, is_causal=True
            )
            ctx.save_for_backward(query, key, value, output, lse)
            return output

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
            check_first_derivative("pytorch_ring")
            query, key, value, output, lse = ctx.saved_tensors
            pulled = theirs._templated_ring_attention_backward(
                *(group, 2, backward_kernel, grad, "grad_out"),
                *(query, key, value, output, lse),
                is_causal=True,
                dropout_p=0.0,
            )
            return pulled[:3]

    def run() -> Tensor:
        output: Tensor = Ring.apply(part.query, part.key, part.value)  # type: ignore[no-untyped-call]
        return output

    return run


def enter_context_parallel() -> AbstractContextManager[None]:
    """Where PyTorch's attention is that of all ranks, for parts that are cut already."""
    from torch.distributed.tensor.experimental import context_parallel

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    found: AbstractContextManager[None] = context_parallel(mesh)
    return found


# Messages alone: as many, as large and in the same order, with nothing computed between them.


def ring_messages(part: Part) -> Callable[[], None]:
    ranks = ranks_of(_HERE, None)
    shapes = part.shapes(ranks, part.key.shape[1])

    def run() -> None:
        block = part.key, part.value
        for step in range(1, ranks.size):
            arrives = [shapes[(ranks.rank - step) % ranks.size]] * 2
            block = pass_on(ranks, block, arrives, hop=1, what="keys and values").wait()

    return run


def gather_messages(part: Part) -> Callable[[], None]:
    ranks = ranks_of(_HERE, None)
    shapes = part.shapes(ranks, part.key.shape[1])

    def run() -> None:
        for x in (part.key, part.value):
            collect(ranks, x, shapes, what="keys and values")

    return run


def ulysses_messages(part: Part) -> Callable[[], None]:
    ranks = ranks_of(_HERE, None)
    shapes = part.shapes(ranks, part.key.shape[1] // ranks.size)
    outputs = [part.query.new_zeros(shape) for shape in shapes]  # in the heads of this rank

    def run() -> None:
        for x in (part.query, part.key, part.value):
            swap(ranks, x.chunk(ranks.size, 1), shapes, what="parts of all heads")
        swap(ranks, outputs, [outputs[ranks.rank].shape] * ranks.size, what="heads of all parts")

    return run


@dataclass(frozen=True)
class Case:
    """A method across ranks: how it is called, in which layout, and where it comes from.

    ``messages`` makes what it sends, alone; None for what sends nothing, or does it elsewhere.
    ``defined`` is as in :class:`attnref.bench.methods.Method`; ``device`` is the only type of
    device on which it runs, and ``most`` the most ranks that it takes, None for any.
    """

    prepare: Callable[[Part], Run]
    layout: str = "zigzag"
    messages: Callable[[Part], Callable[[], None]] | None = None
    defined: tuple[str, str] | None = None
    device: str | None = None
    most: int | None = None
    within: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


_RING = ("attnref.distributed.ring", "ring_attention")
_GATHER = ("attnref.distributed.gathered_keys", "gather_attention")
_ULYSSES = ("attnref.distributed.ulysses", "ulysses_attention")
CASES = {
    "sdpa": Case(sdpa, "contiguous", most=1),
    "ring_zigzag": Case(ring, "zigzag", ring_messages, _RING),
    "ring_striped": Case(ring, "striped", ring_messages, _RING),
    "ring_contiguous": Case(ring, "contiguous", ring_messages, _RING),
    "gather": Case(gather, "zigzag", gather_messages, _GATHER),
    "ulysses": Case(ulysses, "zigzag", ulysses_messages, _ULYSSES),
    "pytorch_ring": Case(pytorch_ring, device="cpu"),
    "context_parallel": Case(sdpa, device="cuda", within=enter_context_parallel),
}
