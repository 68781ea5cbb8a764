"""The three ways in which tensors travel between ranks; nothing else in this package sends any."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import Work

from attnref.checks import Shape
from attnref.distributed._ranks import Ranks


class Posted(NamedTuple):
    """Two tensors on their way to a rank, and two that arrive from another."""

    ranks: Ranks
    leaving: Sequence[Tensor]  # alive until they have left
    arriving: tuple[Tensor, Tensor]
    requests: list[Work]
    said: str

    def wait(self) -> tuple[Tensor, Tensor]:
        """Those that arrive, once they are here."""
        with self.ranks.describe_failure(self.said):
            for request in self.requests:
                request.wait()
        return self.arriving


def pass_on(
    ranks: Ranks, tensors: tuple[Tensor, Tensor], shapes: Sequence[Shape], *, hop: int, what: str
) -> Posted:
    """Sends to the rank ``hop`` places ahead, and receives from the one as far behind."""
    ahead, behind = ranks.name(ranks.rank + hop), ranks.name(ranks.rank - hop)
    leaving = [x.contiguous() for x in tensors]
    key, value = (x.new_empty(shape) for x, shape in zip(tensors, shapes, strict=True))
    arriving = key, value
    said = f"sent {what} to rank {ahead} and awaited others from rank {behind}"
    with ranks.describe_failure(said):
        requests = dist.batch_isend_irecv(
            [
                *(dist.P2POp(dist.isend, x, ahead, ranks.group) for x in leaving),
                *(dist.P2POp(dist.irecv, x, behind, ranks.group) for x in arriving),
            ]
        )
    return Posted(ranks, leaving, arriving, requests, said)


def collect(ranks: Ranks, tensor: Tensor, shapes: Sequence[Shape], *, what: str) -> list[Tensor]:
    """The tensors of all ranks, of these shapes, everywhere."""
    sizes = [math.prod(shape) for shape in shapes]
    mine = tensor.new_zeros(max(sizes))  # an all-gather takes parts of one size
    mine[: tensor.numel()] = tensor.flatten()
    found = [torch.empty_like(mine) for _ in shapes]
    with ranks.describe_failure(f"gathered {what}"):
        dist.all_gather(found, mine, group=ranks.group)
    pieces = zip(found, sizes, shapes, strict=True)
    return [x[:size].reshape(shape) for x, size, shape in pieces]


def swap(
    ranks: Ranks, tensors: Sequence[Tensor], shapes: Sequence[Shape], *, what: str
) -> list[Tensor]:
    """Sends a tensor to each rank, and receives one of the given shape from each."""
    sizes = [math.prod(shape) for shape in shapes]
    leaving = torch.cat([x.flatten() for x in tensors])
    arriving = leaving.new_empty(sum(sizes))
    with ranks.describe_failure(f"swapped {what}"):
        dist.all_to_all_single(
            arriving, leaving, sizes, [x.numel() for x in tensors], group=ranks.group
        )
    pieces = zip(torch.split(arriving, sizes), shapes, strict=True)
    return [x.reshape(shape) for x, shape in pieces]
